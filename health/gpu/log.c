/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's log, for what the driver has written to it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"
#include "health/gpu/gpu.h"
#include "health/gpu/xid.h"

#define RECORD_MAX 8192 /* PRINTKRB_RECORD_MAX is less */
#define RECORDS_MAX 200000u

struct reader {
    int fd;
    char buf[2 * RECORD_MAX];
    size_t n;
};

/* The next line, without its end; NULL at the end of the log. The device gives a record
 * a read, of one line or more; a file, of which tests make logs, as much as fits.
 */
static char *next_line(struct reader *r, size_t *used)
{
    char *end;

    memmove(r->buf, r->buf + *used, r->n -= *used);
    *used = 0;
    while (!(end = memchr(r->buf, '\n', r->n)) && r->n < RECORD_MAX) {
        ssize_t got = read(r->fd, r->buf + r->n, sizeof(r->buf) - r->n);

        if (got < 0 && (errno == EPIPE || errno == EINTR))
            continue; /* records were written over before they were read */
        if (got <= 0)
            return NULL; /* EAGAIN: no more */
        r->n += (size_t)got;
    }
    if (!end)
        end = r->buf + r->n - 1; /* no line of a log */
    *end = '\0';
    *used = (size_t)(end + 1 - r->buf);
    return r->buf;
}

/* The log's clock is not stopped for the boot, and is for a suspended machine. */
static int64_t log_clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void read_log(int fd, int64_t now_us, struct dlr_xid_log *ret)
{
    struct reader r = {.fd = fd};
    size_t used = 0;
    char *line;

    for (unsigned i = 0; i < RECORDS_MAX && (line = next_line(&r, &used)); i++)
        dlr_xid_record(ret, line, now_us);
}

/* Whether one of the caller's GPUs does not tell its address, or is not shown at all. */
static bool misses_one(const struct dlr_health_gpus *g)
{
    for (unsigned i = 0; i < g->facts.ngpus; i++)
        if (g->scope.ours[i] && !g->facts.gpus[i].bus[0])
            return true;
    return !g->scope.known || g->scope.visible < g->scope.expected;
}

/* In a job only its own GPUs count, as far as the driver tells which they are. */
static bool counts(const struct dlr_health_gpus *g, const struct dlr_xid_of *of)
{
    if (!g->scope.job || g->asked != DLR_GPU_ASKED || g->facts.error)
        return true;
    for (unsigned i = 0; i < g->facts.ngpus; i++)
        if (dlr_xid_is_bus(of->bus, g->facts.gpus[i].bus))
            return g->scope.ours[i];
    return misses_one(g);
}

static void judge_log(const struct dlr_health_gpus *g, const struct dlr_xid_log *log,
                      struct dlr_health_result *ret)
{
    unsigned bad = 0;

    for (unsigned i = 0; i < log->n; i++) {
        const struct dlr_xid_of *of = &log->of[i];
        enum dlr_health_verdict verdict = of->verdict;

        if (verdict == DLR_HEALTH_OK || !counts(g, of))
            continue;
        if (!g->scope.known && verdict > DLR_HEALTH_WARN)
            verdict = DLR_HEALTH_WARN;
        bad++;
        if (verdict > ret->verdict)
            dlr_health_say(ret, verdict, "GPU %s: Xid %u, %s, %u within %d min",
                           of->bus, of->number, of->what, of->n, DLR_XID_WINDOW_S / 60);
    }
    if (!bad)
        dlr_health_say(ret, DLR_HEALTH_OK, "no Xid of the GPU's own within %d min",
                       DLR_XID_WINDOW_S / 60);
}

/* `dmesg --clear` is how an administrator says that what was before is dealt with: a
 * seek to data goes behind that.
 */
void dlr_health_gpu_xid(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    const struct dlr_health_gpus *g = dlr_health_gpus(env);
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_xid_log log = {0};
    int64_t now_us = env->root[0] ? 0 : log_clock_us();
    char path[PATH_MAX], played[128];
    bool injected =
        dlr_health_gpus_injected_xid(env, g, now_us, played, sizeof(played));

    if (g->asked == DLR_GPU_ASKED && !g->facts.library) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no NVIDIA driver here");
        return;
    }
    if (dlr_format(path, sizeof(path), "%s/dev/kmsg", env->root) == 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (injected)
        dlr_xid_record(&log, played, now_us);
    if (fd < 0 && !injected) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "/dev/kmsg: %s", strerror(errno));
        return;
    }
    if (fd >= 0 && !env->root[0])
        lseek(fd, 0, SEEK_DATA);
    if (fd >= 0)
        read_log(fd, now_us, &log);
    judge_log(g, &log, ret);
}
