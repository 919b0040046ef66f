/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end, its rounds, and what the next supervisor gets. */
#include "mpi_launcher/supervisor/versions/versions.h"

#include <stdlib.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

struct dlr_sup_versions *dlr_sup_versions_new(const struct dlr_sup_versions_env *env,
                                              const struct dlr_sup_versions_ops *ops,
                                              void *arg)
{
    static const struct dlr_sup_versions_ops none;
    struct dlr_sup_versions *versions = calloc(1, sizeof(*versions));

    if (!versions)
        return NULL;
    versions->env = *env;
    versions->ops = ops ? ops : &none;
    versions->arg = arg;
    versions->members = dlr_sup_members(env->nodes);
    versions->repeat_looked = UINT32_MAX;
    return versions;
}

struct dlr_sup_versions *dlr_sup_versions_free(struct dlr_sup_versions *versions)
{
    if (!versions)
        return NULL;
    dlr_sup_cadence_stop(versions);
    dlr_commit_free(versions->commit);
    free(versions);
    return NULL;
}

/* --- rounds ----------------------------------------------------------------------- */

static void begin(struct dlr_sup_versions *versions, uint32_t round)
{
    const struct dlr_plan *plan = versions->env.plan;

    dlr_commit_round(versions->commit, round, plan->world,
                     plan->restore ? &plan->version : NULL);
}

void dlr_sup_versions_round(struct dlr_sup_versions *versions, uint32_t round)
{
    versions->saving_reported = false;
    dlr_sup_memory_round(versions);
    begin(versions, round);
    dlr_sup_cadence_round(versions);
    dlr_sup_vetted_round(versions);
}

void dlr_sup_versions_turn(struct dlr_sup_versions *versions, uint32_t round, bool same)
{
    versions->saving_reported = false;
    if (!same)
        versions->has_vetted = false; /* its slots are not where the ranks are */
    dlr_sup_memory_round(versions);
    begin(versions, round);
    dlr_sup_cadence_round(versions);
}

void dlr_sup_versions_adopt(struct dlr_sup_versions *versions, uint32_t round)
{
    begin(versions, round);
    dlr_commit_hold(versions->commit);
}

void dlr_sup_versions_go_on(struct dlr_sup_versions *versions,
                            const struct dlr_version *newest, uint64_t ordered_step)
{
    dlr_commit_go_on(versions->commit, newest, ordered_step);
}

void dlr_sup_versions_stop(struct dlr_sup_versions *versions, const char *why)
{
    dlr_commit_stop(versions->commit, why);
}

/* --- what agents say -------------------------------------------------------------- */

static const struct {
    const char *type;
    void (*take)(struct dlr_sup_versions *versions, unsigned node, const json_t *msg);
} handlers[] = {
    {"no_slots", dlr_sup_on_no_slots}, {"no_vetted_slot", dlr_sup_on_no_vetted_slot},
    {"bad", dlr_sup_on_bad},           {"torn", dlr_sup_on_torn},
    {"uses", dlr_sup_cadence_uses},    {"wanted", dlr_sup_on_wanted},
};

void dlr_sup_versions_hear(struct dlr_sup_versions *versions, unsigned node,
                           const json_t *msg)
{
    const char *type = dlr_msg_type(msg);

    for (unsigned i = 0; i < sizeof(handlers) / sizeof(*handlers); i++)
        if (dlr_streq(type, handlers[i].type))
            handlers[i].take(versions, node, msg);
}

/* --- what outlives this process --------------------------------------------------- */

bool dlr_sup_saving(const struct dlr_sup_versions *versions)
{
    return versions->saving_reported;
}

void dlr_sup_saving_take(struct dlr_sup_versions *versions, bool told)
{
    versions->saving_reported = told;
}

void dlr_sup_versions_state(const struct dlr_sup_versions *versions, json_t *state)
{
    struct dlr_version v;
    bool has = dlr_sup_newest(versions, &v);

    json_object_set_new(state, "committed", dlr_sup_version(has ? &v : NULL));
    json_object_set_new(state, "bad", dlr_bad_versions_save(versions));
    has = dlr_sup_vetted(versions, &v);
    json_object_set_new(state, "vetted", dlr_sup_version(has ? &v : NULL));
}

void dlr_sup_versions_take(struct dlr_sup_versions *versions, const json_t *state)
{
    dlr_bad_versions_load(versions, state);
    dlr_sup_vetted_take(versions, state);
    dlr_sup_cadence_take(versions, state);
}
