/* SPDX-License-Identifier: Apache-2.0 */
/* What saves cost this run, and how often they are ordered for it (--dlrover-save). */

#include <stdlib.h>
#include <string.h>

#include "ckpt/commit/cadence.h"
#include "ckpt/commit/interval.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

#define ANY ((uint64_t)INT64_MAX)
#define EXTRA_LEAST 4 /* saves that a rank has measured before what it says counts */
#define JUMP_MAX 8    /* times its mean that a time in begin and fence counts at most */

/* What came to a node since the last commit: its ranks' copies come side by side. */
struct arrived {
    uint64_t bytes, longest_ns;
};

/* What the ranks have said since the last commit: the slowest of them counts. */
struct said {
    double step_ms, blocked_ms, extra_ms;
    bool plain; /* there was a step without a save */
    bool extra; /* a rank knows, also where it is nothing that can be seen */
};

struct dlr_sup_cadence {
    /* learned, and kept from round to round and supervisor to supervisor */
    struct dlr_mean step_ms, blocked_ms;
    double extra_ms; /* 0: not known */

    struct dlr_mean decided_ms, bytes, bytes_per_s;
    struct said said;
    struct arrived *arrived; /* [nnodes] */
    struct dlr_interval interval;
    unsigned bare;       /* commits since a step without a save */
    unsigned told_every; /* 0: nothing was told */
    const char *told_bound;
    int told_possible; /* -1: nothing was told */

    int64_t state_ms; /* what a failure would lose is computed since then; 0: not yet */
    uint64_t state_step;
    bool overdue_reported; /* in this round */

    char uses[256];     /* devices, as told last */
    bool slow_reported; /* that a faster one is not used */
};

static double cost_ms(const struct dlr_sup_cadence *c)
{
    /* What was held up is certain; a difference below that is noise. */
    return c->extra_ms > c->blocked_ms.value ? c->extra_ms : c->blocked_ms.value;
}

static double mtbf_s(const struct dlr_sup_versions *versions)
{
    unsigned failures = dlr_sup_has_plan(versions->env.plan)
                            ? dlr_policy_round(versions->policy)
                            : *versions->env.resume_round;

    return dlr_interval_mtbf_s(versions->env.plan->nplaces, failures,
                               dlr_sup_losses_hours(versions->env.nodes));
}

/* Steps after which the user wants a version on the disk; 0: it is ours to say. */
static unsigned asked(const struct dlr_sup_versions *versions)
{
    const struct dlr_every_conf *every = &versions->env.conf->persist_every;
    double step_ms = versions->cadence->step_ms.value;

    if (every->steps || every->ms == DLR_EVERY_AUTO || !(step_ms > 0))
        return every->steps;
    return every->ms > step_ms ? (unsigned)(every->ms / step_ms) : every->ms > 0;
}

/* Orders the distance that follows from what is known now. */
static void apply(struct dlr_sup_versions *versions)
{
    struct dlr_sup_cadence *c = versions->cadence;
    const struct dlr_interval_of of = {
        cost_ms(c) / 1e3, c->step_ms.value / 1e3, mtbf_s(versions),
        versions->env.conf->ckpt_budget, asked(versions)};
    const struct dlr_interval_run run = {c->blocked_ms.n, c->bare,
                                         dlr_commit_takes(versions->commit)};

    dlr_interval(&of, &c->interval);
    dlr_commit_every(versions->commit, dlr_interval_next(&c->interval, &run));
}

static struct dlr_sup_cadence *make(struct dlr_sup_versions *versions)
{
    if (!versions->cadence)
        versions->cadence = calloc(1, sizeof(*versions->cadence));
    return versions->cadence;
}

void dlr_sup_cadence_stop(struct dlr_sup_versions *versions)
{
    if (versions->cadence)
        free(versions->cadence->arrived);
    free(versions->cadence);
    versions->cadence = NULL;
}

void dlr_sup_cadence_start(struct dlr_sup_versions *versions)
{
    struct dlr_sup_cadence *c = make(versions);

    if (c)
        c->arrived = calloc(versions->members->n, sizeof(*c->arrived));
    if (!c || !c->arrived) {
        dlr_sup_cadence_stop(versions);
        return;
    }
    c->told_possible = -1;
    apply(versions);
}

void dlr_sup_cadence_round(struct dlr_sup_versions *versions)
{
    struct dlr_sup_cadence *c = versions->cadence;

    if (!c)
        return;
    c->decided_ms = c->bytes = c->bytes_per_s = (struct dlr_mean){0};
    c->said = (struct said){0};
    c->state_ms = 0;
    c->overdue_reported = false;
    memset(c->arrived, 0, versions->members->n * sizeof(*c->arrived));
    apply(versions);
}

static double number(const json_t *state, const char *key)
{
    double value = json_number_value(json_object_get(state, key));

    return value > 0 && value < 1e12 ? value : 0;
}

void dlr_sup_cadence_state(const struct dlr_sup_versions *versions, json_t *state)
{
    const struct dlr_sup_cadence *c = versions->cadence;

    if (c)
        json_object_set_new(state, "cadence",
                            json_pack("{s:f,s:f,s:f,s:i}", "step_ms", c->step_ms.value,
                                      "blocked_ms", c->blocked_ms.value, "extra_ms",
                                      c->extra_ms, "saves", (int)c->blocked_ms.n));
}

void dlr_sup_cadence_take(struct dlr_sup_versions *versions, const json_t *state)
{
    const json_t *kept = json_object_get(state, "cadence");
    struct dlr_sup_cadence *c = json_is_object(kept) ? make(versions) : NULL;
    uint64_t saves = 0;

    if (!c || dlr_msg_uint(kept, "saves", 1000000, &saves) < 0)
        return;
    c->step_ms = (struct dlr_mean){number(kept, "step_ms"), (unsigned)saves};
    c->blocked_ms = (struct dlr_mean){number(kept, "blocked_ms"), (unsigned)saves};
    c->extra_ms = number(kept, "extra_ms");
}

static double mean_ms(const json_t *msg, const char *total_ns, const char *count)
{
    uint64_t ns = 0, n = 0;

    if (dlr_msg_uint(msg, total_ns, ANY, &ns) < 0 ||
        dlr_msg_uint(msg, count, ANY, &n) < 0 || n == 0)
        return 0;
    return (double)ns / 1e6 / (double)n;
}

static double told_ms(const json_t *msg, const char *ns_key)
{
    uint64_t ns = 0;

    dlr_msg_uint(msg, ns_key, ANY, &ns);
    return (double)ns / 1e6;
}

static void raise_to(double *most, double value)
{
    if (value > *most)
        *most = value;
}

/* Where there was no step without a save, those with one stand for it. */
void dlr_sup_cadence_sealed(struct dlr_sup_versions *versions, const json_t *msg)
{
    struct said *said = versions->cadence ? &versions->cadence->said : NULL;
    double plain = mean_ms(msg, "plain_ns", "plain_steps");
    double usual = told_ms(msg, "step_ns");
    uint64_t saves = 0;

    if (!said)
        return;
    said->plain = said->plain || plain > 0;
    if (usual == 0)
        usual = plain > 0 ? plain : mean_ms(msg, "saved_ns", "saved_steps");
    raise_to(&said->step_ms, usual);
    raise_to(&said->blocked_ms, mean_ms(msg, "blocked_ns", "saves"));
    if (dlr_msg_uint(msg, "extra_saves", ANY, &saves) < 0 || saves < EXTRA_LEAST)
        return;
    said->extra = true;
    raise_to(&said->extra_ms, told_ms(msg, "extra_ns"));
}

void dlr_sup_cadence_copied(struct dlr_sup_versions *versions, unsigned node,
                            const json_t *msg)
{
    uint64_t bytes = 0, ns = 0;
    struct arrived *a;

    if (!versions->cadence || dlr_msg_uint(msg, "bytes", ANY, &bytes) < 0 ||
        dlr_msg_uint(msg, "ns", ANY, &ns) < 0 || ns == 0)
        return; /* it was there already */
    a = &versions->cadence->arrived[node];
    a->bytes += bytes;
    if (ns > a->longest_ns)
        a->longest_ns = ns;
}

void dlr_sup_cadence_uses(struct dlr_sup_versions *versions, unsigned node,
                          const json_t *msg)
{
    const char *uses = "", *transport = "", *faster = "", *cpus = "";
    uint64_t mbps = 0;
    char all[sizeof(versions->cadence->uses)];

    dlr_msg_str(msg, "uses", &uses);
    dlr_msg_str(msg, "transport", &transport);
    dlr_msg_str(msg, "faster", &faster);
    dlr_msg_str(msg, "cpus", &cpus);
    dlr_msg_uint(msg, "mbps", ANY, &mbps);
    snprintf(all, sizeof(all), "%s %s %llu %s", uses, transport,
             (unsigned long long)mbps, faster);
    if (!versions->cadence || dlr_streq(all, versions->cadence->uses))
        return;
    dlr_format(versions->cadence->uses, sizeof(versions->cadence->uses), "%s", all);
    dlr_journal_note(
        dlr_sup_journal(versions->env.io), "network", "s:s,s:s,s:s,s:I,s:s,s:s", "node",
        versions->members->list[node].node.name, "uses", uses, "transport", transport,
        "mbps", (json_int_t)mbps, "faster", faster, "cpus", cpus);
    if (faster[0] && !versions->cadence->slow_reported)
        dlr_user_line(
            versions->env.io,
            "copies of %s go over %s (%llu Mb/s); %s is up and faster, and not used "
            "(--dlrover-set=net)",
            versions->members->list[node].node.name, uses, (unsigned long long)mbps,
            faster);
    versions->cadence->slow_reported = versions->cadence->slow_reported || faster[0];
}

/* A job that was suspended in a fence has not shown what a save costs: an hour of it
 * would put the next one off for days. A cost that stays is followed within a few
 * saves.
 */
static double without_jump(const struct dlr_mean *mean, double value)
{
    double most = JUMP_MAX * mean->value;

    return most > 0 && value > most ? most : value;
}

/* Takes what the last version has taught. */
static void learn(struct dlr_sup_versions *versions)
{
    struct dlr_sup_cadence *c = versions->cadence;
    double bytes = 0, slowest = 0;

    for (unsigned i = 0; i < versions->members->n; i++) {
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
    if (c->said.extra) /* and steps */
        c->step_ms.n = 0;
    if (c->said.step_ms > 0)
        dlr_mean_add(&c->step_ms, c->said.step_ms);
    if (c->said.blocked_ms > 0)
        dlr_mean_add(&c->blocked_ms, without_jump(&c->blocked_ms, c->said.blocked_ms));
    if (c->said.extra) /* the ranks' own means of their last saves */
        c->extra_ms = c->said.extra_ms;
    c->bare = c->said.plain ? 0 : c->bare + 1;
    memset(c->arrived, 0, versions->members->n * sizeof(*c->arrived));
    c->said = (struct said){0};
}

/* Once, and again when it has at least doubled or halved, or something else decides and
 * it differs by a quarter.
 */
static bool is_news(const struct dlr_sup_cadence *c, unsigned every, const char *bound)
{
    unsigned told = c->told_every;

    return !told || every >= 2 * told || 2 * every <= told ||
           (!dlr_streq(bound, c->told_bound) &&
            (4 * every > 5 * told || 4 * told > 5 * every));
}

static void tell_every(struct dlr_sup_versions *versions)
{
    struct dlr_sup_cadence *c = versions->cadence;
    unsigned every = c->interval.every, takes = dlr_commit_takes(versions->commit);
    const char *bound = takes > every ? "copies" : c->interval.bound;

    every = takes > every ? takes : every;
    if (!is_news(c, every, bound))
        return;
    c->told_every = every;
    c->told_bound = bound;
    dlr_journal_note(dlr_sup_journal(versions->env.io), "cadence",
                     "s:i,s:f,s:s,s:f,s:f,s:f,s:f,s:f,s:f", "every", (int)every,
                     "every_s", every * c->step_ms.value / 1e3, "bound", bound,
                     "cost_ms", cost_ms(c), "blocked_ms", c->blocked_ms.value,
                     "step_ms", c->step_ms.value, "stale_s", c->interval.stale_s,
                     "budget", versions->env.conf->ckpt_budget / 1e4, "mtbf_h",
                     mtbf_s(versions) / 3600);
    versions->ops->changed(versions->arg, false);
}

static void tell_possible(struct dlr_sup_versions *versions,
                          const struct dlr_cadence *in)
{
    struct dlr_sup_cadence *c = versions->cadence;
    struct dlr_cadence_way way = {dlr_sup_copies(versions->env.copies) > 0,
                                  c->bytes.value, c->bytes_per_s.value,
                                  c->decided_ms.value};
    char why[DLR_CADENCE_WORDS];
    int possible;

    if (way.copies && c->bytes.n < DLR_CADENCE_LEARN)
        return;
    possible = dlr_cadence_every_step(in, &way, why);
    if (possible == c->told_possible)
        return;
    if (c->told_possible < 0)
        dlr_user_line(versions->env.io, "a save in every step is %spossible: %s",
                      possible ? "" : "not ", why);
    c->told_possible = possible;
    dlr_journal_note(dlr_sup_journal(versions->env.io), "every_step", "s:b,s:s",
                     "possible", possible, "why", why);
}

void dlr_sup_cadence_commit(struct dlr_sup_versions *versions, struct dlr_version v,
                            int64_t took_ms)
{
    struct dlr_sup_cadence *c = versions->cadence;
    struct dlr_cadence in = {.budget_ppm = versions->env.conf->ckpt_budget};

    if (!c)
        return;
    c->state_ms = dlr_sup_now() - took_ms;
    c->state_step = v.step;
    learn(versions);
    dlr_mean_add(&c->decided_ms, (double)took_ms);
    apply(versions);
    if (c->blocked_ms.n < DLR_INTERVAL_LEARN || c->step_ms.n == 0)
        return;
    in.step_ms = c->step_ms.value;
    in.blocked_ms = c->blocked_ms.value;
    in.saves = c->blocked_ms.n;
    tell_every(versions);
    tell_possible(versions, &in);
}

void dlr_sup_expected(const struct dlr_sup_versions *versions, double *ret_steps,
                      double *ret_fetch_ms)
{
    const struct dlr_sup_cadence *c = versions->cadence;

    *ret_steps = *ret_fetch_ms = 0;
    if (c && c->step_ms.value > 0)
        *ret_steps = mtbf_s(versions) * 1e3 / c->step_ms.value;
    if (c && c->bytes_per_s.value > 0)
        *ret_fetch_ms = 1e3 * c->bytes.value / c->bytes_per_s.value;
}

/* --- what would be lost ----------------------------------------------------------- */

int64_t dlr_sup_cadence_at_stake_ms(const struct dlr_sup_versions *versions,
                                    int64_t now_ms)
{
    return versions->cadence && versions->cadence->state_ms
               ? now_ms - versions->cadence->state_ms
               : -1;
}

static void waits_for(struct dlr_sup_versions *versions,
                      const struct dlr_commit_waits *w, char *buf, size_t size)
{
    int place = versions->env.plan->place_of[w->rank];
    int node = dlr_sup_holder_node(versions->env.copies, (unsigned)place, w->holder);
    const char *name = node >= 0 ? versions->members->list[node].node.name : "?";

    if (w->what == DLR_WAITS_READY)
        dlr_format(buf, size, "%.100s has no memory for rank %u's snapshots yet", name,
                   w->rank);
    else if (w->what == DLR_WAITS_VERSION)
        dlr_format(buf, size, "%.100s has not got rank %u's part of step %llu", name,
                   w->rank, (unsigned long long)w->v.step);
    else
        dlr_format(buf, size, "no step that was begun is to be saved");
}

/* One line for the round where no commit comes. */
static void tell_overdue(struct dlr_sup_versions *versions,
                         const struct dlr_commit_waits *w, int64_t since_ms,
                         uint64_t steps)
{
    char why[300];

    versions->cadence->overdue_reported = true;
    waits_for(versions, w, why, sizeof(why));
    dlr_user_line(versions->env.io, "nothing was saved for %lld s and %llu steps: %s",
                  (long long)since_ms / 1000, (unsigned long long)steps, why);
    dlr_journal_note(dlr_sup_journal(versions->env.io), "overdue", "s:I,s:I,s:I,s:s",
                     "round", (json_int_t)versions->ops->round(versions->arg),
                     "since_ms", (json_int_t)since_ms, "steps", (json_int_t)steps,
                     "why", why);
}

void dlr_sup_versions_watch(struct dlr_sup_versions *versions, uint64_t step,
                            int64_t now_ms)
{
    struct dlr_sup_cadence *c = versions->cadence;
    unsigned every_now = dlr_commit_every_now(versions->commit), due;
    struct dlr_commit_waits w;
    uint64_t steps;
    double since_s;

    if (!c)
        return;
    if (!c->state_ms) {
        c->state_ms = now_ms;
        c->state_step = step;
    }
    since_s = (double)(now_ms - c->state_ms) / 1e3;
    steps = step > c->state_step ? step - c->state_step : 0;
    due = dlr_interval_due(&c->interval, every_now, since_s, steps);
    if (due < every_now)
        dlr_commit_every(versions->commit, due);
    if (!c->overdue_reported &&
        dlr_interval_overdue(&c->interval, due, since_s, steps) &&
        dlr_commit_waits(versions->commit, &w))
        tell_overdue(versions, &w, now_ms - c->state_ms, steps);
}
