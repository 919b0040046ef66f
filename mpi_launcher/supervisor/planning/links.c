/* SPDX-License-Identifier: Apache-2.0 */
/* The measured links of a rendezvous: a line of the run's links.jsonl, and an event. */
#include <stdio.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

#define LINKS_MARK "DLROVER-LINKS "

int64_t dlr_sup_network_ms(const struct dlr_sup_planning *planning)
{
    enum dlr_rounds when = planning->env.conf->network_check;

    if (when == DLR_ROUNDS_OFF || (when == DLR_ROUNDS_FIRST && !planning->check_all))
        return 0;
    return planning->env.conf->rendezvous_timeout_ms / 4;
}

/* The object that the program has printed, or NULL. */
static json_t *printed(const struct dlr_sup_planning *planning)
{
    const char *at = planning->mpi.text ? strstr(planning->mpi.text, LINKS_MARK) : NULL;
    json_t *j;

    if (!at)
        return NULL;
    at += strlen(LINKS_MARK);
    j = json_loadb(at, strcspn(at, "\n"), JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_array(json_object_get(j, "links"))) {
        json_decref(j);
        return NULL;
    }
    return j;
}

void dlr_sup_tell_links(const struct dlr_sup_planning *planning)
{
    DLR_AUTO_JSON json_t *j = printed(planning);
    json_int_t round = planning->ops->round(planning->arg);
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_RUN_PATH + 32], now[32];

    if (!j)
        return;
    dlr_wall_text(dlr_wall_ns(), now, sizeof(now));
    json_object_set_new(j, "time", json_string(now));
    json_object_set_new(j, "round", json_integer(round));
    snprintf(path, sizeof(path), "%s/links.jsonl", planning->env.info->dir);
    text = dlr_msg_text(j);
    if (text)
        dlr_journal_append(dlr_sup_journal(planning->env.io), path, text);
    dlr_journal_note(
        dlr_sup_journal(planning->env.io), "links", "s:I,s:I,s:O*,s:O*", "round", round,
        "pairs", (json_int_t)json_array_size(json_object_get(j, "links")), "rounds",
        json_object_get(j, "rounds"), "took_ms", json_object_get(j, "took_ms"));
}
