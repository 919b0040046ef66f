/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/data_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/slot/store.h"
#include "ckpt/slot/write.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "common/local/split.h"

static void die(const char *what, const char *why)
{
    fprintf(stderr, "data_rig: %s: %s\n", what, why);
    abort();
}

/* The program lies beside the caller, or one folder up from a test. */
static void find_program(char *path, size_t size)
{
    if (dlr_install_path_sibling("dlrover-data", path, size) == 0 &&
        access(path, X_OK) == 0)
        return;
    if (dlr_install_path_sibling("../dlrover-data", path, size) < 0 ||
        access(path, X_OK) < 0)
        die("dlrover-data", "not built");
}

static void exec_words(const char *program, char *first, const char *words)
{
    char *argv[8] = {(char *)program, first}, *rest = words ? strdup(words) : NULL;

    for (unsigned i = 2; i < 7 && rest; i++)
        argv[i] = strsep(&rest, " ");
    execv(program, argv);
    _exit(127);
}

void rig_start(struct rig_data *p, const char *dir, const char *option)
{
    char program[4096];

    find_program(program, sizeof(program));
    rig_start_program(p, program, dir, option);
}

void rig_start_program(struct rig_data *p, const char *program, const char *dir,
                       const char *option)
{
    const char *asked = getenv(RIG_TRANSPORT);
    struct dlr_local_msg msg;
    char transport[64];
    int pair[2];

    p->alone = false;
    p->hosts = NULL;
    dlr_format(transport, sizeof(transport), "--transport=%s", asked ? asked : "auto");
    if (dir) /* it may be p's own */
        memmove(p->dir, dir, strlen(dir) + 1);
    else if (dlr_format(p->dir, sizeof(p->dir), "/dev/shm/dlr-rig-XXXXXX") < 0 ||
             !mkdtemp(p->dir))
        die("mkdtemp", strerror(errno));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair", strerror(errno));
    p->pid = fork();
    if (p->pid < 0)
        die("fork", strerror(errno));
    if (p->pid == 0) {
        if (pair[1] == 3)
            fcntl(3, F_SETFD, 0);
        else
            dup2(pair[1], 3);
        exec_words(program, transport, option);
    }
    close(pair[1]);
    p->fd = pair[0];
    rig_await(p, DLR_LOCAL_D_HELLO, &msg);
    dlr_format(p->address, sizeof(p->address), "%s", msg.text);
}

static int reap(struct rig_data *p)
{
    int status = -1;

    waitpid(p->pid, &status, 0); /* until then it may tell something */
    close(p->fd);
    p->pid = 0;
    return status;
}

void rig_kill(struct rig_data *p)
{
    kill(p->pid, SIGKILL);
    reap(p);
}

void rig_remove(struct rig_data *p)
{
    dlr_store_remove(p->dir, NULL);
}

static bool readable(struct rig_data *p, int ms)
{
    struct pollfd fd = {.fd = p->fd, .events = POLLIN};

    return poll(&fd, 1, ms) == 1;
}

void rig_next(struct rig_data *p, struct dlr_local_msg *ret)
{
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;

    if (!readable(p, RIG_ANSWER_MS))
        die("dlrover-data", "no message in time");
    if (dlr_local_recv(p->fd, ret, fds, &nfds) != 1)
        die("dlrover-data", "it has ended");
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
}

bool rig_silent(struct rig_data *p, int ms)
{
    struct dlr_local_msg msg;

    while (readable(p, ms)) {
        rig_next(p, &msg);
        if (msg.type != DLR_LOCAL_D_USES)
            return false;
    }
    return true;
}

void rig_await(struct rig_data *p, enum dlr_local_type type, struct dlr_local_msg *ret)
{
    do
        rig_next(p, ret);
    while (ret->type != type);
}

static void say(struct rig_data *p, const struct dlr_local_msg *msg)
{
    int rc = dlr_local_send(p->fd, msg, NULL, 0);

    if (rc < 0 && rc != -EPIPE &&
        rc != -ECONNRESET) /* its death is found when it does not answer */
        die("send to dlrover-data", strerror(-rc));
}

/* D_CONFIG, in as many messages as it takes. */
static void configure(struct rig_data *p, uint32_t round, const char *token,
                      const char *accept, const char *fetch, const char *own,
                      bool resized)
{
    struct dlr_local_msg msg;
    DLR_AUTO_FREE char *text = NULL;
    int n = asprintf(&text,
                     "{\"dir\":\"%s\",\"key\":\"" RIG_KEY "\",\"round\":%u,"
                     "\"token\":\"%s\",\"accept\":%s,\"fetch\":%s,\"own\":%s,"
                     "\"resized\":%s%s%s%s}",
                     p->dir, round, token, accept, fetch, own,
                     resized ? "true" : "false", p->alone ? ",\"local\":false" : "",
                     p->hosts ? ",\"hosts\":" : "", p->hosts ? p->hosts : "");
    uint32_t count = n < 0 ? 0 : dlr_split_count((size_t)n);

    if (!count)
        die("D_CONFIG", "no memory");
    for (uint32_t i = 0; i < count; i++) {
        dlr_local_init(&msg, DLR_LOCAL_D_CONFIG);
        msg.round = round;
        dlr_split_put(&msg, text, (size_t)n, i, count);
        say(p, &msg);
    }
}

void rig_config(struct rig_data *p, uint32_t round, const char *token,
                const char *accept)
{
    configure(p, round, token, accept, "[]", "[]", false);
}

void rig_config_own(struct rig_data *p, uint32_t round, const char *token,
                    const char *accept, const char *own)
{
    configure(p, round, token, accept, "[]", own, false);
}

void rig_config_bring(struct rig_data *p, uint32_t round, const char *token,
                      const char *accept, const char *fetch)
{
    configure(p, round, token, accept, fetch, "[]", false);
}

void rig_config_resized(struct rig_data *p, uint32_t round, const char *token,
                        const char *accept, const char *fetch)
{
    configure(p, round, token, accept, fetch, "[]", true);
}

int rig_reserve_fetched(struct rig_data *p, int32_t rank, uint64_t bytes)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_D_RESERVE);
    msg.rank = rank;
    msg.arg[0] = bytes;
    msg.arg[1] = 1;
    msg.arg[2] = DLR_STORE_FETCHED;
    say(p, &msg);
    rig_await(p, DLR_LOCAL_D_RESERVED, &msg);
    return (int)msg.arg[1];
}

int rig_reserve(struct rig_data *p, int32_t rank, uint64_t bytes)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_D_RESERVE);
    msg.rank = rank;
    msg.arg[0] = bytes;
    msg.arg[1] = DLR_STORE_SLOTS;
    say(p, &msg);
    rig_await(p, DLR_LOCAL_D_RESERVED, &msg);
    if (msg.rank != rank || (!msg.arg[1] && msg.arg[0] != DLR_STORE_SLOTS))
        die("D_RESERVED", "not what was asked for");
    return (int)msg.arg[1];
}

struct dlr_slot *rig_slot(struct rig_data *p, int32_t rank, unsigned k)
{
    struct dlr_slot *slot;
    struct dlr_err err;
    char path[128];
    int fd;

    dlr_format(path, sizeof(path), "%s/r%d.s%u", p->dir, rank, k);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        die(path, strerror(errno));
    if (dlr_slot_map(fd, true, &slot, &err) < 0)
        die(path, err.text);
    close(fd);
    return slot;
}

static struct dlr_ckpt_region region_of(uint64_t data)
{
    return (struct dlr_ckpt_region){.name = "state",
                                    .kind = DLR_CKPT_LOCAL,
                                    .dtype = "u8",
                                    .item_size = 1,
                                    .ndim = 1,
                                    .global_shape = {data},
                                    .local_shape = {data}};
}

uint64_t rig_slot_bytes(uint64_t data)
{
    struct dlr_ckpt_region region = region_of(data);

    return dlr_slot_size(&region, 1);
}

/* Different bytes for each version and place; fast enough for gigabytes. */
static void scramble(void *buf, size_t bytes, uint64_t seed)
{
    unsigned char *p = buf;

    for (; bytes >= 8; bytes -= 8, p += 8) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        memcpy(p, &seed, 8);
    }
    memset(p, 0x5a, bytes);
}

void rig_snapshot(struct dlr_slot *slot, int32_t rank, struct dlr_version v,
                  uint64_t data)
{
    struct dlr_slot_owner owner = {dlr_slot_key(RIG_KEY), rank, 64};
    struct dlr_ckpt_region region = region_of(data);
    struct dlr_slot_plan *plan;
    struct dlr_err err;
    uint64_t left;

    if (dlr_slot_plan_new(&region, 1, &owner, &plan, &err) < 0)
        die("plan", err.text);
    if (dlr_slot_begin(slot, plan, v, NULL) < 0)
        die("begin", "the slot is too small");
    left = dlr_slot_plan_data(plan);
    for (uint32_t i = 0; i < dlr_slot_plan_blocks(plan); i++, left -= DLR_SLOT_BLOCK) {
        size_t bytes = left < DLR_SLOT_BLOCK ? left : DLR_SLOT_BLOCK;
        void *at = dlr_slot_data(slot, plan, (uint64_t)i * DLR_SLOT_BLOCK);

        scramble(at, bytes, v.step * 1000003 + (uint64_t)rank * 17 + i);
        dlr_slot_set_crc(slot, plan, i, dlr_crc32c(0, at, bytes));
    }
    dlr_slot_seal(slot, plan);
    dlr_slot_plan_free(plan);
}

static void order(struct rig_data *p, enum dlr_local_type type, uint32_t round,
                  int32_t rank, struct dlr_version v, uint64_t id, const char *text,
                  bool paced, unsigned follow)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, type);
    msg.round = round;
    msg.rank = rank;
    msg.step = v.step;
    msg.arg[0] = v.round;
    msg.arg[1] = id;
    msg.arg[2] = paced;
    msg.arg[3] = follow;
    dlr_local_text(&msg, "%s", text);
    say(p, &msg);
}

void rig_order(struct rig_data *p, enum dlr_local_type type, uint32_t round,
               int32_t rank, struct dlr_version v, uint64_t id, const char *text)
{
    order(p, type, round, rank, v, id, text, false, 0);
}

void rig_send_save(struct rig_data *p, uint32_t round, int32_t rank,
                   struct dlr_version v, uint64_t id, const char *address)
{
    order(p, DLR_LOCAL_D_SEND, round, rank, v, id, address, true, 0);
}

void rig_save(struct rig_data *p, uint32_t round, int32_t rank, struct dlr_version v,
              uint64_t id, const char *path, unsigned follow)
{
    order(p, DLR_LOCAL_D_SAVE, round, rank, v, id, path, false, follow);
}

bool rig_await_or_dead(struct rig_data *p, enum dlr_local_type type,
                       struct dlr_local_msg *ret)
{
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;

    do {
        if (!readable(p, RIG_ANSWER_MS))
            die("dlrover-data", "no message in time");
        if (dlr_local_recv(p->fd, ret, fds, &nfds) != 1)
            return false;
        for (unsigned i = 0; i < nfds; i++)
            close(fds[i]);
    } while (ret->type != type);
    return true;
}

int rig_done_or_dead(struct rig_data *p, uint64_t id)
{
    struct dlr_local_msg msg;

    do {
        if (!rig_await_or_dead(p, DLR_LOCAL_D_DONE, &msg))
            return -1;
    } while (msg.arg[1] != id);
    return (int)msg.arg[2];
}

bool rig_alive(struct rig_data *p)
{
    rig_order(p, DLR_LOCAL_D_SEND, 0, 0, (struct dlr_version){0}, UINT64_MAX, "00");
    return rig_done_or_dead(p, UINT64_MAX) >= 0; /* such a version there is not */
}

bool rig_same(const struct dlr_slot *a, const struct dlr_slot *b)
{
    struct dlr_slot_info info;
    const void *am, *bm;
    size_t an, bn;
    uint32_t crc;
    void *ad, *bd;

    dlr_slot_meta(a, &am, &an);
    dlr_slot_meta(b, &bm, &bn);
    if (an != bn || memcmp(am, bm, an) != 0 || dlr_slot_info(a, &info) < 0)
        return false;
    for (uint32_t i = 0; i < info.nblocks; i++)
        if (dlr_slot_block(a, i, &ad, &an, &crc) < 0 ||
            dlr_slot_block(b, i, &bd, &bn, &crc) < 0 || an != bn ||
            memcmp(ad, bd, an) != 0)
            return false;
    return true;
}

int rig_done(struct rig_data *p, uint64_t id, char *why, size_t size)
{
    struct dlr_local_msg msg;

    rig_await(p, DLR_LOCAL_D_DONE, &msg);
    if (msg.arg[1] != id)
        die("D_DONE", "of another request");
    if (why)
        dlr_format(why, size, "%s", msg.text);
    return (int)msg.arg[2];
}

void rig_end(struct rig_data *p)
{
    /* A receiver acknowledges a copy and tells its agent after that: there is somebody to
     * tell until it has ended.
     */
    if (rig_alive(p))
        shutdown(p->fd, SHUT_WR);
    if (reap(p) != 0)
        die("dlrover-data", "it did not end well");
}
