/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/slurm/srun_errors.h"

#include <stdio.h>
#include <string.h>

#include "common/base/str.h"

/* "Task launch for StepId=1.0 failed on node n2: Communication connection failure" */
static bool launch_failed(const char *line, size_t len, char *ret_name, char *ret_why)
{
    static const char step[] = "Task launch for", before[] = " failed on node ";
    const char *name = memmem(line, len, before, strlen(before)), *colon;

    if (!name || !memmem(line, len, step, strlen(step)))
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

/* "error: Node failure on n2". Of several at once, "n[2-3]", nobody is named. */
static bool has_failed(const char *line, size_t len, char *ret_name, char *ret_why)
{
    static const char before[] = "error: Node failure on ";
    const char *name = dlr_after(line, before);
    size_t n = name ? (size_t)(line + len - name) : 0;

    if (!name || n == 0 || n >= DLR_SRUN_NODE || memchr(name, '[', n) ||
        memchr(name, ',', n))
        return false;
    memcpy(ret_name, name, n);
    ret_name[n] = '\0';
    snprintf(ret_why, DLR_SRUN_WORDS, "Slurm says that it has failed");
    return true;
}

const char *dlr_srun_end_node(const char *text, char *ret_name, char *ret_why,
                              bool *ret_gone)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        const char *line = dlr_after(text, "srun: "), *end = text + len;

        text = end + (*end == '\n');
        if (!line || line > end)
            continue;
        *ret_gone = has_failed(line, end - line, ret_name, ret_why);
        if (*ret_gone || launch_failed(line, end - line, ret_name, ret_why))
            return text;
    }
    return NULL;
}
