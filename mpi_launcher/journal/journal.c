/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal/journal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "mpi_launcher/journal/writer.h"
#include "mpi_launcher/process/work_queue.h"

#define MAX_LINES 8192
#define MAX_LIVES 5 /* writers that are started for one journal */
/* for the file system to open the journal: then lines wait for it */
#define OPEN_MS 300

struct dlr_journal {
    struct dlr_work_queue lines;
    char *path;
    bool late; /* nobody waits to be told that it failed */
    unsigned dropped;
};

/* --- the writer ------------------------------------------------------------------- */

static void on_word(void *arg, bool first, const struct dlr_err *word)
{
    const struct dlr_journal *j = arg;

    if (!first)
        dlr_warn("%s", word->text);
    else if (word->code < 0 && j->late)
        dlr_warn("there will be no journal: %s", word->text);
}

static void on_lost(void *arg)
{
    const struct dlr_journal *j = arg;

    dlr_warn("the journal '%s' ends here: its writer died", j->path);
}

void dlr_journal_tick(struct dlr_journal *j)
{
    if (j)
        dlr_work_queue_tick(&j->lines);
}

/* --- lines ------------------------------------------------------------------------ */

static void tell(struct dlr_journal *j, dlr_offload_fn fn, const char *name,
                 json_t *fields)
{
    DLR_AUTO_FREE char *text = NULL;
    char when[32];
    json_t *line;

    if (!j) {
        json_decref(fields);
        return;
    }
    dlr_wall_text(dlr_wall_ns(), when, sizeof(when));
    line = json_pack("{s:s,s:s}", "time", when, "event", name);
    if (line && j->dropped)
        json_object_set_new(line, "dropped_lines", json_integer(j->dropped));
    if (line && fields)
        json_object_update(line, fields);
    text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (text) /* it says how many were lost before it */
        j->dropped =
            dlr_work_queue_put(&j->lines, fn, j->path, text) < 0 ? j->dropped + 1 : 0;
    json_decref(line);
    json_decref(fields);
}

void dlr_journal_event(struct dlr_journal *j, const char *name, json_t *fields)
{
    tell(j, dlr_journal_write, name, fields);
}

void dlr_journal_last(struct dlr_journal *j, const char *name, json_t *fields)
{
    tell(j, dlr_journal_write_last, name, fields);
}

void dlr_journal_end_missing(struct dlr_journal *j, json_t *fields)
{
    tell(j, dlr_journal_write_missing, "end", fields);
}

void dlr_journal_replace(struct dlr_journal *j, const char *path, const char *text)
{
    if (j && dlr_work_queue_put(&j->lines, dlr_journal_replace_file, path, text) < 0)
        j->dropped++;
}

void dlr_journal_append(struct dlr_journal *j, const char *path, const char *text)
{
    if (j && dlr_work_queue_put(&j->lines, dlr_journal_append_file, path, text) < 0)
        j->dropped++;
}

void dlr_journal_note(struct dlr_journal *j, const char *name, const char *fmt, ...)
{
    json_error_t jerr;
    va_list ap;
    json_t *fields;
    char object[512];

    snprintf(object, sizeof(object), "{%s}", fmt);
    va_start(ap, fmt);
    fields = json_vpack_ex(&jerr, 0, object, ap);
    va_end(ap);
    dlr_journal_event(j, name, fields);
}

/* --- its life --------------------------------------------------------------------- */

struct dlr_journal *dlr_journal_close(struct dlr_journal *j, int64_t timeout_ms)
{
    if (!j)
        return NULL;
    dlr_work_queue_close(&j->lines, timeout_ms);
    free(j->path);
    free(j);
    return NULL;
}

int dlr_journal_open(struct dlr_fork_server *fork_server, int turns, const char *path,
                     struct dlr_journal **ret, struct dlr_err *err)
{
    struct dlr_journal *j = calloc(1, sizeof(*j));
    int rc = -ENOMEM;

    if (j) {
        j->lines = (struct dlr_work_queue){.fork_server = fork_server,
                                           .name = "dlrover-journal",
                                           .outlives = true,
                                           .room = MAX_LINES,
                                           .max_starts = MAX_LIVES,
                                           .told = on_word,
                                           .lost = on_lost,
                                           .arg = j,
                                           .fd = -1};
        j->path = strdup(path);
        rc = j->path ? dlr_work_queue_open(&j->lines, dlr_journal_start, path, turns,
                                           OPEN_MS)
                     : -ENOMEM;
    }
    if (rc < 0) {
        dlr_journal_close(j, 0);
        return dlr_fail(err, rc, "cannot open '%s': %s", path, strerror(-rc));
    }
    j->late = true;
    *ret = j;
    return 0;
}
