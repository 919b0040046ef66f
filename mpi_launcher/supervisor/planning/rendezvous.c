/* SPDX-License-Identifier: Apache-2.0 */
/* How a round comes to its plan: candidates meet in an MPI program (or report over the control
 * plane: gather.c), and one plan comes out.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/run/master_port.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define PLAN_MARK "DLROVER-PLAN "
#define PLAN_TEXT_MAX (16u << 20)
#define PEER_TIMEOUT_MS                                                                \
    300 /* of the reachability check: a silent peer costs this once */

/* --- what the plan must know ---------------------------------------------------------------- */

void dlr_sup_fill_want(struct dlr_sup *s, struct dlr_plan_want *want)
{
    struct dlr_plan_world seats = dlr_sup_seats(s);

    memset(want, 0, sizeof(*want));
    want->nplaces = seats.nplaces;
    want->tasks = seats.tasks;
    want->ranks = seats.ranks;
    dlr_format(want->batch, sizeof(want->batch), "%s", dlr_sup_batch(s->nodes));
    want->former = s->former;
    want->nformer = s->nformer;
    want->prefer = s->prefer;
    want->nprefer = s->prefer ? s->step.nprefer : 0;
    want->ordered = s->step.ordered;
    s->blind = s->disk != NULL;
    s->awaits_disk = false;
    want->files = s->files;
    want->nfiles = s->nfiles;
    want->struck = s->struck;
    want->nstruck = s->nstruck;
    want->full = s->full;
    want->nfull = s->nfull;
    want->members = s->sets.rows > 0 ? s->conf.redundancy.members : 0;
    want->rows = s->sets.rows;
    want->worlds = s->worlds;
    want->nworlds = s->nworlds;
    want->has_committed = dlr_commit_newest(s->commit, &want->committed);
}

/* As a descriptor, which the first rank's standard input comes from. */
static int make_input(struct dlr_sup *s, int *ret_fd, struct dlr_err *err)
{
    DLR_AUTO_FREE const char **names = calloc(2 * s->members->n, sizeof(*names));
    DLR_AUTO_JSON json_t *input = NULL;
    DLR_AUTO_FREE char *text = NULL;
    const char **addrs = names ? names + s->members->n : NULL;
    struct dlr_plan_survey survey = {
        .checks = s->conf.checks,
        .disk_path = s->info.dir,
        .shm_path = "/dev/shm",
        .store_dir = s->conf.checkpoint ? s->info.memory : "",
        .key = s->info.key,
        .peer_timeout_ms = PEER_TIMEOUT_MS,
        .port =
            dlr_port_choose(s->job_number, s->info.name, dlr_policy_round(s->policy)),
        .peer_nodes = names,
        .peer_addrs = addrs,
    };
    struct dlr_plan_want want;
    int fd;

    for (unsigned i = 0; names && i < s->members->n; i++) {
        if (!dlr_sup_is_candidate(s->steps, i))
            continue;
        names[survey.npeers] = s->members->list[i].node.name;
        addrs[survey.npeers++] = s->members->list[i].addr;
    }
    dlr_sup_fill_want(s, &want);
    input = names ? dlr_plan_input_to_json(&want, &survey) : NULL;
    text = input ? dlr_msg_text(input) : NULL;
    if (!text)
        return dlr_fail(err, -ENOMEM, "no memory for the rendezvous");
    fd = dlr_sup_file_memory(text);
    if (fd < 0)
        return dlr_fail(err, fd, "no memory for the rendezvous");
    *ret_fd = fd;
    return 0;
}

/* --- the plan comes ------------------------------------------------------------------------- */

static json_t *place_row(struct dlr_sup *s, unsigned place)
{
    const struct dlr_plan_place *p = &s->plan.places[place];
    char leaf[DLR_TOPO_NAME] = "";
    json_t *row;

    dlr_topo_leaf(p->node.path, leaf, sizeof(leaf));
    row = json_pack("{s:s,s:s,s:i,s:i,s:o*,s:b}", "node", p->node.name, "leaf", leaf,
                    "first", s->plan.ranks[p->from], "tasks", p->tasks, "ranks",
                    dlr_plan_place_ranks(&s->plan, place), "moved", p->moved);
    if (p->partner != place)
        json_object_set_new(row, "partner",
                            json_string(s->plan.places[p->partner].node.name));
    if (s->sets.rows > 0)
        json_object_set_new(row, "parity", dlr_sup_holder_names(s, place));
    else if (dlr_sup_copies(s) > 1)
        json_object_set_new(row, "partners", dlr_sup_holder_names(s, place));
    return row;
}

static void tell_verdicts(struct dlr_sup *s, const struct dlr_plan *plan)
{
    for (unsigned i = 0; i < plan->nverdicts; i++) {
        const struct dlr_plan_verdict *v = &plan->verdicts[i];

        dlr_journal_note(dlr_sup_journal(s->io), "check", "s:s,s:s,s:s,s:s", "node",
                         v->node, "check", v->check.check, "verdict",
                         dlr_health_verdict_name(v->check.verdict), "reason",
                         v->check.reason);
    }
}

json_t *dlr_sup_plan_rows(struct dlr_sup *s)
{
    json_t *places = json_array(), *spares = json_array();

    for (unsigned i = 0; i < s->plan.nplaces; i++)
        json_array_append_new(places, place_row(s, i));
    for (unsigned i = 0; i < s->plan.nspares; i++)
        json_array_append_new(spares, json_string(s->plan.spares[i].name));
    return json_pack("{s:I,s:o,s:o,s:o}", "round",
                     (json_int_t)dlr_policy_round(s->policy), "places", places,
                     "spares", spares, "restore",
                     dlr_sup_version(s->plan.restore ? &s->plan.version : NULL));
}

static void tell_plan(struct dlr_sup *s, int64_t took_ms)
{
    json_t *row = dlr_sup_plan_rows(s), *out = json_array(), *notes = json_array();

    for (unsigned i = 0; i < s->plan.nout; i++)
        json_array_append_new(out, json_pack("{s:s,s:s}", "node", s->plan.out[i].node,
                                             "reason", s->plan.out[i].reason));
    for (unsigned i = 0; i < s->plan.nnotes; i++) {
        json_array_append_new(notes, json_string(s->plan.notes[i]));
        dlr_sup_say(s->io, "%s", s->plan.notes[i]);
    }
    tell_verdicts(s, &s->plan);
    json_object_set_new(row, "took_ms", json_integer(took_ms));
    json_object_set_new(row, "out", out);
    json_object_set_new(row, "notes", notes);
    dlr_journal_event(dlr_sup_journal(s->io), "plan", row);
}

/* The seats of this plan are what the next one starts from. */
static void keep_seats(struct dlr_sup *s)
{
    dlr_sup_holders_keep(s);
    free(s->former);
    s->former = calloc(s->plan.nplaces, sizeof(*s->former));
    s->nformer = s->former ? s->plan.nplaces : 0;
    for (unsigned i = 0; i < s->nformer; i++) {
        s->former[i].node = s->plan.places[i].node;
        if (dlr_sup_copies(s) > 1 || s->sets.rows > 0)
            memcpy(s->former[i].partner, DLR_PLAN_SEVERAL, sizeof(DLR_PLAN_SEVERAL));
        else
            memcpy(s->former[i].partner,
                   s->plan.places[s->plan.places[i].partner].node.name,
                   sizeof(s->former[i].partner));
    }
}

/* Too few nodes are fit: another allocation may help, without those that are not. With none
 * fit it is nothing of the nodes' (a full file system that all share, say), and would not.
 */
static void no_plan(struct dlr_sup *s, int rc, struct dlr_plan *plan, const char *why)
{
    unsigned left = 0;

    tell_verdicts(s, plan);
    free(s->unfit);
    s->unfit = calloc(s->members->n, 1);
    for (unsigned i = 0; i < plan->nout; i++) {
        int node = dlr_members_find(s->members, plan->out[i].node);

        if (node >= 0 && s->unfit)
            s->unfit[node] = 1;
    }
    for (unsigned i = 0; i < s->members->n; i++)
        left += s->unfit && !s->unfit[i] && dlr_sup_is_candidate(s->steps, i);
    if (rc == -ENOSPC && !left)
        rc = -ENODEV;
    dlr_sup_say(s->io, "%s", why);
    dlr_journal_note(dlr_sup_journal(s->io), "rendezvous_failed", "s:s", "why", why);
    dlr_plan_done(plan);
    dlr_policy_planned(s->policy, rc, NULL, why, dlr_sup_now());
}

void dlr_sup_take_plan(struct dlr_sup *s, int rc, struct dlr_plan *plan,
                       const char *why)
{
    DLR_AUTO_FREE unsigned char *member = calloc(s->members->n, 1);
    char names[512];

    if (rc < 0) {
        no_plan(s, rc, plan, why);
        return;
    }
    if (dlr_sup_disk_wants(s, plan)) {
        dlr_plan_done(plan);
        return;
    }
    for (unsigned i = 0; i < plan->nplaces; i++) {
        int node = dlr_members_find(s->members, plan->places[i].node.name);

        if (node >= 0 && member)
            member[node] = 1;
        else
            rc = -EBADMSG;
    }
    if (rc < 0 || plan->world != dlr_sup_seats_world(s) ||
        plan->nplaces != s->step.nplaces) {
        dlr_plan_done(plan);
        dlr_policy_planned(s->policy, -EBADMSG, NULL, "the plan is not of this run",
                           dlr_sup_now());
        return;
    }
    if (!dlr_sup_names_fit(s, plan, names, sizeof(names))) {
        no_plan(s, -ENOSPC, plan, names);
        return;
    }
    if (dlr_sup_repeat_stops(s, plan)) {
        dlr_plan_done(plan);
        return;
    }
    dlr_sup_losses_count(s->nodes, plan->nplaces);
    if (s->have_plan)
        dlr_plan_done(&s->plan);
    free(s->unfit);
    s->unfit = NULL;
    s->plan = *plan;
    s->have_plan = true;
    if (dlr_sup_holders_make(s) < 0) {
        dlr_policy_planned(s->policy, -ENOMEM, NULL, "out of memory", dlr_sup_now());
        return;
    }
    dlr_policy_planned(s->policy, 0, member, NULL, dlr_sup_now());
}

void dlr_sup_tell_plan(struct dlr_sup *s)
{
    tell_plan(s, dlr_sup_now() - s->phase_ms);
}

void dlr_sup_keep_plan(struct dlr_sup *s)
{
    keep_seats(s);
    dlr_sup_save_state(s);
}

/* --- rendezvous by MPI -------------------------------------------------------------------- */

/* With a version to restore every node verifies what it has first: that takes longer. */
static struct dlr_meet_time *meet_time(struct dlr_sup *s)
{
    struct dlr_version newest;

    return &s->meet_time[dlr_commit_newest(s->commit, &newest)];
}

/* PMIx may hang while nodes fall silent. Without slurmctld a plan would be of no use. */
void dlr_sup_rendezvous_tick(struct dlr_sup *s, int64_t now_ms)
{
    if (s->rendezvous.pid && !s->gather.active && !dlr_sup_is_asked(s->steps) &&
        now_ms - s->phase_ms >= dlr_meet_time_late_ms(meet_time(s)))
        dlr_sup_ask_controller(s->steps, DLR_ASK_MEET, 0, "", 0);
}

void dlr_sup_rendezvous_late(struct dlr_sup *s)
{
    if (!s->rendezvous.pid || s->gather.active)
        return;
    dlr_sup_say(s->io,
                "the rendezvous by MPI has not ended after %lld ms, the last ones took "
                "%lld: agents report, too",
                (long long)(dlr_sup_now() - s->phase_ms),
                (long long)meet_time(s)->usual_ms);
    dlr_sup_gather(s, false);
}

static void read_plan(struct dlr_sup *s, int status)
{
    bool gone = dlr_sup_container_gone(s);
    const char *at = s->rendezvous_text ? strstr(s->rendezvous_text, PLAN_MARK) : NULL;
    DLR_AUTO_JSON json_t *j = NULL;
    struct dlr_plan plan = {0};
    struct dlr_err err = {0};
    json_error_t jerr;
    int rc;

    if (at) {
        at += strlen(PLAN_MARK);
        j = json_loadb(at, strcspn(at, "\n"), JSON_REJECT_DUPLICATES, &jerr);
    }
    dlr_sup_rendezvous_log(s);
    if (!j && gone) {
        dlr_sup_take_plan(
            s, -ENOSPC, &plan,
            "with a node lost, Slurm has removed the job's container "
            "(job_container/tmpfs): no step can be started here any more");
        return;
    }
    if (!j && s->gather.active)
        return; /* they decide */
    if (!j) {
        dlr_fail(&err, -EPROTO,
                 "the rendezvous ended with code %d and no plan (see "
                 "rendezvous.log beside the journal)",
                 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        dlr_sup_ask_controller(s->steps, DLR_ASK_PLAN, 0, err.text, 0);
        return;
    }
    s->gather.active = false;
    dlr_meet_time_took(meet_time(s), dlr_sup_now() - s->phase_ms);
    rc = dlr_plan_from_json(j, &plan, &err);
    dlr_sup_take_plan(s, rc, &plan, err.text);
}

static void close_rendezvous(struct dlr_sup *s)
{
    if (s->rendezvous_out >= 0) {
        dlr_sup_unwatch(s->io, s->rendezvous_out);
        close(s->rendezvous_out);
    }
    s->rendezvous_out = -1;
}

static void rendezvous_check(struct dlr_sup *s)
{
    int status;

    if (!s->rendezvous_eof || !s->rendezvous_ended)
        return;
    status = dlr_proc_reap(&s->rendezvous);
    s->rendezvous_ended = false;
    read_plan(s, status);
}

static int rendezvous_output(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;
    char *more = realloc(s->rendezvous_text, s->rendezvous_size + 65537);
    ssize_t n;

    if (!more || s->rendezvous_size > PLAN_TEXT_MAX)
        n = 0;
    else
        n = read(item->fd, more + s->rendezvous_size, 65536);
    if (more) {
        s->rendezvous_text = more;
        s->rendezvous_size += n > 0 ? n : 0;
        more[s->rendezvous_size] = '\0';
    }
    if (n > 0 || (n < 0 && errno == EAGAIN))
        return 0;
    close_rendezvous(s);
    s->rendezvous_eof = true;
    rendezvous_check(s);
    return 0;
}

static int rendezvous_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_unwatch(s->io, s->rendezvous.pidfd);
    s->rendezvous_ended = true;
    rendezvous_check(s);
    return 0;
}

static int start_mpi(struct dlr_sup *s, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int input = -1, out = -1;
    char path[4096];
    struct dlr_words words = {0};
    struct dlr_env env = {0};
    int pipes[2], rc;

    if ((rc = make_input(s, &input, err)) < 0)
        return rc;
    rc = dlr_self_sibling("dlrover-rendezvous", path, sizeof(path));
    if (rc < 0)
        return dlr_fail(err, rc, "cannot find dlrover-rendezvous: %s", strerror(-rc));
    if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0)
        return dlr_fail(err, -errno, "pipe: %s", strerror(errno));
    out = pipes[1];
    fcntl(out, F_SETFL, 0);
    dlr_sup_rendezvous_log(s);
    s->rendezvous_log = memfd_create("dlrover-rendezvous", MFD_CLOEXEC);
    dlr_sup_internal_words(s->steps, &words, "dlrover-rendezvous", "pmix");
    dlr_words_add(&words, "--kill-on-bad-exit=1");
    dlr_words_add(&words, "--input=0"); /* the first rank has our words and tells all */
    dlr_words_add(&words, "%s", path);
    dlr_words_add(&words, "--input=-");
    rc = dlr_sup_internal_env(s->steps, &env);
    if (rc == 0)
        rc = dlr_steps_pmix_env(&env);
    if (rc == 0)
        rc = dlr_proc_start(words.list, env.list, input, out, s->rendezvous_log,
                            &s->rendezvous, err);
    dlr_words_done(&words);
    dlr_env_done(&env);
    if (rc < 0) {
        close(pipes[0]);
        return rc;
    }
    s->rendezvous_out = pipes[0];
    return 0;
}

void dlr_sup_rendezvous(void *arg, bool with_mpi)
{
    struct dlr_sup *s = arg;
    struct dlr_err err = {0};
    json_t *names = json_array();

    dlr_sup_tell_failure(s);
    dlr_sup_tell_cleared(s);
    dlr_sup_repeat_look(s);
    s->phase_ms = dlr_sup_now();
    for (unsigned i = 0; i < s->members->n; i++)
        if (dlr_sup_is_candidate(s->steps, i))
            json_array_append_new(names, json_string(s->members->list[i].node.name));
    dlr_journal_note(dlr_sup_journal(s->io), "rendezvous", "s:b,s:o", "mpi", with_mpi,
                     "candidates", names);
    if (!with_mpi) {
        dlr_sup_say(s->io,
                    "no rendezvous by MPI; agents report instead, network checks that "
                    "need MPI are left out");
        dlr_sup_gather(s, false);
        return;
    }
    free(s->rendezvous_text);
    s->rendezvous_text = NULL;
    s->rendezvous_size = 0;
    s->rendezvous_eof = s->rendezvous_ended = false;
    if (start_mpi(s, &err) < 0) {
        dlr_sup_say(s->io, "cannot start the rendezvous: %s", err.text);
        return; /* its limit runs */
    }
    dlr_sup_watch(s->io, s->rendezvous.pidfd, rendezvous_ended, s);
    dlr_sup_watch(s->io, s->rendezvous_out, rendezvous_output, s);
}

void dlr_sup_stop_rendezvous(void *arg)
{
    struct dlr_sup *s = arg;

    s->gather.active = false;
    close_rendezvous(s);
    dlr_sup_let_go(s->steps, &s->rendezvous);
    dlr_sup_rendezvous_log(s);
    s->rendezvous_ended = false;
}
