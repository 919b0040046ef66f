/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/former_runs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/run/tries.h"

/* --- command and tries ------------------------------------------------------------ */

static void show_command(const struct dlr_runinfo *info, char *buf, size_t size)
{
    snprintf(buf, size, "%016" PRIx64, info->command);
}

/* [[code, how often in a row], ..] */
static json_t *tries_state(const struct dlr_tries *t)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < DLR_TRIES_KINDS && t->kinds[i].times; i++)
        json_array_append_new(list, json_pack("[i,I]", (int)t->kinds[i].code,
                                              (json_int_t)t->kinds[i].times));
    return list;
}

void dlr_sup_former_save(const struct dlr_runinfo *info, json_t *state)
{
    char command[20];

    show_command(info, command, sizeof(command));
    json_object_set_new(state, "command", json_string(command));
    json_object_set_new(state, "tries", tries_state(&info->before));
}

void dlr_sup_former_load(struct dlr_tries *ret, const json_t *state)
{
    const json_t *kind;
    size_t i;

    json_array_foreach(json_object_get(state, "tries"), i, kind)
    {
        json_int_t code = json_integer_value(json_array_get(kind, 0));
        json_int_t times = json_integer_value(json_array_get(kind, 1));

        if (code >= 0 && code <= 255 && times > 0 && times <= INT32_MAX - ret->n)
            dlr_tries_add(ret, (unsigned)code, (unsigned)times);
    }
}

/* --- the file --------------------------------------------------------------------- */

uint64_t dlr_sup_former_number(const json_t *state, const char *key, uint64_t max)
{
    uint64_t value = 0;

    dlr_msg_uint(state, key, max, &value);
    return value;
}

/* Another release's: what it means is not known, and to begin without it could lose
 * everything.
 */
int dlr_sup_former_version(const json_t *state, const char *what, struct dlr_err *err)
{
    uint64_t v;

    if (dlr_msg_uint(state, "v", INT64_MAX, &v) < 0)
        return dlr_fail(err, -EBADMSG, "%s is not the state of a run: no version",
                        what);
    if (v != DLR_MSG_VERSION)
        return dlr_fail(err, -EPROTONOSUPPORT,
                        "%s is of version %" PRIu64
                        ", this release reads version %d only",
                        what, v, DLR_MSG_VERSION);
    return 0;
}

int dlr_sup_former_read(const char *dir, json_t **ret, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_JSON json_t *state = NULL;
    char path[DLR_RUN_PATH + 300], what[DLR_RUN_PATH + 304];
    json_error_t jerr;
    size_t size = 0;
    int rc;

    snprintf(path, sizeof(path), "%s/state.json", dir);
    snprintf(what, sizeof(what), "'%s'", path);
    rc = dlr_file_load_own(AT_FDCWD, path, DLR_SUP_STATE_MAX, &text, &size, err);
    if (rc < 0)
        return rc;
    state = json_loadb(text, size, JSON_REJECT_DUPLICATES, &jerr);
    if (!json_is_object(state))
        return dlr_fail(err, -EBADMSG, "%s is not the state of a run: %s", what,
                        state ? "no object" : jerr.text);
    rc = dlr_sup_former_version(state, what, err);
    if (rc == 0)
        *ret = DLR_STEAL(state);
    return rc;
}

bool dlr_sup_former_cut_short(const struct dlr_runinfo *info)
{
    DLR_AUTO_CLOSEDIR DIR *d = opendir(info->job_dir);
    char dir[DLR_RUN_PATH + 256];
    struct dirent *e;
    bool found = false;

    while (d && !found && (e = readdir(d))) {
        DLR_AUTO_JSON json_t *state = NULL;
        struct dlr_err err;

        snprintf(dir, sizeof(dir), "%.*s/%.255s", DLR_RUN_PATH - 1, info->job_dir,
                 e->d_name);
        if (e->d_name[0] != '.' && dlr_sup_former_read(dir, &state, &err) == 0)
            found = dlr_sup_former_number(state, "incarnation", UINT32_MAX) + 1 ==
                        info->incarnation &&
                    (!json_is_integer(json_object_get(state, "ended")) ||
                     json_is_true(json_object_get(state, "script_lost")));
    }
    return found;
}

int dlr_sup_former_tries(const struct dlr_runinfo *info, const char *dir,
                         struct dlr_tries_run *ret, struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *state = NULL;
    const char *command = "";
    char mine[20];
    uint64_t code = 0;
    int rc = dlr_sup_former_read(dir, &state, err);

    if (rc < 0)
        return rc;
    *ret = (struct dlr_tries_run){0};
    dlr_sup_former_load(&ret->before, state);
    ret->ended = dlr_msg_uint(state, "ended", 255, &code) == 0;
    ret->code = (unsigned)code;
    show_command(info, mine, sizeof(mine));
    dlr_msg_str(state, "command", &command);
    ret->same = dlr_streq(command, mine);
    ret->again =
        dlr_sup_former_number(state, "incarnation", UINT32_MAX) < info->incarnation &&
        ret->ended && !dlr_sup_former_cut_short(info);
    return 0;
}
