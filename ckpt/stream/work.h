/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for what blocks or computes (memory, files, checksums); the results come back
 * to the loop.
 */
#ifndef DLR_CKPT_STREAM_WORK_H
#define DLR_CKPT_STREAM_WORK_H

#include "common/base/err.h"

struct dlr_work;

/* A job: run() in the thread, done() later in the caller of dlr_work_finish(). Both get
 * the job itself; the struct is embedded in the caller's. err holds what run()
 * returned.
 */
struct dlr_job {
    struct dlr_job *next;
    int (*run)(struct dlr_job *job, struct dlr_err *err);
    void (*done)(struct dlr_job *job);
    int rc;
    struct dlr_err err;
};

/* 0 threads count as 1. -errno when not one could be started. */
int dlr_work_new(unsigned threads, struct dlr_work **ret, struct dlr_err *err);
/* Jobs are begun in order, and by one thread also run in it. */
void dlr_work_add(struct dlr_work *work, struct dlr_job *job);
int dlr_work_fd(const struct dlr_work *work); /* readable: call dlr_work_finish() */
void dlr_work_finish(struct dlr_work *work);

#endif
