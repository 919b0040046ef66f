/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/srun_end.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/str.h"

/* Words of Slurm 22.05 to 25.11: srun's own, and slurm_strerror(3)'s behind them. The first row
 * that a line holds decides for it, so what is special stands before what is general.
 */
/* clang-format off */
static const struct {
    const char *words;
    enum dlr_srun_end end;
} rows[] = {
    {"Task launch for", DLR_SRUN_END_NODE},
    {"Application launch failed", DLR_SRUN_END_NODE},
    {"Timed out waiting for job step to complete", DLR_SRUN_END_NODE},
    {"Node failure on", DLR_SRUN_END_NODE},
    {"Unable to contact slurm controller", DLR_SRUN_END_CONTROL},
    {"in standby mode", DLR_SRUN_END_CONTROL},
    {"Socket timed out on send/recv operation", DLR_SRUN_END_CONTROL},
    {"Zero Bytes were transmitted or received", DLR_SRUN_END_CONTROL},
    {"Transport endpoint is not connected", DLR_SRUN_END_CONTROL},
    {"Connection refused", DLR_SRUN_END_CONTROL},
    {"Connection timed out", DLR_SRUN_END_CONTROL},
    {"No route to host", DLR_SRUN_END_CONTROL},
    {"Could not establish a configuration source", DLR_SRUN_END_CONTROL},
    {"Munge encode failed", DLR_SRUN_END_CONTROL},
    {"Protocol authentication error", DLR_SRUN_END_CONTROL},
    {"Invalid authentication credential", DLR_SRUN_END_CONTROL},
    {"Invalid job id specified", DLR_SRUN_END_GONE},
    {"Job/step already completing or completed", DLR_SRUN_END_GONE},
    {"Job has already finished", DLR_SRUN_END_GONE},
    {"has been revoked", DLR_SRUN_END_GONE},
    {"Slurm is busy, step creation delayed", DLR_SRUN_END_BUSY},
    {"step creation temporarily disabled", DLR_SRUN_END_BUSY},
    {"step creation still disabled", DLR_SRUN_END_BUSY},
    {"Requested nodes are busy", DLR_SRUN_END_BUSY},
    {"Memory required by task is not available", DLR_SRUN_END_BUSY},
    {"Unable to create step", DLR_SRUN_END_REFUSED},
    {"Unable to create job step", DLR_SRUN_END_REFUSED},
    {"Unable to confirm allocation", DLR_SRUN_END_REFUSED},
    {"Step created for", DLR_SRUN_END_PROGRAM}, /* it has waited, and went on */
};
/* clang-format on */

static bool has(const char *line, size_t len, const char *words)
{
    return memmem(line, len, words, strlen(words)) != NULL;
}

/* What a line of srun's says; PROGRAM: nothing. *ret_general: an error that no row knows. */
static enum dlr_srun_end line_says(const char *line, size_t len, bool *ret_known,
                                   bool *ret_general)
{
    *ret_known = *ret_general = false;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (has(line, len, rows[i].words)) {
            *ret_known = true;
            return rows[i].end;
        }
    *ret_general = dlr_after(line, "error: ") || dlr_after(line, "fatal: ") ||
                   dlr_after(line, "unrecognized option") ||
                   dlr_after(line, "invalid option");
    return DLR_SRUN_END_PROGRAM;
}

static void copy_words(const char *line, size_t len, char *ret_words)
{
    const char *rest = dlr_after(line, "error: ");

    if (!ret_words)
        return;
    if (rest) {
        len -= rest - line;
        line = rest;
    }
    if (len >= DLR_SRUN_WORDS)
        len = DLR_SRUN_WORDS - 1;
    memcpy(ret_words, line, len);
    ret_words[len] = '\0';
}

enum dlr_srun_end dlr_srun_end_of(int wait_status, bool started, const char *text,
                                  char *ret_words)
{
    enum dlr_srun_end end = DLR_SRUN_END_PROGRAM;
    bool decided = false, by_row = false;

    if (ret_words)
        ret_words[0] = '\0';
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return DLR_SRUN_END_OK;
    for (const char *at = started ? NULL : text; at && *at;) {
        size_t len = strcspn(at, "\n");
        const char *line = dlr_after(at, "srun: ");
        bool known = false, general = false;
        enum dlr_srun_end says = DLR_SRUN_END_PROGRAM;

        if (line)
            says = line_says(line, len - (line - at), &known, &general);
        if (known || (general && !by_row && !decided)) {
            end = known ? says : DLR_SRUN_END_REFUSED;
            by_row = known;
            decided = end != DLR_SRUN_END_PROGRAM;
            if (ret_words)
                ret_words[0] = '\0';
            if (decided)
                copy_words(line, len - (line - at), ret_words);
        }
        at += len + (at[len] == '\n');
    }
    return end;
}

/* "Task launch for StepId=1.0 failed on node n2: Communication connection failure" */
static bool names_node(const char *line, size_t len, char *ret_name, char *ret_why)
{
    static const char before[] = " failed on node ";
    const char *name = memmem(line, len, before, strlen(before)), *colon;

    if (!has(line, len, "Task launch for") || !name)
        return false;
    name += strlen(before);
    colon = memchr(name, ':', line + len - name);
    if (!colon || colon == name || colon - name >= DLR_SRUN_NODE)
        return false;
    memcpy(ret_name, name, colon - name);
    ret_name[colon - name] = '\0';
    colon += strspn(colon, ": ");
    snprintf(ret_why, DLR_SRUN_WORDS, "%.*s", (int)(line + len - colon), colon);
    return true;
}

const char *dlr_srun_end_node(const char *text, char *ret_name, char *ret_why)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        const char *line = dlr_after(text, "srun: "), *end = text + len;

        text = end + (*end == '\n');
        if (line && line <= end && names_node(line, end - line, ret_name, ret_why))
            return text;
    }
    return NULL;
}

const char *dlr_srun_end_name(enum dlr_srun_end end)
{
    static const char *const names[] = {"ok",      "program", "control", "busy",
                                        "refused", "node",    "gone"};

    return names[end];
}
