/* SPDX-License-Identifier: Apache-2.0 */
/* Messages never wait without end: they are tested for until a limit. One that has not
 * come then is left where it is, and so is its memory.
 */
#include "mpi_launcher/rendezvous/tournament_mpi.h"

#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "health/network/tournament.h"
#include "hwloc_topo/topo.h"

/* for the partner to come and to answer all pings; then for each block of data */
#define EXCHANGE_MS 1000
#define PINGS 32
/* a small block first: where that is slow no large one follows */
#define SMALL (256u << 10)
#define BLOCK (4u << 20)
#define SMALL_MBPS 40.0f
#define TURN 4096u /* blocks of two ranks begin elsewhere in the same bytes */
#define ROOM 64    /* tags of a round */

/* What each rank tells all others after a round. */
struct told {
    struct dlr_net_seen seen;
    float ms; /* since the first round began */
};

struct player {
    int rank, size, tag;
    int64_t start_ns, limit_ms;
    unsigned char *bytes; /* [BLOCK + TURN] what is sent, the same on all ranks */
    unsigned char *block; /* [BLOCK] what comes */
    uint64_t *word;       /* [2] the same for pings */
    bool hung;
};

static void cleanup_player(struct player *p)
{
    if (p->hung) /* MPI may still write there */
        return;
    free(p->bytes);
    free(p->block);
    free(p->word);
}

static int make_bytes(struct player *p)
{
    uint32_t x = 2463534242u; /* xorshift32: Marsaglia, Xorshift RNGs, 2003 */

    p->bytes = malloc(BLOCK + TURN);
    p->block = malloc(BLOCK);
    p->word = calloc(2, sizeof(*p->word));
    if (!p->bytes || !p->block || !p->word)
        return -ENOMEM;
    for (size_t i = 0; i < BLOCK + TURN; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        p->bytes[i] = (unsigned char)x;
    }
    return 0;
}

static const unsigned char *bytes_of(const struct player *p, int rank)
{
    return p->bytes + (unsigned)rank % TURN;
}

/* --- one pair --------------------------------------------------------------------- */

/* True when it has come, or gone, before the deadline. */
static bool await(struct player *p, MPI_Request *request, int64_t deadline_ms)
{
    int done = 0;

    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    while (!done && dlr_now_ms() < deadline_ms) {
        sched_yield();
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    p->hung = p->hung || !done;
    return done;
}

static bool send_word(struct player *p, int to, uint64_t word, int64_t deadline_ms)
{
    MPI_Request r;

    p->word[0] = word;
    MPI_Isend(&p->word[0], sizeof(p->word[0]), MPI_BYTE, to, p->tag, MPI_COMM_WORLD,
              &r);
    return await(p, &r, deadline_ms);
}

static bool take_word(struct player *p, int from, int64_t deadline_ms)
{
    MPI_Request r;

    MPI_Irecv(&p->word[1], sizeof(p->word[1]), MPI_BYTE, from, p->tag, MPI_COMM_WORLD,
              &r);
    return await(p, &r, deadline_ms);
}

/* The lower rank asks, the other answers; each sees the time of its own round trips. */
static bool ping(struct player *p, int with, struct dlr_net_seen *seen)
{
    int64_t deadline_ms = dlr_now_ms() + EXCHANGE_MS, best = INT64_MAX, sent = 0;
    bool first = p->rank < with;

    for (unsigned i = 0; i < PINGS; i++) {
        if (first) {
            sent = dlr_now_ns();
            if (!send_word(p, with, i, deadline_ms))
                return false;
        }
        if (!take_word(p, with, deadline_ms))
            return false;
        if (i && dlr_now_ns() - sent < best) /* the first one makes the connection */
            best = dlr_now_ns() - sent;
        if (!first) {
            sent = dlr_now_ns();
            if (!send_word(p, with, i, deadline_ms))
                return false;
        }
    }
    seen->latency_us = (float)best / 2000.0f;
    return true;
}

static bool send_block(struct player *p, int to)
{
    MPI_Request r;
    uint64_t size;

    if (!take_word(p, to, dlr_now_ms() + EXCHANGE_MS))
        return false;
    size = p->word[1] < BLOCK ? p->word[1] : BLOCK;
    if (!size)
        return true;
    MPI_Isend(bytes_of(p, p->rank), (int)size, MPI_BYTE, to, p->tag, MPI_COMM_WORLD,
              &r);
    return await(p, &r, dlr_now_ms() + EXCHANGE_MS);
}

/* The sender waits for our word, so that the time is that of the bytes. Of a block that
 * is not there in time it is known that it takes longer. Size 0: no block.
 */
static bool take_block(struct player *p, int from, unsigned size,
                       struct dlr_net_seen *seen)
{
    MPI_Request r;
    int64_t start_ns;
    float us, mbps;
    bool came;

    if (!size)
        return send_word(p, from, 0, dlr_now_ms() + EXCHANGE_MS);
    MPI_Irecv(p->block, (int)size, MPI_BYTE, from, p->tag, MPI_COMM_WORLD, &r);
    start_ns = dlr_now_ns();
    came = send_word(p, from, size, dlr_now_ms() + EXCHANGE_MS) &&
           await(p, &r, dlr_now_ms() + EXCHANGE_MS);
    us = (float)(dlr_now_ns() - start_ns) / 1000.0f;
    us -= us > 2 * seen->latency_us ? seen->latency_us : 0;
    mbps = (float)size / us;
    seen->mbps = mbps > seen->mbps ? mbps : seen->mbps;
    if (came && memcmp(p->block, bytes_of(p, from), size) != 0)
        seen->wrong = true;
    return came;
}

/* Small blocks each way, then large ones. */
static void meet(struct player *p, int with, struct dlr_net_seen *seen)
{
    bool goes_on = ping(p, with, seen);

    for (unsigned i = 0; goes_on && i < 4; i++) {
        unsigned size = i < 2 ? SMALL : seen->mbps < SMALL_MBPS ? 0 : BLOCK;

        p->tag++;
        goes_on = (p->rank < with) == (i % 2 == 0) ? send_block(p, with)
                                                   : take_block(p, with, size, seen);
    }
}

/* --- all rounds ------------------------------------------------------------------- */

/* A round that one rank cannot play is none's. */
static bool agree(bool mine)
{
    int ok = mine, all;

    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* Plays until there is no round, or the time is over: rank 0's clock counts. */
static void play(struct player *p, struct dlr_tournament *t, struct told *all,
                 unsigned *partner, struct dlr_net_seen *seen)
{
    struct told mine;

    all[0].ms = 0;
    while (agree((int64_t)all[0].ms < p->limit_ms && dlr_tournament_next(t, partner))) {
        memset(&mine, 0, sizeof(mine));
        p->tag = (int)dlr_tournament_rounds(t) * ROOM;
        if ((int)partner[p->rank] != p->rank)
            meet(p, (int)partner[p->rank], &mine.seen);
        mine.ms = (float)(dlr_now_ns() - p->start_ns) / 1e6f;
        MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE,
                      MPI_COMM_WORLD);
        for (int i = 0; i < p->size; i++)
            seen[i] = all[i].seen;
        dlr_tournament_record(t, partner, seen);
        if (p->hung && (p->block = malloc(BLOCK)) && (p->word = calloc(2, 8)))
            continue; /* others for what may still be written */
        if (p->hung)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* [a, b, ns, MB/s from a to b, MB/s from b to a]; 0 is no data. */
static json_t *link_row(const struct dlr_net_pair *pair)
{
    const struct dlr_net_seen *s = pair->seen;
    float us = s[0].latency_us > 0 &&
                       (s[1].latency_us <= 0 || s[0].latency_us < s[1].latency_us)
                   ? s[0].latency_us
                   : s[1].latency_us;

    return json_pack("[i,i,I,i,i]", (int)pair->a, (int)pair->b, (json_int_t)(us * 1000),
                     (int)s[1].mbps, (int)s[0].mbps);
}

static json_t *links_json(const struct dlr_tournament *t, const char *const *names,
                          int n, float ms)
{
    json_t *nodes = json_array(), *links = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(nodes, json_string(names[i]));
    for (unsigned i = 0; i < dlr_tournament_pairs(t); i++) {
        struct dlr_net_pair pair = dlr_tournament_pair(t, i);

        json_array_append_new(links, link_row(&pair));
    }
    return json_pack("{s:i, s:i, s:i, s:o, s:o}", "v", DLR_MSG_VERSION, "rounds",
                     (int)dlr_tournament_rounds(t), "took_ms", (int)ms, "nodes", nodes,
                     "links", links);
}

static void conclude(const struct player *p, const struct dlr_tournament *t, float ms,
                     const char *const *names, bool no_stragglers,
                     struct dlr_net_result *ret)
{
    DLR_AUTO_FREE struct dlr_net_finding *found = NULL;
    int n = dlr_tournament_judge(t, &found);

    if (n >= 0)
        dlr_tournament_say(t, found, (unsigned)n, names, (unsigned)p->rank,
                           no_stragglers, &ret->check);
    if (p->rank == 0)
        ret->links = links_json(t, names, p->size, ms);
    ret->hung = p->hung;
}

/* --- who they are ----------------------------------------------------------------- */

struct crowd {
    char (*text)[DLR_TOPO_NAME]; /* [n] */
    const char **names;          /* [n] into text */
    uint64_t *leaf;              /* [n] a hash of its name, 0 unknown */
    struct told *told;           /* [n] */
    unsigned *partner;           /* [n] */
    struct dlr_net_seen *seen;   /* [n] */
};

static void cleanup_crowd(struct crowd *c)
{
    free(c->text);
    free(c->names);
    free(c->leaf);
    free(c->told);
    free(c->partner);
    free(c->seen);
}

static int allocate(struct crowd *c, size_t n)
{
    c->text = calloc(n, sizeof(*c->text));
    c->names = calloc(n, sizeof(*c->names));
    c->leaf = calloc(n, sizeof(*c->leaf));
    c->told = calloc(n, sizeof(*c->told));
    c->partner = calloc(n, sizeof(*c->partner));
    c->seen = calloc(n, sizeof(*c->seen));
    return c->text && c->names && c->leaf && c->told && c->partner && c->seen ? 0
                                                                              : -ENOMEM;
}

static void introduce(const struct dlr_topo_node *self, int n, struct crowd *c)
{
    char name[DLR_TOPO_NAME] = "", leaf[DLR_TOPO_NAME] = "";
    uint64_t hash = 0;

    dlr_format(name, sizeof(name), "%s", self->name);
    dlr_topo_leaf(self, leaf, sizeof(leaf));
    if (leaf[0])
        hash = XXH64(leaf, strlen(leaf), 0);
    MPI_Allgather(name, sizeof(name), MPI_BYTE, c->text, sizeof(name), MPI_BYTE,
                  MPI_COMM_WORLD);
    MPI_Allgather(&hash, 1, MPI_UINT64_T, c->leaf, 1, MPI_UINT64_T, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) {
        c->text[i][DLR_TOPO_NAME - 1] = '\0';
        c->names[i] = c->text[i];
    }
}

void dlr_net_tournament(const struct dlr_topo_node *self, bool no_stragglers,
                        int64_t limit_ms, struct dlr_net_result *ret)
{
    DLR_CLEANUP(cleanup_player) struct player p = {.limit_ms = limit_ms};
    DLR_CLEANUP(cleanup_crowd) struct crowd c = {0};
    struct dlr_tournament *t = NULL;

    memset(ret, 0, sizeof(*ret));
    ret->check = (struct dlr_health_result){"network", DLR_HEALTH_SKIP,
                                            "nobody to measure with, or no memory"};
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.size);
    if (!agree(p.size > 1 && make_bytes(&p) == 0 && allocate(&c, (size_t)p.size) == 0))
        return;
    introduce(self, p.size, &c);
    if (agree(dlr_tournament_new((unsigned)p.size, 1, c.leaf, &t) == 0)) {
        p.start_ns = dlr_now_ns();
        play(&p, t, c.told, c.partner, c.seen);
        conclude(&p, t, c.told[0].ms, c.names, no_stragglers, ret);
    }
    dlr_tournament_free(t);
}
