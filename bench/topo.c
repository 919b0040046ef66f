/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=hwloc_topo */
/* topo NODES: nodes of a three-level tree, leaves of 20 to 32 nodes with domains of 4
 * below them, 32 leaves to a pod, in an order by chance; one in 64 is a spare.
 * One line: milliseconds of CPU time in which they are
 *   put in order | chosen, in groups of 4 | those of one in a hundred places replaced |
 *   given partners | holders of 2 copies | of rs:8+2 | what that survives is computed
 * and the peak of memory in MB, that of the nodes themselves beside it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "common/base/str.h"
#include "hwloc_topo/holders.h"
#include "hwloc_topo/rank_order.h"

#define GROUP 4u
#define MEMBERS 8u
#define ROWS 2u

struct job {
    struct dlr_topo_node *nodes;
    unsigned *order, *place, *now, *holder;
    unsigned char *alive;
    size_t n, m; /* nodes, places */
};

static void grow(struct job *j)
{
    unsigned leaf = 0, left = 0;

    for (size_t i = 0; i < j->n; i++, left--) {
        size_t at = i * 7919 % j->n; /* a prime: each number once, by any power of 2 */

        if (left == 0) {
            leaf++;
            left = 20 + leaf * 7 % 13;
        }
        dlr_format(j->nodes[at].name, sizeof(j->nodes[at].name), "n%zu", i);
        dlr_format(j->nodes[at].path, sizeof(j->nodes[at].path), "c.p%u.l%u.~d%u.n%zu",
                   leaf / 32, leaf, left / 4, i);
    }
}

/* Of this process, which has one thread: others' work is not in it. */
static int64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double ms_since(int64_t *began)
{
    int64_t now = cpu_ns();
    double ms = (double)(now - *began) / 1e6;

    *began = now;
    return ms;
}

static int run(struct job *j, double ret_ms[7])
{
    struct dlr_topo_sets copies = {j->nodes, j->now, j->m, (unsigned)j->m, 2};
    struct dlr_topo_sets parity = {j->nodes, j->now, j->m,
                                   (unsigned)(j->m + MEMBERS - 1) / MEMBERS, ROWS};
    struct dlr_topo_survival survival;
    int64_t t = cpu_ns();

    dlr_topo_order(j->nodes, j->n, j->order);
    ret_ms[0] = ms_since(&t);
    if (dlr_topo_choose(j->nodes, j->order, j->n, j->m, GROUP, j->place) < 0)
        return 1;
    ret_ms[1] = ms_since(&t);
    for (size_t p = 0; p < j->m; p++)
        j->alive[j->place[p]] = p % 100 != 7;
    t = cpu_ns();
    if (dlr_topo_replace(j->nodes, j->n, j->place, j->m, j->alive, j->now, NULL) < 0)
        return 1;
    ret_ms[2] = ms_since(&t);
    dlr_topo_partners(j->nodes, j->now, j->m, j->holder);
    ret_ms[3] = ms_since(&t);
    if (dlr_topo_holders(&copies, j->holder) < 0)
        return 1;
    ret_ms[4] = ms_since(&t);
    if (dlr_topo_holders(&parity, j->holder) < 0)
        return 1;
    ret_ms[5] = ms_since(&t);
    if (dlr_topo_survives(&parity, j->holder, &survival) < 0)
        return 1;
    ret_ms[6] = ms_since(&t);
    return 0;
}

int main(int argc, char **argv)
{
    struct job j = {0};
    struct rusage use;
    double ms[7];
    unsigned n;

    if (argc != 2 || dlr_parse_uint(argv[1], 1u << 24, &n) < 0 || n < 128) {
        fprintf(stderr, "usage: topo NODES (at least 128)\n");
        return 2;
    }
    j.n = n;
    j.m = (n - n / 64) / GROUP * GROUP;
    j.nodes = calloc(j.n, sizeof(*j.nodes));
    j.order = calloc(j.n, sizeof(*j.order));
    j.place = calloc(j.n, sizeof(*j.place));
    j.now = calloc(j.n, sizeof(*j.now));
    j.holder = calloc(2 * j.n, sizeof(*j.holder));
    j.alive = calloc(j.n, 1);
    if (!j.nodes || !j.order || !j.place || !j.now || !j.holder || !j.alive)
        return 1;
    for (size_t i = 0; i < j.n; i++)
        j.alive[i] = 1;
    grow(&j);
    if (run(&j, ms) != 0) {
        fprintf(stderr, "topo: it failed\n");
        return 1;
    }
    getrusage(RUSAGE_SELF, &use);
    for (int i = 0; i < 7; i++)
        printf("%.3f ", ms[i]);
    printf("%.1f %.1f\n", (double)use.ru_maxrss / 1024,
           (double)(j.n * sizeof(*j.nodes)) / (1024 * 1024));
    return 0;
}
