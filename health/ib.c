/* SPDX-License-Identifier: Apache-2.0 */
/* State and rate of InfiniBand ports (kernel: Documentation/ABI/stable/
 * sysfs-class-infiniband).
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"

#define PORTS_MAX 64u
#define PLAYED_RATE 400 /* of a port that is not there */

/* Of the port's state, and of its physical one. */
enum { DOWN = 1, INIT = 2, ARMED = 3, ACTIVE = 4 };
enum { POLLING = 2 };

struct port {
    char device[64], board[64]; /* equal boards should have equal rates */
    unsigned number;
    uint64_t state, physical, rate, downed;
    bool infiniband; /* else Ethernet: check links */
};

static bool read_port(const struct dlr_health_env *env, const char *path,
                      struct port *ret)
{
    struct port p = {0};
    char layer[32] = "";

    if (sscanf(path, "/sys/class/infiniband/%63[^/]/ports/%u", p.device, &p.number) !=
            2 ||
        !dlr_health_read(env, &p.state, path, "state"))
        return false;
    dlr_health_read(env, &p.physical, path, "phys_state");
    dlr_health_read(env, &p.rate, path, "rate");
    dlr_health_read(env, &p.downed, path, "counters/link_downed");
    dlr_health_text(env, layer, sizeof(layer), "%s/link_layer", path);
    dlr_health_text(env, p.board, sizeof(p.board), "/sys/class/infiniband/%s/board_id",
                    p.device);
    p.infiniband = dlr_streq(layer, "InfiniBand");
    *ret = p;
    return true;
}

/* A port that was never connected is no fault, nor one that somebody has disabled. */
static void judge_state(const struct port *p, struct dlr_health_result *ret)
{
    if (!p->infiniband)
        return;
    if (p->state == INIT || p->state == ARMED)
        dlr_health_add(
            ret, DLR_HEALTH_FAIL,
            "%s port %u has a link, and no subnet manager has made it active",
            p->device, p->number);
    else if (p->state == DOWN && p->physical == POLLING && p->downed)
        dlr_health_add(ret, DLR_HEALTH_FAIL,
                       "%s port %u is down, and was up since boot", p->device,
                       p->number);
}

static uint64_t best_rate(const struct port *ports, unsigned n, const char *board)
{
    uint64_t best = 0;

    for (unsigned i = 0; i < n; i++)
        if (ports[i].state == ACTIVE && dlr_streq(ports[i].board, board) &&
            ports[i].rate > best)
            best = ports[i].rate;
    return best;
}

/* Of equal cards one may hang on another fabric, so a slow one costs no node: what it
 * does is measured.
 */
static void judge_rate(const struct port *ports, unsigned n, unsigned i,
                       struct dlr_health_result *ret)
{
    const struct port *p = &ports[i];
    uint64_t best = p->board[0] ? best_rate(ports, n, p->board) : 0;

    if (p->state == ACTIVE && p->rate && p->rate < best)
        dlr_health_add(ret, DLR_HEALTH_WARN,
                       "%s port %u runs at %" PRIu64 " Gb/s, equal cards at %" PRIu64,
                       p->device, p->number, p->rate, best);
}

static void judge(const struct port *ports, unsigned n, struct dlr_health_result *ret)
{
    unsigned active = 0, infiniband = 0;

    for (unsigned i = 0; i < n; i++) {
        judge_state(&ports[i], ret);
        judge_rate(ports, n, i, ret);
        active += ports[i].state == ACTIVE;
        infiniband += ports[i].infiniband;
    }
    if (ret->reason[0])
        return;
    dlr_health_say(ret, infiniband && !active ? DLR_HEALTH_WARN : DLR_HEALTH_OK,
                   "%u of %u ports are active", active, n);
}

/* Of a node without any, two equal ones, so that the fault can be played everywhere. */
static unsigned inject(const struct dlr_health_env *env, struct port *ports, unsigned n)
{
    uint64_t rate = PLAYED_RATE, state = ACTIVE;
    bool is_rate = dlr_health_injected_count(env, "ib.rate", &rate);
    bool is_state = dlr_health_injected_count(env, "ib.state", &state);

    if (!is_rate && !is_state)
        return n;
    if (n == 0) {
        ports[0] =
            (struct port){"played0", "played", 1, ACTIVE, 0, PLAYED_RATE, 0, true};
        ports[1] = ports[0];
        ports[1].device[strlen("played")] = '1';
        n = 2;
    }
    for (unsigned i = 0; is_rate && i < n; i++)
        if (ports[i].state == ACTIVE) {
            ports[i].rate = rate;
            break;
        }
    if (is_state) {
        ports[0].state = state;
        ports[0].physical = POLLING;
        ports[0].downed = 1;
    }
    return n;
}

static void check(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_CLEANUP(globfree) glob_t paths = {0};
    struct port ports[PORTS_MAX];
    size_t found = dlr_health_glob(env, "/sys/class/infiniband/*/ports/[0-9]*", &paths);
    unsigned n = 0;

    for (size_t i = 0; i < found && n < PORTS_MAX; i++)
        n += read_port(env, dlr_health_path(env, &paths, i), &ports[n]);
    n = inject(env, ports, n);
    if (n)
        judge(ports, n, ret);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP,
                       found ? "the state of no RDMA port can be read"
                             : "no RDMA device here");
}

void dlr_health_ib(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    dlr_health_device(env, ret, "InfiniBand ports", check);
}
