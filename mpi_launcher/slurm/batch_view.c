/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/slurm/batch_view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/hostlist.h"
#include "common/base/str.h"
#include "hwloc_topo/rank_order.h"

#define FILE_PATH 4096
#define COUNT_MAX (1u << 24)

int dlr_batch_view_places(unsigned n, unsigned spares, unsigned most, unsigned before,
                          unsigned *ret)
{
    if (before)
        *ret = before < n ? before : n;
    else if (spares < n)
        *ret = most && most < n - spares ? most : n - spares;
    else
        return -EINVAL;
    return 0;
}

/* "2(x3),1" for n nodes -> one number each. */
static int counts_of(const char *text, unsigned n, unsigned *ret)
{
    unsigned at = 0;

    while (*text) {
        unsigned value, times = 1;
        int used = 0;

        if (sscanf(text, "%u%n", &value, &used) != 1 || value > COUNT_MAX)
            return -EINVAL;
        text += used;
        if (sscanf(text, "(x%u)%n", &times, &used) == 1)
            text += used;
        if (!times || times > n - at)
            return -EINVAL;
        while (times--)
            ret[at++] = value;
        if (*text == ',')
            text++;
        else if (*text)
            return -EINVAL;
    }
    return at == n ? 0 : -EINVAL;
}

/* The counts of the nodes that train as Slurm writes them; their sum in *ret_sum. */
static int write_counts(const struct dlr_batch_view_in *in, const unsigned *place,
                        const char *name, const char *text, unsigned *ret_sum,
                        FILE *out)
{
    DLR_AUTO_FREE unsigned *count = calloc(in->n + 1, sizeof(*count));
    unsigned sum = 0;

    if (!count || counts_of(text, in->n, count) < 0)
        return count ? -EINVAL : -ENOMEM;
    fprintf(out, "%s=", name);
    for (unsigned i = 0, times = 1; i < in->nplaces; i++) {
        unsigned here = count[place[i]];

        sum += here;
        if (i + 1 < in->nplaces && count[place[i + 1]] == here) {
            times++;
            continue;
        }
        fprintf(out, "%u", here);
        if (times > 1)
            fprintf(out, "(x%u)", times);
        fputc(i + 1 < in->nplaces ? ',' : '\n', out);
        times = 1;
    }
    *ret_sum = sum;
    return 0;
}

/* The list of those that train; one string of an environment has a limit. */
static int write_names(const struct dlr_batch_view_in *in, const unsigned *place,
                       FILE *out, struct dlr_err *err)
{
    DLR_AUTO_FREE const char **names = calloc(in->nplaces + 1, sizeof(*names));
    DLR_AUTO_FREE char *list = NULL;
    int rc;

    for (unsigned i = 0; names && i < in->nplaces; i++)
        names[i] = in->nodes[place[i]].name;
    rc = names ? dlr_hostlist_join(names, in->nplaces, &list) : -ENOMEM;
    if (rc < 0)
        return dlr_fail(err, rc, "cannot list %u nodes in %u bytes: %s", in->nplaces,
                        DLR_HOSTLIST_MAX, strerror(-rc));
    fprintf(out, "SLURM_JOB_NODELIST=%s\nSLURM_NODELIST=%s\n", list, list);
    return 0;
}

static int write_sizes(const struct dlr_batch_view_in *in, const unsigned *place,
                       FILE *out, struct dlr_err *err)
{
    unsigned sum = 0;
    int rc = 0;

    if (in->cpus)
        rc = write_counts(in, place, "SLURM_JOB_CPUS_PER_NODE", in->cpus, &sum, out);
    if (rc == 0 && in->tasks)
        rc = write_counts(in, place, "SLURM_TASKS_PER_NODE", in->tasks, &sum, out);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot read '%s' and '%s' of %u nodes",
                        in->cpus ? in->cpus : "", in->tasks ? in->tasks : "", in->n);
    if (in->ntasks && in->tasks)
        fprintf(out, "SLURM_NTASKS=%u\nSLURM_NPROCS=%u\n", sum, sum);
    return 0;
}

int dlr_batch_view_write(const struct dlr_batch_view_in *in, FILE *out,
                         struct dlr_err *err)
{
    DLR_AUTO_FREE unsigned *order = calloc(in->n + 1, sizeof(*order));
    DLR_AUTO_FREE unsigned *place = calloc(in->n + 1, sizeof(*place));
    unsigned group = in->group && in->nplaces % in->group == 0 ? in->group : 1;
    int rc;

    if (!order || !place)
        return dlr_fail(err, -ENOMEM, "out of memory");
    dlr_topo_order(in->nodes, in->n, order);
    if (dlr_topo_choose(in->nodes, order, in->n, in->nplaces, group, place) < 0)
        return dlr_fail(err, -ENOMEM, "out of memory");
    fprintf(out, "DLROVER_ALL_JOB=%s\nDLROVER_ALL_NODES=%s\n", in->job, in->list);
    if (in->ntasks)
        fprintf(out, "DLROVER_ALL_NTASKS=%s\n", in->ntasks);
    fprintf(out, "SLURM_JOB_NUM_NODES=%u\nSLURM_NNODES=%u\n", in->nplaces, in->nplaces);
    rc = write_names(in, place, out, err);
    return rc < 0 ? rc : write_sizes(in, place, out, err);
}

unsigned dlr_batch_view_load(const char *job_dir)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[FILE_PATH];
    struct dlr_err err;
    unsigned n = 0;

    if (dlr_format(path, sizeof(path), "%s/.shown", job_dir) == 0 &&
        dlr_file_load_own(AT_FDCWD, path, 32, &text, NULL, &err) == 0) {
        text[strcspn(text, "\n")] = '\0';
        dlr_parse_uint(text, COUNT_MAX, &n);
    }
    return n;
}

void dlr_batch_view_save(const char *job_dir, unsigned nplaces)
{
    char path[FILE_PATH], text[32];
    struct iovec part = {text, (size_t)snprintf(text, sizeof(text), "%u\n", nplaces)};
    struct dlr_err err;

    if (dlr_format(path, sizeof(path), "%s/.shown", job_dir) == 0 &&
        dlr_file_replace(AT_FDCWD, path, 0600, &part, 1, &err) < 0)
        fprintf(stderr, "%s\n", err.text);
}
