/* SPDX-License-Identifier: Apache-2.0 */
/* A version that another number of ranks made: nobody knows which of its slots a rank of now
 * needs, so all of them become files, and each rank reads from those what it wants.
 */
#include <errno.h>
#include <string.h>

#include "common/str.h"
#include "mpi_launcher/persist.h"
#include "mpi_launcher/sup.h"

bool dlr_sup_other_world(const struct dlr_sup *s)
{
    return s->plan.restore && s->plan.made_by != s->plan.world;
}

/* Where the files of the version to restore are, or would be. */
static void files_dir(const struct dlr_sup *s, char *buf, size_t size)
{
    dlr_format(buf, size, "%s/persist", s->info.dir);
    for (unsigned r = 0; r < s->plan.made_by; r++) {
        const struct dlr_plan_source *src = &s->plan.sources[r];

        if (src->from != DLR_PLAN_FILE)
            continue;
        snprintf(buf, size, "%.*s", (int)(strrchr(src->where, '/') - src->where),
                 src->where);
        return;
    }
}

json_t *dlr_sup_restore_row(const struct dlr_sup *s)
{
    char dir[DLR_PLAN_WHERE];
    json_t *row;

    if (!s->plan.restore)
        return json_null();
    files_dir(s, dir, sizeof(dir));
    row = json_pack("{s:I,s:I,s:s}", "vround", (json_int_t)s->plan.version.round,
                    "step", (json_int_t)s->plan.version.step, "files", dir);
    if (dlr_sup_other_world(s))
        json_object_set_new(row, "world", json_integer(s->plan.made_by));
    return row;
}

void dlr_sup_write_world(struct dlr_sup *s)
{
    char dir[DLR_PLAN_WHERE];

    files_dir(s, dir, sizeof(dir));
    /* A failure shows itself when the files are written. */
    dlr_sup_file_do(s, dlr_sup_file_mkdirs, dir, NULL);
    for (unsigned r = 0; r < s->plan.made_by; r++)
        dlr_sup_write_rank(s, &s->plan, dir, r);
}
