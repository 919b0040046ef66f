/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/slurm/srun_errors.h"

#include <stdio.h>
#include <string.h>

#include "common/base/str.h"

/* "Task launch for StepId=1.0 failed on node n2: Communication connection failure" */
static bool names_node(const char *line, size_t len, char *ret_name, char *ret_why)
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
