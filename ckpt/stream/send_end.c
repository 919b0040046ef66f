/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers that go out and end, or go on, from outside: another round, a lost
 * connection, a limit.
 */
#include <errno.h>

#include "ckpt/stream/send.h"
#include "ckpt/stream/stopped_time.h"

void dlr_data_send_round(struct dlr_data *d)
{
    struct dlr_send *s = d->sends, *next;

    for (; s; s = next) {
        next = s->next;
        if (s->round != d->round || !dlr_data_same_token(s->token, d->token))
            dlr_send_end(s, -ECANCELED, "a new round began");
    }
}

void dlr_data_send_abort(struct dlr_data *d, struct dlr_version v)
{
    struct dlr_send *s = d->sends, *next;

    for (; s; s = next) {
        next = s->next;
        if (!dlr_version_eq(s->version, v))
            continue;
        s->rejected = true; /* what is in flight ends by itself */
        if (!s->inflight)
            dlr_send_end(s, -ECANCELED, DLR_SEND_DECIDED);
    }
}

static void end_all_to(struct dlr_data *d, const struct dlr_net_peer *peer, int rc,
                       const char *why)
{
    struct dlr_send *s = d->sends, *next;

    for (; s; s = next) {
        next = s->next;
        if (s->peer == peer)
            dlr_send_end(s, rc, why);
    }
}

bool dlr_data_send_can_wait(const struct dlr_data *d, int64_t now_ms)
{
    const struct dlr_send *s = d->sends;

    while (s && s->paced &&
           now_ms < s->start_ms + d->conf.transfer_timeout_ms / DLR_DATA_HURRY)
        s = s->next;
    return s == NULL;
}

void dlr_data_send_down(struct dlr_data *d, struct dlr_net_peer *peer, int rc)
{
    end_all_to(d, peer, rc, "the connection to the receiver failed");
}

/* When a connection that s waits for has been silent for too long. No error tells of a
 * network that swallows what is sent (UCX 1.13 over TCP: none in 60 s).
 */
static int64_t silent_ms(const struct dlr_send *s)
{
    int64_t moved = dlr_net_moved_ms(s->peer);

    if (s->state != DLR_SEND_ASKING && (s->state == DLR_SEND_ENDING || !s->inflight))
        return DLR_DATA_NEVER;
    if (s->moved_ms > moved)
        moved = s->moved_ms;
    return moved + s->d->conf.answer_timeout_ms + DLR_DATA_SILENT_MS;
}

/* Gives up connections on which nothing moves, with all that is on them: the next
 * transfer has a new one, which does not wait for the old one's next try when the
 * network is back.
 */
static void end_silent(struct dlr_data *d, int64_t now_ms)
{
    struct dlr_send *s = d->sends;

    while (s) {
        struct dlr_net_peer *peer = s->peer;

        if (silent_ms(s) > now_ms) {
            s = s->next;
            continue;
        }
        end_all_to(d, peer, -ETIMEDOUT, "nothing gets through");
        dlr_net_drop(peer);
        s = d->sends;
    }
}

/* Ends or retries what is due; when to look at it again. */
static int64_t look(struct dlr_send *s, int64_t now_ms)
{
    const struct dlr_data_conf *conf = &s->d->conf;
    int64_t at;

    if (s->state == DLR_SEND_ENDING) {
        if (!s->cut && now_ms >= s->end_ms + DLR_DATA_FLUSH_MS) {
            s->cut = true;
            dlr_net_drop(s->peer);
        }
        if (now_ms >= s->end_ms + DLR_DATA_STUCK_MS)
            dlr_data_stuck();
        return s->end_ms + (s->cut ? DLR_DATA_STUCK_MS : DLR_DATA_FLUSH_MS);
    }
    if (now_ms >= s->start_ms + conf->transfer_timeout_ms) {
        dlr_send_end(s, -ETIMEDOUT, "it took too long");
        return now_ms;
    }
    if (s->state == DLR_SEND_RETRY && s->refused_ms &&
        now_ms >= s->refused_ms + conf->answer_timeout_ms) {
        dlr_send_end(s, -ESTALE,
                     "the receiver is not in this round, or expects no such copy");
        return now_ms;
    }
    if (s->state == DLR_SEND_RETRY && now_ms < s->retry_ms)
        return s->retry_ms;
    if (s->state == DLR_SEND_STREAMING && s->pace_ms && now_ms < s->pace_ms)
        return s->pace_ms;
    at = s->start_ms + conf->transfer_timeout_ms;
    if (silent_ms(s) < at)
        at = silent_ms(s);
    if (s->state == DLR_SEND_RETRY)
        dlr_send_ask(s); /* s may be gone */
    else if (s->state == DLR_SEND_STREAMING && s->pace_ms)
        return dlr_send_resume(s, at);
    return at;
}

void dlr_data_send_add_stopped_time(struct dlr_data *d, int64_t stopped_ms,
                                    int64_t now_ms)
{
    for (struct dlr_send *s = d->sends; s; s = s->next) {
        int64_t moved = dlr_net_moved_ms(s->peer);

        if (s->moved_ms < moved)
            s->moved_ms = moved;
        s->moved_ms = dlr_stopped_time_moved(s->moved_ms, stopped_ms, now_ms);
        s->start_ms = dlr_stopped_time_moved(s->start_ms, stopped_ms, now_ms);
        if (s->refused_ms)
            s->refused_ms = dlr_stopped_time_moved(s->refused_ms, stopped_ms, now_ms);
        s->end_ms = dlr_stopped_time_moved(s->end_ms, stopped_ms, now_ms);
    }
}

int64_t dlr_data_send_tick(struct dlr_data *d, int64_t now_ms)
{
    int64_t first = DLR_DATA_NEVER, at;
    struct dlr_send *s, *next;

    end_silent(d, now_ms);
    for (s = d->sends; s; s = next) {
        next = s->next;
        at = look(s, now_ms);
        if (at < first)
            first = at;
    }
    return first;
}
