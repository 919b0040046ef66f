/* SPDX-License-Identifier: Apache-2.0 */
/* The program's arguments and variables were written for the nodes that the script was
 * shown. A name stands for a role: the node of rank 0, of place 1, ... When another
 * node has that place, the words say its name.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/step_plan/host_words.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/steps/steps.h"

#define NAME_MAX_LEN 300

/* What a walk over words is about. */
struct walk {
    struct dlr_sup_rounds *rounds;
    const struct dlr_plan *plan; /* whose places are looked up */
    bool bare;                   /* a bare name is one, too */
    const char *stuck;           /* a bare name that is lost, NULL: none */
    unsigned renamed;            /* how often */
    char name[NAME_MAX_LEN];     /* the newest answer */
};

static int node_at(const struct dlr_sup_rounds *rounds, const struct dlr_plan *plan,
                   unsigned place)
{
    return dlr_members_find(rounds->members, plan->places[place].node.name);
}

static bool has_place(const struct dlr_sup_rounds *rounds, const struct dlr_plan *plan,
                      int node)
{
    for (unsigned i = 0; i < plan->nplaces; i++)
        if (node_at(rounds, plan, i) == node)
            return true;
    return false;
}

/* Who had which place when the words were written: the nodes shown, if the srun uses
 * all of them, else the first plan's; rank 0 is meant to be on the first one shown.
 */
static void load_roles(struct dlr_sup_rounds *rounds, const struct dlr_plan *plan)
{
    unsigned n = dlr_sup_full_places(rounds->env.planning), nshown;
    const int *shown = dlr_sup_shown(rounds->env.planning, &nshown);

    if (rounds->roles)
        return;
    rounds->roles = calloc(n + 1, sizeof(*rounds->roles));
    for (unsigned i = 0; rounds->roles && i < n; i++)
        rounds->roles[i].node = nshown == n         ? shown[i]
                                : i < plan->nplaces ? node_at(rounds, plan, i)
                                                    : -1;
    if (rounds->roles && nshown && !has_place(rounds, plan, shown[0]))
        rounds->roles[0].node = shown[0];
}

static bool is_node(const struct dlr_sup_rounds *rounds, int node, const char *host,
                    size_t len, bool *ret_address)
{
    const char *name, *addr;

    if (node < 0)
        return false;
    name = rounds->members->list[node].node.name;
    addr = rounds->members->list[node].addr;
    *ret_address = strcspn(addr, ":") == len && !strncmp(addr, host, len) &&
                   !dlr_after(addr, "127."); /* every host's own */
    return *ret_address || (strcspn(name, ".") == len && !strncmp(name, host, len));
}

/* What the node that had this role is called now. */
static const char *of_role(struct walk *w, struct dlr_role *role, int now, bool address,
                           bool bare)
{
    const struct dlr_member *list = w->rounds->members->list;
    int was = role->node;

    if (was == now || now < 0)
        return NULL;
    if (bare && !w->bare) {
        if (!has_place(w->rounds, w->plan, was) &&
            !dlr_sup_is_candidate(w->rounds->env.steps, (unsigned)was))
            w->stuck = list[was].node.name;
        return NULL;
    }
    snprintf(w->name, sizeof(w->name), "%.*s",
             (int)strcspn(address ? list[now].addr : list[now].node.name, ":"),
             address ? list[now].addr : list[now].node.name);
    if (!w->name[0])
        return NULL; /* its address is not known */
    role->used = true;
    w->renamed++;
    return w->name;
}

static const char *rename_host(void *arg, const char *host, size_t len, bool bare)
{
    struct walk *w = arg;
    bool address;

    for (unsigned i = 0; w->rounds->roles && i < w->plan->nplaces; i++)
        if (is_node(w->rounds, w->rounds->roles[i].node, host, len, &address))
            return of_role(w, &w->rounds->roles[i], node_at(w->rounds, w->plan, i),
                           address, bare);
    return NULL;
}

bool dlr_sup_names_fit(struct dlr_sup_rounds *rounds, const struct dlr_plan *plan,
                       char *why, size_t size)
{
    struct walk w = {.rounds = rounds, .plan = plan};

    load_roles(rounds, dlr_sup_has_plan(rounds->env.plan) ? rounds->env.plan : plan);
    free(dlr_host_words_map(rounds->env.step->program, rename_host, &w));
    for (unsigned i = 0; rounds->roles && i < plan->nplaces; i++)
        rounds->roles[i].used = false; /* nobody was told anything */
    if (w.stuck)
        snprintf(
            why, size,
            "an argument of the program is '%s', a node that is lost: no other can "
            "take its place",
            w.stuck);
    return !w.stuck;
}

char **dlr_sup_names_words(struct dlr_sup_rounds *rounds)
{
    struct walk w = {.rounds = rounds, .plan = rounds->env.plan};

    return dlr_host_words_map(rounds->env.step->program, rename_host, &w);
}

/* Slurm's and ours are set by the plugin; HOSTNAME is where the script runs. */
static bool is_users(const char *entry)
{
    static const char *const others[] = {"SLURM",  "_SLURM",  "SBATCH",
                                         "SALLOC", "SPANK",   "PMI",
                                         "OMPI",   "DLROVER", "HOSTNAME="};

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (dlr_after(entry, others[i]))
            return false;
    return true;
}

int dlr_sup_names_env(struct dlr_sup_rounds *rounds, struct dlr_env *env)
{
    for (unsigned i = 0; i < env->n; i++) {
        struct walk w = {.rounds = rounds, .plan = rounds->env.plan, .bare = true};
        char *words[] = {env->list[i], NULL}, *entry;
        DLR_AUTO_FREE char **mapped = NULL;

        if (!is_users(env->list[i]))
            continue;
        mapped = dlr_host_words_map(words, rename_host, &w);
        entry = mapped && w.renamed ? strdup(mapped[0]) : NULL;
        if (!mapped || (w.renamed && !entry))
            return -ENOMEM;
        if (entry) {
            free(env->list[i]);
            env->list[i] = entry;
        }
    }
    return 0;
}

void dlr_sup_names_tell(struct dlr_sup_rounds *rounds)
{
    for (unsigned i = 0; rounds->roles && i < rounds->env.plan->nplaces; i++) {
        const char *now = rounds->env.plan->places[i].node.name, *was;

        if (!rounds->roles[i].used)
            continue;
        was = rounds->members->list[rounds->roles[i].node].node.name;
        dlr_user_line(rounds->env.io,
                      "the program is told %s where its arguments say %s", now, was);
        dlr_journal_note(dlr_sup_journal(rounds->env.io), "renamed", "s:I,s:s,s:s",
                         "round", (json_int_t)rounds->running_round, "from", was, "to",
                         now);
        rounds->roles[i].used = false;
    }
}

/* --- the run's name --------------------------------------------------------------- */

static const char *number_host(void *arg, const char *host, size_t len, bool bare)
{
    struct walk *w = arg;
    unsigned n;
    const int *shown = dlr_sup_shown(w->rounds->env.planning, &n);
    bool address;

    for (unsigned i = 0; i < n + w->rounds->members->n; i++) {
        int node = i < n ? shown[i] : (int)(i - n);

        if (!is_node(w->rounds, node, host, len, &address))
            continue;
        snprintf(w->name, sizeof(w->name), "@%u", i);
        return w->name;
    }
    return memchr(host, '.', len)
               ? "@"
               : NULL; /* an address: of which node, is not known yet */
}

char **dlr_sup_names_numbered(struct dlr_sup_rounds *rounds)
{
    struct walk w = {.rounds = rounds};

    return dlr_host_words_map(dlr_sup_srun_words(rounds->env.planning), number_host,
                              &w);
}
