/* SPDX-License-Identifier: Apache-2.0 */
/* usage: judge_pages PID BEFORE AFTER [PID BEFORE AFTER]...
 *
 * What the watch pages of all ranks say, each read twice, and the verdict over them:
 * "stuck mismatch 0 all_reduce". Ranks have stood for a minute, of three seconds that
 * they may.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "interpose/calls/calls.h"
#include "watch/judge/judge.h"
#include "watch/read.h"

#define SECOND UINT64_C(1000000000)
#define RANKS 8
#define ROUND 4

static int look(const char *path, int rank, int pid, struct dlr_look *ret)
{
    static _Alignas(4096) struct dlr_watch_page page;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, &page, sizeof(page));

    if (fd >= 0)
        close(fd);
    if (n != (ssize_t)sizeof(page))
        return -1;
    dlr_watch_read(&page, rank, ROUND, (uint64_t)dlr_now_ns(), ret);
    ret->pid = pid;
    return 0;
}

static void print_look(const struct dlr_look *l)
{
    fprintf(stderr, "rank %d: data %d lost %lu phase '%s'\n", l->rank, (int)l->data,
            (unsigned long)l->lost, l->phase_ns ? l->phase : "");
    for (uint32_t i = 0; i < l->ncomms; i++)
        fprintf(stderr,
                "  %lx: %u of %u, entered %lu left %lu op %u root %u bytes %lu\n",
                (unsigned long)l->comms[i].id, l->comms[i].my_rank, l->comms[i].size,
                (unsigned long)l->comms[i].entered, (unsigned long)l->comms[i].left,
                l->comms[i].op, l->comms[i].root, (unsigned long)l->comms[i].bytes);
    for (uint32_t i = 0; i < l->ncalls; i++)
        fprintf(stderr, "  in %s of %lx, peer %d, tid %u of %d, bytes %lu\n",
                dlr_mpi_call_name(l->in[i].call), (unsigned long)l->in[i].comm,
                l->in[i].peer, l->in[i].tid, l->pid, (unsigned long)l->in[i].bytes);
}

static void print_verdict(const struct dlr_verdict *v, const uint8_t *parts, int n)
{
    static const char *const kinds[] = {"none", "still", "stuck", "unknown"};
    const char *call = dlr_mpi_call_name(v->call);

    printf("%s %s ", kinds[v->kind], dlr_blame_name(v->blame));
    for (int i = 0; i < n; i++)
        if (parts[i] == DLR_PART_CULPRIT)
            printf("%d ", i);
    printf("%s\n", call ? call : "");
}

int main(int argc, char **argv)
{
    static struct dlr_look looks[2][RANKS];
    static uint8_t parts[RANKS], calls[DLR_TORCH_END];
    struct dlr_judge_rank ranks[RANKS];
    struct dlr_judge_input in = {
        .ranks = ranks, .calls = calls, .ncalls = DLR_TORCH_END};
    struct dlr_verdict v;

    calls[DLR_TORCH_send] = DLR_CALL_SENDS;
    calls[DLR_TORCH_recv] = DLR_CALL_RECEIVES;
    for (int i = 0; i < RANKS && 3 * i + 3 < argc; i++, in.n++) {
        char **a = &argv[3 * i + 1];

        if (look(a[1], i, atoi(a[0]), &looks[0][i]) < 0 ||
            look(a[2], i, atoi(a[0]), &looks[1][i]) < 0)
            return 2;
        print_look(&looks[1][i]);
        ranks[i] = (struct dlr_judge_rank){&looks[0][i], &looks[1][i], 60 * SECOND,
                                           3 * SECOND};
    }
    if (dlr_judge(&in, parts, &v) < 0)
        return 2;
    print_verdict(&v, parts, (int)in.n);
    return 0;
}
