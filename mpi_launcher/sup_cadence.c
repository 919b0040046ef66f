/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/sup_cadence.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/cadence.h"
#include "common/msg.h"
#include "common/str.h"

#define ANY ((uint64_t)INT64_MAX)

/* What came to a node since the last commit: its ranks' copies come side by side. */
struct arrived {
    uint64_t bytes, longest_ns;
};

struct dlr_sup_cadence {
    struct dlr_mean step_ms, blocked_ms, decided_ms, bytes, bytes_per_s;
    double worst_step_ms, worst_blocked_ms; /* of the ranks, since the last commit */
    struct arrived *arrived;                /* [nnodes] */
    unsigned every, told_every;             /* 0: nothing was told */
    int told_possible;                      /* -1: nothing was told */
    char uses[256];                         /* devices, as told last */
    bool slow_told;                         /* that a faster one is not used */
};

void dlr_sup_cadence_start(struct dlr_sup *s)
{
    struct dlr_sup_cadence *c = calloc(1, sizeof(*c));

    if (c)
        c->arrived = calloc(s->members.n, sizeof(*c->arrived));
    if (!c || !c->arrived) {
        free(c);
        return;
    }
    c->told_possible = -1;
    s->cadence = c;
}

void dlr_sup_cadence_round(struct dlr_sup *s)
{
    struct dlr_sup_cadence *c = s->cadence;

    if (!c)
        return;
    c->step_ms = c->blocked_ms = c->decided_ms = (struct dlr_mean){0};
    c->bytes = c->bytes_per_s = (struct dlr_mean){0};
    c->worst_step_ms = c->worst_blocked_ms = 0;
    memset(c->arrived, 0, s->members.n * sizeof(*c->arrived));
    dlr_commit_every(s->commit, 1);
}

static double mean_ms(const json_t *msg, const char *total_ns, const char *count)
{
    uint64_t ns = 0, n = 0;

    if (dlr_msg_uint(msg, total_ns, ANY, &ns) < 0 ||
        dlr_msg_uint(msg, count, ANY, &n) < 0 || n == 0)
        return 0;
    return (double)ns / 1e6 / (double)n;
}

void dlr_sup_cadence_sealed(struct dlr_sup *s, const json_t *msg)
{
    struct dlr_sup_cadence *c = s->cadence;
    double blocked = mean_ms(msg, "blocked_ns", "saves");
    double step = mean_ms(msg, "plain_ns", "plain_steps");

    if (!c)
        return;
    if (blocked > c->worst_blocked_ms)
        c->worst_blocked_ms = blocked;
    if (step > c->worst_step_ms)
        c->worst_step_ms = step;
}

void dlr_sup_cadence_copied(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t bytes = 0, ns = 0;
    struct arrived *a;

    if (!s->cadence || dlr_msg_uint(msg, "bytes", ANY, &bytes) < 0 ||
        dlr_msg_uint(msg, "ns", ANY, &ns) < 0 || ns == 0)
        return; /* it was there already */
    a = &s->cadence->arrived[node];
    a->bytes += bytes;
    if (ns > a->longest_ns)
        a->longest_ns = ns;
}

void dlr_sup_cadence_uses(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *uses = "", *faster = "", *cpus = "";
    uint64_t mbps = 0;
    char all[sizeof(s->cadence->uses)];

    dlr_msg_str(msg, "uses", &uses);
    dlr_msg_str(msg, "faster", &faster);
    dlr_msg_str(msg, "cpus", &cpus);
    dlr_msg_uint(msg, "mbps", ANY, &mbps);
    snprintf(all, sizeof(all), "%s %llu %s", uses, (unsigned long long)mbps, faster);
    if (!s->cadence || dlr_streq(all, s->cadence->uses))
        return;
    dlr_format(s->cadence->uses, sizeof(s->cadence->uses), "%s", all);
    dlr_journal_note(s->journal, "network", "s:s,s:s,s:I,s:s,s:s", "node",
                     s->members.list[node].node.name, "uses", uses, "mbps",
                     (json_int_t)mbps, "faster", faster, "cpus", cpus);
    if (faster[0] && !s->cadence->slow_told)
        dlr_sup_say(
            s,
            "copies of %s go over %s (%llu Mb/s); %s is up and faster, and not used "
            "(--dlrover-net)",
            s->members.list[node].node.name, uses, (unsigned long long)mbps, faster);
    s->cadence->slow_told = s->cadence->slow_told || faster[0];
}

/* Takes what the last version has taught. */
static void learn(struct dlr_sup *s)
{
    struct dlr_sup_cadence *c = s->cadence;
    double bytes = 0, slowest = 0;

    for (unsigned i = 0; i < s->members.n; i++) {
        const struct arrived *a = &c->arrived[i];
        double rate =
            a->longest_ns ? 1e9 * (double)a->bytes / (double)a->longest_ns : 0;

        if ((double)a->bytes > bytes)
            bytes = (double)a->bytes;
        if (rate > 0 && (slowest == 0 || rate < slowest))
            slowest = rate;
    }
    if (bytes > 0) {
        dlr_mean_add(&c->bytes, bytes);
        dlr_mean_add(&c->bytes_per_s, slowest);
    }
    if (c->worst_step_ms > 0)
        dlr_mean_add(&c->step_ms, c->worst_step_ms);
    if (c->worst_blocked_ms > 0)
        dlr_mean_add(&c->blocked_ms, c->worst_blocked_ms);
    memset(c->arrived, 0, s->members.n * sizeof(*c->arrived));
    c->worst_step_ms = c->worst_blocked_ms = 0;
}

/* Once, and again when it has at least doubled or halved. */
static void tell_every(struct dlr_sup *s, const struct dlr_cadence *in)
{
    struct dlr_sup_cadence *c = s->cadence;

    if (c->told_every && c->every < 2 * c->told_every && 2 * c->every > c->told_every)
        return;
    c->told_every = c->every;
    dlr_journal_note(s->journal, "cadence", "s:i,s:f,s:f,s:f", "every", (int)c->every,
                     "blocked_ms", in->blocked_ms, "step_ms", in->step_ms, "budget",
                     in->budget_ppm / 1e4);
}

static void tell_possible(struct dlr_sup *s, const struct dlr_cadence *in)
{
    struct dlr_sup_cadence *c = s->cadence;
    struct dlr_cadence_way way = {dlr_sup_copies(s) > 0, c->bytes.value,
                                  c->bytes_per_s.value, c->decided_ms.value};
    char why[DLR_CADENCE_WORDS];
    int possible;

    if (way.copies && c->bytes.n < DLR_CADENCE_LEARN)
        return;
    possible = dlr_cadence_every_step(in, &way, why);
    if (possible == c->told_possible)
        return;
    if (c->told_possible < 0)
        dlr_sup_say(s, "a save in every step is %spossible: %s", possible ? "" : "not ",
                    why);
    c->told_possible = possible;
    dlr_journal_note(s->journal, "every_step", "s:b,s:s", "possible", possible, "why",
                     why);
}

void dlr_sup_cadence_commit(struct dlr_sup *s, int64_t took_ms)
{
    struct dlr_sup_cadence *c = s->cadence;
    struct dlr_cadence in = {.budget_ppm = s->conf.ckpt_budget};

    if (!c)
        return;
    learn(s);
    dlr_mean_add(&c->decided_ms, (double)took_ms);
    in.step_ms = c->step_ms.value;
    in.blocked_ms = c->blocked_ms.value;
    in.saves = c->blocked_ms.n;
    if (in.saves < DLR_CADENCE_LEARN || c->step_ms.n == 0)
        return;
    dlr_commit_every(s->commit, dlr_cadence_every(&in));
    c->every = dlr_commit_stride(s->commit);
    tell_every(s, &in);
    tell_possible(s, &in);
}
