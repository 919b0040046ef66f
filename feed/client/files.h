/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a source: which record is in which of them. */
#ifndef DLR_FEED_CLIENT_FILES_H
#define DLR_FEED_CLIENT_FILES_H

#include "common/base/err.h"
#include "feed/client/feed.h"
#include "feed/sequence.h"

/* ends: the records up to each file's end; NULL: the records are in no files. */
struct dlr_feed_files {
    size_t n;
    uint64_t *ends;
};

/* number is the source's, for err. -EINVAL; dlr_feed_files_free(). */
int dlr_feed_files_take(struct dlr_feed_files *files,
                        const struct dlr_feed_source *source, unsigned number,
                        struct dlr_source *ret, struct dlr_err *err);
void dlr_feed_files_free(struct dlr_feed_files *files);

/* What tells the first n files, at most those that there are, from others; and their
 * records.
 */
uint64_t dlr_feed_files_id(const struct dlr_feed_files *files, uint64_t n);
uint64_t dlr_feed_files_records(const struct dlr_feed_files *files, uint64_t n);

/* index is one of a record that is there. */
void dlr_feed_files_find(const struct dlr_feed_files *files, uint64_t index,
                         size_t *ret_file, uint64_t *ret_record);

#endif
