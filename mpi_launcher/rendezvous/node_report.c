/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/rendezvous/node_report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/slot/store.h"
#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "health/inject.h"
#include "hwloc_topo/machine.h"
#include "mpi_launcher/run/master_port.h"

/* those of health and our own two; a reader takes no more than 64 */
#define CHECKS_ROOM 64

void dlr_report_node_name(char *buf, size_t size)
{
    const char *name = getenv("SLURMD_NODENAME");

    if (name && name[0] && dlr_format(buf, size, "%s", name) == 0)
        return;
    if (gethostname(buf, size) < 0)
        dlr_format(buf, size, "unknown");
    buf[size - 1] = '\0';
}

static void place(struct dlr_topo_node *node)
{
    const char *path = getenv("SLURM_TOPOLOGY_ADDR");

    dlr_report_node_name(node->name, sizeof(node->name));
    if (!path || !path[0] || dlr_format(node->path, sizeof(node->path), "%s", path) < 0)
        memcpy(node->path, node->name, sizeof(node->name));
}

static void who(struct dlr_plan_report *r)
{
    DLR_AUTO_FREE char *boot = NULL;
    size_t size;

    memset(r, 0, sizeof(*r));
    place(&r->node);
    if (dlr_file_load(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 256, &boot, &size,
                      NULL) == 0)
        dlr_format(r->boot, sizeof(r->boot), "%.*s", (int)strcspn(boot, "\n"), boot);
    r->checks = calloc(CHECKS_ROOM, sizeof(*r->checks));
}

/* The job's tree, where it has this node, goes before what the node's slurmd says. */
static void take_path(const struct dlr_plan_survey *s, struct dlr_topo_node *node)
{
    for (unsigned i = 0; s->peer_paths && i < s->npeers; i++)
        if (s->peer_paths[i] && dlr_streq(s->peer_nodes[i], node->name))
            dlr_format(node->path, sizeof(node->path), "%s", s->peer_paths[i]);
}

void dlr_report_place(const struct dlr_plan_survey *survey,
                      struct dlr_topo_node *ret_node)
{
    place(ret_node);
    take_path(survey, ret_node);
}

/* JSON takes UTF-8 only, and paths in reasons can be anything. */
static void plain(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static void add_check(struct dlr_plan_report *r, const char *check,
                      enum dlr_health_verdict verdict, const char *reason)
{
    struct dlr_plan_check *c = &r->checks[r->nchecks];

    if (!r->checks || r->nchecks == CHECKS_ROOM)
        return;
    r->nchecks++;
    dlr_format(c->check, sizeof(c->check), "%s", check);
    dlr_format(c->reason, sizeof(c->reason), "%.*s", (int)sizeof(c->reason) - 1,
               reason);
    plain(c->reason);
    c->verdict = verdict;
}

/* What is fine is no news, and there are many nodes; but what is injected is told. */
void dlr_report_add(struct dlr_plan_report *report,
                    const struct dlr_health_result *result)
{
    if (result->verdict >= DLR_HEALTH_WARN || dlr_after(result->reason, DLR_INJECTED))
        add_check(report, result->check, result->verdict, result->reason);
}

static void add_speed(struct dlr_plan_report *r, const struct dlr_health_result *result)
{
    struct dlr_plan_speed *s = &r->speeds[r->nspeeds];

    if (result->speed <= 0 || r->nspeeds == DLR_PLAN_SPEEDS_MAX)
        return;
    dlr_format(s->check, sizeof(s->check), "%s%s%s", result->check,
               result->kind ? "/" : "", result->kind ? result->kind : "");
    s->value = result->speed;
    r->nspeeds++;
}

void dlr_report_refuse(const char *why, struct dlr_plan_report *ret_report)
{
    who(ret_report);
    add_check(ret_report, "report", DLR_HEALTH_FAIL, why);
}

/* --- peers ------------------------------------------------------------------------ */

struct ring {
    const char **nodes, **addrs; /* [n + 1], NULL at the end */
    unsigned char *silent;       /* [n] */
    unsigned n;
};

static void cleanup_ring(struct ring *ring)
{
    free(ring->nodes);
    free(ring->addrs);
    free(ring->silent);
}

static int by_name(const void *a, const void *b, void *arg)
{
    const char *const *names = arg;

    return strcmp(names[*(const unsigned *)a], names[*(const unsigned *)b]);
}

/* The peers that follow this node in name order, round the end, at most
 * DLR_PLAN_PROBES: each node is asked by as many others, and nobody asks all of a large
 * job.
 */
static int choose_peers(const struct dlr_plan_survey *s, const char *self,
                        struct ring *ring)
{
    DLR_AUTO_FREE unsigned *order = calloc(s->npeers + 1, sizeof(*order));
    unsigned start = 0, i;

    ring->nodes = calloc(DLR_PLAN_PROBES + 1, sizeof(*ring->nodes));
    ring->addrs = calloc(DLR_PLAN_PROBES + 1, sizeof(*ring->addrs));
    ring->silent = calloc(DLR_PLAN_PROBES + 1, 1);
    if (!order || !ring->nodes || !ring->addrs || !ring->silent)
        return -ENOMEM;
    for (i = 0; i < s->npeers; i++)
        order[i] = i;
    qsort_r(order, s->npeers, sizeof(*order), by_name, (void *)s->peer_nodes);
    while (start < s->npeers && strcmp(s->peer_nodes[order[start]], self) <= 0)
        start++;
    for (i = 0; i < s->npeers && ring->n < DLR_PLAN_PROBES; i++) {
        unsigned at = order[(start + i) % s->npeers];

        if (dlr_streq(s->peer_nodes[at], self))
            continue;
        ring->nodes[ring->n] = s->peer_nodes[at];
        ring->addrs[ring->n++] = s->peer_addrs[at];
    }
    return 0;
}

static int keep_silent(const struct ring *ring, struct dlr_plan_report *r)
{
    unsigned i;

    r->silent = calloc(ring->n + 1, sizeof(*r->silent));
    for (i = 0; r->silent && i < ring->n; i++)
        if (ring->silent[i])
            dlr_format(r->silent[r->nsilent++], DLR_TOPO_NAME, "%s", ring->nodes[i]);
    return r->silent ? 0 : -ENOMEM;
}

/* --- checks ----------------------------------------------------------------------- */

/* Where nodes may lack room through no doing of the job: in a tmpfs of its own nobody
 * else takes any, and what the job has reserved there is no lack.
 */
static const char *shm_of(const struct dlr_plan_survey *s)
{
    char top[PATH_MAX];
    bool own = s->store_dir && s->store_dir[0] &&
               dlr_memory_top(s->store_dir, top, sizeof(top)) == 0 &&
               dlr_after(top, DLR_MEMORY_OWN "/");

    return own ? "" : s->shm_path;
}

/* An NVLink domain of several nodes, as the GPUs' driver tells it, unless the switch
 * tree names one. A path that grows too long stays as it is.
 */
static void take_domain(const char *domain, struct dlr_topo_node *node)
{
    char known[DLR_TOPO_NAME];

    if (dlr_topo_domain(node, known, sizeof(known)) == 0 && !known[0])
        dlr_topo_put_domain(node, domain);
}

static int run_checks(const struct dlr_plan_survey *s,
                      const struct dlr_report_clock *clock, struct dlr_plan_report *r,
                      struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_ring) struct ring ring = {0};
    struct dlr_health_result got[DLR_HEALTH_CHECKS_MAX];
    char domain[DLR_HEALTH_DOMAIN] = "";
    struct dlr_health_env env;
    int n, i;

    dlr_health_env_init(&env);
    dlr_health_env_slurm(&env);
    if (choose_peers(s, r->node.name, &ring) < 0)
        return dlr_fail(err, -ENOMEM, "out of memory");
    env.disk_path = s->disk_path;
    env.shm_path = shm_of(s);
    env.shm_need_bytes = s->shm_need_bytes;
    env.ref_wall_ns = clock->wall_ns;
    env.ref_taken_ns = clock->taken_ns;
    env.ref_error_ns = clock->error_ns;
    env.peers = ring.addrs;
    env.peer_names = ring.nodes;
    env.silent = ring.silent;
    env.inject = getenv("DLROVER_INJECT");
    env.node = r->node.name;
    env.domain = domain;
    if (s->peer_timeout_ms)
        env.peer_timeout_ms = s->peer_timeout_ms;
    n = dlr_health_run(&env, s->checks && s->checks[0] ? s->checks : "none", got,
                       DLR_HEALTH_CHECKS_MAX, err);
    if (n < 0)
        return n;
    for (i = 0; i < n; i++) {
        dlr_report_add(r, &got[i]);
        add_speed(r, &got[i]);
    }
    take_domain(domain, &r->node);
    return keep_silent(&ring, r) < 0 ? dlr_fail(err, -ENOMEM, "out of memory") : 0;
}

/* --- snapshots -------------------------------------------------------------------- */

static uint64_t file_bytes(const char *dir, const struct dlr_store_item *item)
{
    char path[4096], name[64];
    struct stat st;

    if (dlr_store_name(item->rank, item->slot, name, sizeof(name)) < 0 ||
        dlr_format(path, sizeof(path), "%s/%s", dir, name) < 0 || lstat(path, &st) < 0)
        return 0;
    return (uint64_t)st.st_size;
}

static int list_copies(const struct dlr_plan_survey *s, struct dlr_plan_report *r,
                       struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_store_item *items = NULL;
    char text[64], dir[PATH_MAX];
    unsigned bad = 0;
    int n, i;

    if (!s->store_dir || !s->store_dir[0])
        return 0;
    if (dlr_memory_find(s->store_dir, dir, sizeof(dir)) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "'%s' is too long", s->store_dir);
    n = dlr_store_list(dir, dlr_slot_key(s->key ? s->key : ""), true, &items, &bad,
                       err);
    if (n < 0)
        return n;
    r->copies = calloc((size_t)n + 1, sizeof(*r->copies));
    if (!r->copies)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (i = 0; i < n; i++)
        r->copies[r->ncopies++] = (struct dlr_plan_copy){
            items[i].rank, items[i].info.world, items[i].info.version,
            file_bytes(dir, &items[i]), items[i].info.layout};
    if (bad) {
        dlr_format(text, sizeof(text), "%u snapshots failed their verification", bad);
        add_check(r, "snapshots", DLR_HEALTH_WARN, text);
    }
    return 0;
}

/* --- the whole -------------------------------------------------------------------- */

/* For the tasks, which are to be bound. They say so where it is missing. */
static void save_machine(const struct dlr_topo *topo)
{
    DLR_AUTO_FREE struct dlr_machine *m = malloc(sizeof(*m));
    const char *wanted = getenv("DLROVER_MACHINE");
    char path[PATH_MAX];
    struct dlr_err err = {0};

    if (!wanted || !m || dlr_memory_find(wanted, path, sizeof(path)) < 0)
        return;
    dlr_machine_describe(topo, "", m);
    if (dlr_machine_save(m, path, &err) < 0)
        dlr_debug("%s: tasks will not be bound", err.text);
}

static unsigned count_cpus(void)
{
    struct dlr_topo_summary summary;
    struct dlr_topo *topo = NULL;

    if (dlr_topo_load(NULL, &topo, NULL) < 0)
        return 0;
    save_machine(topo);
    dlr_topo_summary(topo, &summary);
    dlr_topo_free(topo);
    return summary.pus;
}

void dlr_report_make(const struct dlr_plan_survey *survey,
                     const struct dlr_report_clock *clock,
                     struct dlr_plan_report *ret_report)
{
    struct dlr_err err = {0};
    int rc;

    who(ret_report);
    take_path(survey, &ret_report->node);
    ret_report->cpus = count_cpus();
    if (survey->port)
        ret_report->port = dlr_port_free_from(survey->port, dlr_port_is_free);
    rc = run_checks(survey, clock, ret_report, &err);
    if (rc < 0)
        add_check(ret_report, "report", DLR_HEALTH_FAIL, err.text);
    /* What a node has is worth knowing even when it is left out. */
    rc = list_copies(survey, ret_report, &err);
    if (rc < 0)
        add_check(ret_report, "snapshots", DLR_HEALTH_WARN, err.text);
}
