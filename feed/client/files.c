/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/client/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static int add_up(struct dlr_feed_files *files, const struct dlr_feed_source *source,
                  unsigned number, struct dlr_err *err)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < source->files; i++) {
        if (source->records[i] > DLR_PERMUTE_MAX - sum)
            return dlr_fail(err, -EINVAL,
                            "source %u: file %zu has %" PRIu64 " records: too many",
                            number, i, source->records[i]);
        sum += source->records[i];
        files->ends[i] = sum;
    }
    if (source->length && source->length != sum)
        return dlr_fail(err, -EINVAL,
                        "source %u: length is %" PRIu64 ", its files have %" PRIu64
                        " records",
                        number, source->length, sum);
    return 0;
}

int dlr_feed_files_take(struct dlr_feed_files *files,
                        const struct dlr_feed_source *source, unsigned number,
                        struct dlr_source *ret, struct dlr_err *err)
{
    int rc;

    *files = (struct dlr_feed_files){0};
    *ret = (struct dlr_source){.length = source->length};
    if (source->files == 0)
        return 0;
    files->ends = calloc(source->files, sizeof(*files->ends));
    if (!files->ends)
        return dlr_fail(err, -ENOMEM, "no memory for %zu files", source->files);
    files->n = source->files;
    rc = add_up(files, source, number, err);
    if (rc < 0)
        return rc;
    *ret = (struct dlr_source){.length = files->ends[files->n - 1],
                               .files = files->n,
                               .id = dlr_feed_files_id(files, files->n)};
    return 0;
}

void dlr_feed_files_free(struct dlr_feed_files *files)
{
    free(files->ends);
    *files = (struct dlr_feed_files){0};
}

uint64_t dlr_feed_files_id(const struct dlr_feed_files *files, uint64_t n)
{
    uint64_t id = 0;

    for (size_t i = 0; i < n && i < files->n; i++)
        id = dlr_permute_mix(id, files->ends[i]);
    return id;
}

uint64_t dlr_feed_files_records(const struct dlr_feed_files *files, uint64_t n)
{
    if (n > files->n)
        n = files->n;
    return n ? files->ends[n - 1] : 0;
}

void dlr_feed_files_find(const struct dlr_feed_files *files, uint64_t index,
                         size_t *ret_file, uint64_t *ret_record)
{
    size_t low = 0, high = files->n ? files->n - 1 : 0;

    while (low < high) { /* the first that ends behind index: empty ones have nothing */
        const size_t middle = low + (high - low) / 2;

        if (files->ends[middle] > index)
            high = middle;
        else
            low = middle + 1;
    }
    *ret_file = low;
    *ret_record = index - (low ? files->ends[low - 1] : 0);
}
