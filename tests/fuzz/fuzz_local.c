/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=common/local,common/config */
/* Messages between processes of one node, as the agent, a worker or the data process
 * gets them. The first byte is the number of descriptors that come along.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/local/message.h"
#include "tests/fuzz/fuzz.h"

#define FDS_MAX 32

static void send_raw(int to, const uint8_t *data, size_t size, unsigned nfds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    } control = {0};
    struct iovec part = {(void *)data, size};
    struct msghdr hdr = {.msg_iov = &part, .msg_iovlen = 1};

    if (nfds > 0) {
        struct cmsghdr *c = &control.align;

        hdr.msg_control = control.bytes;
        hdr.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        for (unsigned i = 0; i < nfds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &to, sizeof(to));
    }
    sendmsg(to, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The lowest free descriptor: one that is lost moves it. */
static int lowest_free(void)
{
    int fd = dup(0);

    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2], fds[DLR_LOCAL_FDS], before;
    struct dlr_local_msg *msg =
        malloc(sizeof(*msg)); /* so that one byte beyond is seen */
    unsigned nfds = 0;

    if (size == 0 || !msg ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
        free(msg);
        return 0;
    }
    before = lowest_free();
    send_raw(pair[0], data + 1, size - 1, data[0] % (FDS_MAX + 1));
    if (dlr_local_recv(pair[1], msg, fds, &nfds) == 1) {
        FUZZ_CHECK(msg->magic == DLR_LOCAL_MAGIC && msg->text_len < DLR_LOCAL_TEXT);
        FUZZ_CHECK(msg->text[msg->text_len] == '\0' && nfds <= DLR_LOCAL_FDS);
        for (unsigned i = 0; i < nfds; i++)
            close(fds[i]);
    }
    FUZZ_CHECK(lowest_free() == before);
    close(pair[0]);
    close(pair[1]);
    free(msg);
    return 0;
}
