/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/slot needs=dlrover-data */
/* Measures the stream of snapshots to a partner, and raw TCP beside it. The receiving
 * side prints one line that the sending side is given:
 *
 *   stream recv MIB COPIES                 prints the address of its dlrover-data
 *   stream send ADDRESS MIB COPIES
 *   stream tcp-recv MIB COPIES             prints a port
 *   stream tcp-send HOST PORT MIB COPIES
 *
 * A sending side prints "BYTES NANOSECONDS" for each copy: from the order to the
 * receiver's word that all of it is there (and, for snapshots, that every checksum was
 * right). Both sides of a stream end with "cpu BYTES NANOSECONDS": what all copies took
 * of the processor there. RIG_TRANSPORT: ucx or stream.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "tests/support/data_rig.h"

#define ROUND 1
#define RANK 0
#define PIECE (1u << 20)

static int die(const char *what)
{
    fprintf(stderr, "stream: %s: %s\n", what, strerror(errno));
    return 1;
}

static void report(uint64_t bytes, int64_t began_ns)
{
    printf("%" PRIu64 " %" PRId64 "\n", bytes, dlr_now_ns() - began_ns);
    fflush(stdout);
}

/* Processor time of the data process so far. */
static int64_t cpu_ns(const struct rig_data *p)
{
    clockid_t clock;
    struct timespec t = {0};

    if (clock_getcpuclockid(p->pid, &clock) == 0)
        clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int start(struct rig_data *p, uint64_t data, const char *accept)
{
    int rc;

    rig_start(p, NULL, NULL);
    rig_config(p, ROUND, RIG_TOKEN, accept);
    rc = rig_reserve(p, RANK, rig_slot_bytes(data));
    if (rc == 0)
        return 0;
    errno = rc;
    rig_end(p);
    rig_remove(p);
    return die("reserve");
}

static int run_recv(uint64_t data, unsigned copies)
{
    struct dlr_local_msg msg;
    struct rig_data p;
    int64_t began;

    if (start(&p, data, "[0]"))
        return 1;
    printf("%s\n", p.address);
    fflush(stdout);
    began = cpu_ns(&p);
    for (unsigned i = 0; i < copies; i++) {
        struct dlr_version v;

        rig_await(&p, DLR_LOCAL_D_COPIED, &msg);
        v = (struct dlr_version){ROUND, msg.step};
        rig_order(&p, DLR_LOCAL_D_COMMIT, ROUND, -1, v, 0, "");
    }
    printf("cpu %" PRIu64 " %" PRId64 "\n", data * copies, cpu_ns(&p) - began);
    rig_end(&p);
    rig_remove(&p);
    return 0;
}

static int run_send(const char *address, uint64_t data, unsigned copies)
{
    struct dlr_slot *slots[2];
    struct rig_data p;
    int64_t cpu;
    int rc = 0;

    if (start(&p, data, "[]"))
        return 1;
    cpu = cpu_ns(&p);
    slots[0] = rig_slot(&p, RANK, 0);
    slots[1] = rig_slot(&p, RANK, 1);
    for (unsigned i = 0; i < copies && rc == 0; i++) {
        struct dlr_version v = {ROUND, i + 1};
        int64_t began;

        rig_snapshot(slots[i % 2], RANK, v, data);
        began = dlr_now_ns();
        rig_send_save(&p, ROUND, RANK, v, i, address);
        rc = rig_done(&p, i, NULL, 0);
        if (rc == 0)
            report(data, began);
    }
    printf("cpu %" PRIu64 " %" PRId64 "\n", data * copies, cpu_ns(&p) - cpu);
    rig_end(&p);
    rig_remove(&p);
    errno = rc;
    return rc ? die("copy") : 0;
}

static void *memory(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static int run_tcp_recv(uint64_t data, unsigned copies)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t size = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0), peer;
    char *to = memory(data);

    if (fd < 0 || !to || bind(fd, (struct sockaddr *)&addr, size) < 0 ||
        listen(fd, 1) < 0 || getsockname(fd, (struct sockaddr *)&addr, &size) < 0)
        return die("listen");
    printf("%u\n", ntohs(addr.sin_port));
    fflush(stdout);
    peer = accept(fd, NULL, NULL);
    for (unsigned i = 0; i < copies; i++) {
        for (uint64_t at = 0; at < data; at += PIECE)
            if (dlr_read_all(peer, to + at, PIECE) < 0)
                return die("read");
        if (dlr_write_all(peer, "k", 1) < 0)
            return die("write");
    }
    return 0;
}

static int run_tcp_send(const char *host, const char *port, uint64_t data,
                        unsigned copies)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    char *from = memory(data), answer;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || !from || getaddrinfo(host, port, &hints, &found) != 0 ||
        connect(fd, found->ai_addr, found->ai_addrlen) < 0)
        return die("connect");
    freeaddrinfo(found);
    for (unsigned i = 0; i < copies; i++) {
        int64_t began = dlr_now_ns();

        for (uint64_t at = 0; at < data; at += PIECE)
            if (dlr_write_all(fd, from + at, PIECE) < 0)
                return die("write");
        if (dlr_read_all(fd, &answer, 1) < 0)
            return die("read");
        report(data, began);
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned mib = 0, copies = 0;

    if (argc < 4 || dlr_parse_uint(argv[argc - 2], 1u << 20, &mib) < 0 || !mib ||
        dlr_parse_uint(argv[argc - 1], 1000, &copies) < 0) {
        fprintf(stderr, "usage: stream recv|tcp-recv MIB COPIES\n"
                        "       stream send ADDRESS MIB COPIES\n"
                        "       stream tcp-send HOST PORT MIB COPIES\n");
        return 2;
    }
    if (argc == 4 && dlr_streq(argv[1], "recv"))
        return run_recv((uint64_t)mib << 20, copies);
    if (argc == 5 && dlr_streq(argv[1], "send"))
        return run_send(argv[2], (uint64_t)mib << 20, copies);
    if (argc == 4 && dlr_streq(argv[1], "tcp-recv"))
        return run_tcp_recv((uint64_t)mib << 20, copies);
    if (argc == 6 && dlr_streq(argv[1], "tcp-send"))
        return run_tcp_send(argv[2], argv[3], (uint64_t)mib << 20, copies);
    fprintf(stderr, "stream: bad command '%s'\n", argv[1]);
    return 2;
}
