/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/agent */
/* What a supervisor may say to an agent, one message on each line. The messages are
 * real, the hands of the agent are not: what an order would do is left out, that its
 * numbers are in range is not. Reaches dlr_agent_round_parse(), dlr_peer_list_take().
 */
#include "mpi_launcher/agent/control.c"
#include "mpi_launcher/agent/snapshots/parts.h"
#include "tests/fuzz/fuzz.h"

#define HANDS(name, ...)                                                               \
    void name(__VA_ARGS__)                                                             \
    {                                                                                  \
    }

HANDS(dlr_agent_grace_resend, struct dlr_agent_succession *su)
HANDS(dlr_agent_keeper_watch, struct dlr_agent_succession *su, const char *text)
HANDS(dlr_agent_succession_given, struct dlr_agent_succession *su, bool given)
HANDS(dlr_agent_report, struct dlr_agent_reports *all,
      const struct dlr_agent_origin *from)
HANDS(dlr_agent_tasks_resend, struct dlr_agent_tasks *tasks)
HANDS(dlr_agent_ranks_resend, struct dlr_agent_snapshots *s)
HANDS(dlr_agent_ranks_go, struct dlr_agent_snapshots *s)
HANDS(dlr_agent_claims_resend, struct dlr_agent_tasks *tasks)
HANDS(dlr_agent_tasks_kill, struct dlr_agent_tasks *tasks, uint32_t round,
      bool spare_srun)
HANDS(dlr_agent_tasks_park, struct dlr_agent_tasks *tasks, uint32_t round,
      int64_t park_ms)
HANDS(dlr_agent_tasks_tell_looks, struct dlr_agent_tasks *tasks, uint64_t id)
HANDS(dlr_agent_save_at, struct dlr_agent_snapshots *s, uint64_t step)
HANDS(dlr_agent_save_commit, struct dlr_agent_snapshots *s, uint64_t step)
HANDS(dlr_agent_save_abort, struct dlr_agent_snapshots *s, uint64_t step)
HANDS(dlr_agent_save_vetted, struct dlr_agent_snapshots *s, const json_t *version)

uint64_t dlr_agent_save_ordered(const struct dlr_agent_snapshots *s)
{
    return 0;
}

void dlr_agent_save_round_state(const struct dlr_agent_snapshots *s, json_t *msg)
{
}

int64_t dlr_agent_tasks_kill_up_to_round(const struct dlr_agent_tasks *tasks)
{
    return -1;
}

int dlr_agent_claims_ask(struct dlr_agent_tasks *tasks, const json_t *msg)
{
    return 0;
}

int dlr_agent_claims_refuse(struct dlr_agent_tasks *tasks, const json_t *msg)
{
    return 0;
}

int dlr_agent_tasks_warm_up(struct dlr_agent_tasks *tasks, const json_t *msg)
{
    return 0;
}

int dlr_agent_rebuild(struct dlr_agent_snapshots *s, const json_t *msg,
                      const struct dlr_agent_origin *from)
{
    return 0;
}

int dlr_agent_take_over_will(struct dlr_agent_succession *su, const json_t *msg)
{
    return 0;
}

/* The base has the list of them. */
int dlr_agent_succession_peers(struct dlr_agent_succession *su, const json_t *msg)
{
    return dlr_agent_peers_take((struct dlr_agent_base *)su, msg);
}

void dlr_agent_lease_welcome(struct dlr_agent_lease *l, int64_t dead_ms)
{
    FUZZ_CHECK(dead_ms > 0 && dead_ms <= WAIT_MAX_MS);
}

void dlr_agent_lease_take(struct dlr_agent_lease *l, const void *data, size_t size)
{
    struct dlr_heartbeat beat;

    dlr_heartbeat_unpack(data, size, &beat);
}

HANDS(dlr_agent_fetch_end, struct dlr_agent_snapshots *s, const char *why)

int dlr_agent_fetched(struct dlr_agent_snapshots *s, const json_t *msg)
{
    return 0;
}

void dlr_agent_fetch_reserve(struct dlr_agent_snapshots *s, int32_t rank,
                             uint64_t bytes, bool make)
{
    FUZZ_CHECK(rank >= 0 && bytes > 0 && bytes <= INT64_MAX);
}

void dlr_agent_ranks_reserve(struct dlr_agent_snapshots *s, int32_t rank,
                             uint64_t bytes, bool worker)
{
    FUZZ_CHECK(rank >= 0 && bytes > 0 && bytes <= INT64_MAX && !worker);
}

void dlr_agent_request(struct dlr_agent_snapshots *s, const struct dlr_agent_request *q,
                       const struct dlr_agent_origin *from, dlr_agent_ended_fn *fn)
{
    FUZZ_CHECK(q->rank >= 0 && q->version.step <= INT64_MAX &&
               strlen(q->text) < DLR_LOCAL_TEXT);
}

static json_t *no_ranks(void *arg)
{
    return json_array();
}

/* No process is started: what it would be told goes nowhere. */
static const struct dlr_agent_data_ops data_ops = {.own = no_ranks, .fetch = no_ranks};

static void enter(struct dlr_agent *a, struct dlr_agent_round *round)
{
    dlr_agent_round_done(&a->round);
    a->round = *round;
    dlr_agent_data_round(a->data, true);
}

static void check_round(const struct dlr_agent_round *r)
{
    FUZZ_CHECK(strlen(r->token) == (r->known ? 32 : 0));
    for (unsigned i = 0; i < r->nnodes; i++) {
        FUZZ_CHECK(r->nodes[i].name);
        for (unsigned k = 0; k < r->nodes[i].nranks; k++)
            FUZZ_CHECK(r->nodes[i].ranks[k] >= 0);
    }
    for (unsigned i = 0; i < r->naccept; i++)
        FUZZ_CHECK(r->accept[i] >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dlr_agent agent; /* large */
    static struct dlr_identity *id;
    static struct dlr_agent_base *base; /* without sockets */
    static struct dlr_agent_data *engine;
    static struct dlr_agent_group *group;
    static struct dlr_agent_snapshots snapshots;
    struct dlr_agent *a = &agent;
    char *all = fuzz_text(data, size), *rest = all, *line;

    memset(a, 0, sizeof(*a));
    if (!id)
        FUZZ_CHECK(dlr_identity_new(&id, NULL) == 0);
    if (!base)
        FUZZ_CHECK((base = dlr_agent_base_new(NULL, NULL)));
    a->id = id;
    a->base = base;
    a->enter = enter;
    a->succession = (struct dlr_agent_succession *)base; /* is only handed on */
    if (!engine)
        FUZZ_CHECK(
            (engine = dlr_agent_data_new(base, &a->self, &a->round, &data_ops, a)));
    a->data = engine;
    if (!group)
        FUZZ_CHECK((group = dlr_agent_group_new(base, &a->self)));
    a->group = group;
    snapshots = (struct dlr_agent_snapshots){.base = base, .round = &a->round};
    a->snapshots = &snapshots;
    a->self.run.gen = 1;
    memcpy(a->self.node, "n1", 3);
    while ((line = fuzz_line(&rest))) {
        struct dlr_packet packet = {.data = line, .size = strlen(line)};

        dispatch(a, &packet);
        check_round(&a->round);
    }
    dlr_agent_round_done(&a->round);
    dlr_agent_peers_close(base);
    free(all);
    return 0;
}
