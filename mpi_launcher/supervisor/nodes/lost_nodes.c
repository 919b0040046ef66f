/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/nodes/lost_nodes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"

#define LOST_MAX 65536 /* bytes of the file */
#define APART "+"      /* before the name: it is back, see struct dlr_member */

static void lost_path(const struct dlr_sup_nodes *nodes, char *path, size_t size)
{
    snprintf(path, size, "%s/.lost-%u", nodes->env.info->job_dir,
             nodes->env.info->incarnation);
}

/* It is there, or may still come, or is none of the step's. */
static bool is_good(const struct dlr_sup_nodes *nodes, unsigned node)
{
    const struct dlr_member *m = &nodes->members.list[node];

    return (m->here && !m->apart) || nodes->ops->barred(nodes->arg, node) ||
           (!m->boot[0] && !nodes->ops->given_up(nodes->arg, node));
}

void dlr_sup_save_lost(struct dlr_sup_nodes *nodes)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_RUN_PATH + 32];
    size_t size;
    FILE *out = open_memstream(&text, &size);

    for (unsigned i = 0; out && i < nodes->members.n; i++) {
        const struct dlr_member *m = &nodes->members.list[i];

        if (!is_good(nodes, i))
            fprintf(out, "%s%s\n", m->here ? APART : "", m->node.name);
    }
    if (!out || fclose(out) != 0 || (!text[0] && !nodes->lost_saved))
        return;
    nodes->lost_saved = true;
    lost_path(nodes, path, sizeof(path));
    dlr_journal_replace(dlr_sup_journal(nodes->env.io), path, text);
}

void dlr_sup_load_lost(struct dlr_sup_nodes *nodes)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_RUN_PATH + 32], *line, *rest;
    struct dlr_err err;
    int node;

    lost_path(nodes, path, sizeof(path));
    if (dlr_sup_file_hangs(nodes->env.io))
        return;
    if (dlr_file_load_own(AT_FDCWD, path, LOST_MAX, &text, NULL, &err) < 0)
        return; /* none was lost */
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *apart = dlr_after(line, APART);

        node = dlr_members_find(&nodes->members, apart ? apart : line);
        if (node < 0)
            continue;
        dlr_sup_node_set_apart(nodes, (unsigned)node, true);
        if (apart)
            continue;
        dlr_user_line(nodes->env.io,
                      "node %s was lost earlier in this job: going on without it",
                      line);
        nodes->ops->lost_before(nodes->arg, (unsigned)node);
    }
}
