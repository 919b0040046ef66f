/* SPDX-License-Identifier: Apache-2.0 */
/* For a successor, which then has it written: a rank whose snapshot nobody has is made
 * here of its set's parity. Its slots first; then those who have a part send it here.
 * The end is answered, and the successor's own limit ends the wait for a node that does
 * not answer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/snapshots/parts.h"
#include "mpi_launcher/plan/parity_sets.h"

/* Requests of a rebuilding are numbered beyond those of ranks: its sum, and its parts.
 */
#define SUM_ID(rank) ((UINT64_C(1) << 40) + 2 * (uint64_t)(rank))
#define PART_ID(rank) (SUM_ID(rank) + 1)

struct dlr_agent_rebuild {
    struct dlr_agent_rebuild *next;
    struct dlr_agent_origin from;
    int32_t rank;
    struct dlr_version version;
    char *parts;
    bool asked; /* the parts */
};

static struct dlr_agent_rebuild *find(const struct dlr_agent_snapshots *s, int32_t rank)
{
    struct dlr_agent_rebuild *r = s->rebuilds;

    while (r && r->rank != rank)
        r = r->next;
    return r;
}

/* Takes it off the list; *ret is the caller's. */
static void take(struct dlr_agent_snapshots *s, struct dlr_agent_rebuild *r)
{
    struct dlr_agent_rebuild **at = &s->rebuilds;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
}

static struct dlr_agent_rebuild *free_rebuild(struct dlr_agent_rebuild *r)
{
    if (r)
        free(r->parts);
    free(r);
    return NULL;
}

static void end(struct dlr_agent_snapshots *s, struct dlr_agent_rebuild *r, int rc,
                const char *why)
{
    take(s, r);
    dlr_agent_done(s->base, &r->from, rc, why);
    free_rebuild(r);
}

/* Its sum, or a part that goes from this node to itself. */
static void ended(struct dlr_agent_snapshots *s, const struct dlr_agent_request *q,
                  const struct dlr_agent_origin *from, int rc, const char *why)
{
    if (rc < 0)
        dlr_agent_save_lost(s, q->rank, q->version, why);
    dlr_agent_rebuild_done(s, from->id, rc, why);
}

int dlr_agent_rebuild(struct dlr_agent_snapshots *s, const json_t *msg,
                      const struct dlr_agent_origin *from)
{
    struct dlr_agent_rebuild *r = calloc(1, sizeof(*r));
    struct dlr_agent_origin self = {.from = DLR_AGENT_SELF};
    struct dlr_agent_request q = {.type = DLR_LOCAL_D_PARITY};
    const char *parts;
    uint64_t bytes;

    if (!r)
        return -ENOMEM;
    r->from = *from;
    if (dlr_agent_copy_of(msg, &r->from, &r->rank, &r->version) < 0 ||
        dlr_msg_str(msg, "terms", &q.text) < 0 || strlen(q.text) >= DLR_LOCAL_TEXT ||
        dlr_msg_str(msg, "parts", &parts) < 0 ||
        dlr_msg_uint(msg, "bytes", INT64_MAX, &bytes) < 0 || bytes == 0 ||
        find(s, r->rank)) {
        free_rebuild(r);
        return -EBADMSG;
    }
    r->parts = strdup(parts);
    if (!r->parts) {
        free_rebuild(r);
        return -ENOMEM;
    }
    r->next = s->rebuilds;
    s->rebuilds = r;
    dlr_agent_changed(s->base);
    self.id = SUM_ID(r->rank);
    q.rank = r->rank;
    q.version = r->version;
    dlr_agent_request(s, &q, &self, ended);
    if (s->rebuilds == r) /* else that has failed already */
        dlr_agent_ranks_reserve(s, r->rank, bytes, false);
    return 0;
}

static void ask_part(struct dlr_agent_snapshots *s, const struct dlr_agent_rebuild *r,
                     unsigned slot, const char *node)
{
    struct dlr_agent_origin self = {.from = DLR_AGENT_SELF, .id = PART_ID(r->rank)};
    struct dlr_agent_request q = {.type = DLR_LOCAL_D_SEND,
                                  .rank = (int32_t)slot,
                                  .version = r->version,
                                  .text = dlr_agent_data_address(s->data)};

    if (dlr_streq(node, s->self->node))
        dlr_agent_request(s, &q, &self, ended);
    else
        dlr_agent_peers_send(
            s->base, node,
            json_pack("{s:i, s:s, s:I, s:I, s:i, s:I, s:I, s:s}", "v", DLR_MSG_VERSION,
                      "t", "send", "gen", (json_int_t)s->self->run.gen, "id",
                      (json_int_t)self.id, "rank", (int)slot, "vround",
                      (json_int_t)r->version.round, "step", (json_int_t)r->version.step,
                      "data", dlr_agent_data_address(s->data)));
}

void dlr_agent_rebuild_reserved(struct dlr_agent_snapshots *s, int32_t rank, int rc,
                                const char *why)
{
    struct dlr_agent_rebuild *r = find(s, rank);
    char node[DLR_PARITY_DATA_MAX][DLR_TOPO_NAME];
    unsigned slot[DLR_PARITY_DATA_MAX], n;

    if (!r || r->asked)
        return;
    r->asked = true;
    if (rc < 0) {
        end(s, r, rc, why);
        return;
    }
    n = dlr_parity_sets_read_sources(r->parts, slot, node);
    for (unsigned i = 0; i < n && find(s, rank) == r; i++)
        ask_part(s, r, slot[i], node[i]);
}

bool dlr_agent_rebuild_done(struct dlr_agent_snapshots *s, uint64_t id, int rc,
                            const char *why)
{
    struct dlr_agent_rebuild *r = s->rebuilds;

    if (id < SUM_ID(0))
        return false;
    while (r && id != SUM_ID(r->rank) && id != PART_ID(r->rank))
        r = r->next;
    if (r && (rc < 0 || id == SUM_ID(r->rank)))
        end(s, r, rc, why);
    return true;
}

void dlr_agent_rebuild_stop(struct dlr_agent_snapshots *s)
{
    while (s->rebuilds) {
        struct dlr_agent_rebuild *r = s->rebuilds;

        s->rebuilds = r->next;
        free_rebuild(r);
    }
}
