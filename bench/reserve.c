/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/slot */
/* reserve DIR MB ROUNDS: prints for each round the GB/s of
 *   making a slot in DIR | memset of a fresh anonymous mapping, by as many threads |
 *   the same in huge pages
 * The first round is not printed: memory that a hypervisor has not given its guest yet
 * is slow for whoever takes it first.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt/slot/slot.h"
#include "common/base/clock.h"
#include "common/base/str.h"

#define MIB (UINT64_C(1) << 20)
#define THREADS 8 /* as in ckpt/slot/slot.c */

struct part {
    pthread_t thread;
    char *from;
    size_t bytes;
};

static void *zero(void *arg)
{
    struct part *p = arg;

    return memset(p->from, 1, p->bytes);
}

static double rate(uint64_t bytes, int64_t since)
{
    return (double)bytes / (double)(dlr_now_ns() - since);
}

static double fresh(uint64_t bytes, int advice)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t n = cpus < THREADS ? (uint64_t)cpus : THREADS;
    struct part parts[THREADS];
    int64_t since = dlr_now_ns();
    double rc;
    char *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(1);
    madvise(p, bytes, advice);
    for (uint64_t i = 0; i < n; i++) {
        parts[i] = (struct part){.from = p + bytes / n * i, .bytes = bytes / n};
        if (pthread_create(&parts[i].thread, NULL, zero, &parts[i]) != 0)
            exit(1);
    }
    for (uint64_t i = 0; i < n; i++)
        pthread_join(parts[i].thread, NULL);
    rc = rate(bytes, since);
    munmap(p, bytes);
    return rc;
}

static double slot(int dir, uint64_t bytes)
{
    int64_t since = dlr_now_ns();
    struct dlr_slot *made;
    struct dlr_err err;
    double rc;

    if (dlr_slot_create(dir, "r0.s0", bytes, &made, &err) < 0) {
        fprintf(stderr, "reserve: %s\n", err.text);
        exit(1);
    }
    rc = rate(bytes, since);
    dlr_slot_unmap(made);
    unlinkat(dir, "r0.s0", 0);
    return rc;
}

int main(int argc, char **argv)
{
    unsigned mb, rounds;
    int dir;

    if (argc != 4 || dlr_parse_uint(argv[2], 100000, &mb) < 0 || mb == 0 ||
        dlr_parse_uint(argv[3], 1000, &rounds) < 0) {
        fprintf(stderr, "usage: reserve DIR MB ROUNDS\n");
        return 2;
    }
    dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        fprintf(stderr, "reserve: '%s': %m\n", argv[1]);
        return 1;
    }
    for (unsigned r = 0; r <= rounds; r++) {
        double made = slot(dir, mb * MIB), small = fresh(mb * MIB, MADV_NOHUGEPAGE),
               huge = fresh(mb * MIB, MADV_HUGEPAGE);

        if (r > 0)
            printf("%.3f %.3f %.3f\n", made, small, huge);
    }
    return 0;
}
