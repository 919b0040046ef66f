/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that will not be whole: what the supervisor is told of them, now and when it
 * is new.
 */
#include <stdio.h>

#include "common/json/message.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/parts.h"

void dlr_agent_save_missed(struct dlr_agent_snapshots *s, int32_t rank, uint64_t step,
                           const char *why)
{
    dlr_agent_send_supervisor(
        s->base, json_pack("{s:i, s:s, s:I, s:i, s:I, s:s}", "v", DLR_MSG_VERSION, "t",
                           "missed", "round", (json_int_t)s->round->round, "rank", rank,
                           "step", (json_int_t)step, "why", why));
}

void dlr_agent_save_lost(struct dlr_agent_snapshots *s, int32_t rank,
                         struct dlr_version version, const char *why)
{
    if (dlr_agent_round_is(s->round, version.round))
        dlr_agent_save_missed(s, rank, version.step, why);
}

void dlr_agent_save_torn_resend(struct dlr_agent_snapshots *s)
{
    if (s->torn.known && s->torn.version.round == s->round->round)
        dlr_agent_send_supervisor(
            s->base, json_pack("{s:i, s:s, s:I, s:i, s:I, s:s}", "v", DLR_MSG_VERSION,
                               "t", "torn", "round", (json_int_t)s->round->round,
                               "rank", s->torn.rank, "step",
                               (json_int_t)s->torn.version.step, "why", s->torn.why));
}

void dlr_agent_save_torn(struct dlr_agent_snapshots *s, int32_t rank, uint64_t step,
                         const char *why)
{
    s->torn.known = true;
    s->torn.rank = rank;
    s->torn.version = (struct dlr_version){s->round->round, step};
    snprintf(s->torn.why, sizeof(s->torn.why), "%s", why);
    dlr_agent_save_torn_resend(s);
}

void dlr_agent_bad_resend(struct dlr_agent_snapshots *s)
{
    if (s->bad.known)
        dlr_agent_send_supervisor(
            s->base, json_pack("{s:i, s:s, s:I, s:i, s:I}", "v", DLR_MSG_VERSION, "t",
                               "bad", "round", (json_int_t)s->bad.version.round, "rank",
                               s->bad.rank, "step", (json_int_t)s->bad.version.step));
}

void dlr_agent_bad(struct dlr_agent_snapshots *s, const struct dlr_agent_conn *c,
                   uint64_t step)
{
    struct dlr_local_msg m;

    if (!s->bad.known || s->bad.version.round != s->round->round ||
        step < s->bad.version.step) {
        s->bad.known = true;
        s->bad.rank = c->rank;
        s->bad.version = (struct dlr_version){s->round->round, step};
    }
    dlr_agent_bad_resend(s);
    dlr_local_init(&m, DLR_LOCAL_BAD_REPORTED);
    m.round = s->round->round;
    m.rank = c->rank;
    m.step = step;
    dlr_agent_local_send(c, &m, NULL, 0);
}
