/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of programs without a job, one or several ranks in one process: what they save
 * tells step, rank and program.
 */
#ifndef DLR_TESTS_CKPT_STANDALONE_STANDALONE_RUN_H
#define DLR_TESTS_CKPT_STANDALONE_STANDALONE_RUN_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define N 400000 /* two blocks */

static uint32_t data[N];
static char said[4096]; /* what the library logged */

static inline void hear(void *arg, enum dlr_log_level level, const char *text)
{
    size_t n = strlen(said);

    if (level <= DLR_LOG_WARN)
        snprintf(said + n, sizeof(said) - n, "%s\n", text);
}

static inline int setup(void **state)
{
    said[0] = '\0';
    dlr_log_to(hear, NULL, DLR_LOG_INFO);
    unsetenv("DLROVER_CKPT_FRESH");
    return standalone_setup(state);
}

static inline void fill(const char *of, int rank, uint64_t step)
{
    for (unsigned i = 0; i < N; i++)
        data[i] = (uint32_t)(i * 2654435761u + step * 97 + (unsigned)rank * 13 +
                             (unsigned char)of[0]);
}

static inline bool holds(const char *of, int rank, uint64_t step)
{
    for (unsigned i = 0; i < N; i++)
        if (data[i] != (uint32_t)(i * 2654435761u + step * 97 + (unsigned)rank * 13 +
                                  (unsigned char)of[0]))
            return false;
    return true;
}

/* Programs differ in the name of what they save. */
static inline int try_open(const char *of, int rank, int world, struct dlr_ckpt **ret)
{
    const struct dlr_ckpt_conf conf = {
        .dir = dir, .rank = rank, .world = world, .every = 1};
    int rc = dlr_ckpt_open(&conf, ret);

    if (rc == 0)
        rc = dlr_ckpt_add_array(*ret, of, DLR_CKPT_SHARD, "u32", 4, data, N);
    return rc;
}

static inline struct dlr_ckpt *open_as(const char *of, int rank, int world)
{
    struct dlr_ckpt *ck = NULL;

    assert_int_equal(try_open(of, rank, world, &ck), 0);
    return ck;
}

static inline void save(struct dlr_ckpt *ck, const char *of, int rank, uint64_t step)
{
    fill(of, rank, step);
    assert_int_equal(dlr_ckpt_begin(ck, step, NULL), 1);
    assert_int_equal(dlr_ckpt_flush(ck), 0);
}

/* A program's life, which does not restore: its ranks save these steps. */
static inline void run(const char *of, int world, uint64_t from, uint64_t to)
{
    struct dlr_ckpt *ck[4];

    for (int rank = 0; rank < world; rank++)
        ck[rank] = open_as(of, rank, world);
    for (uint64_t step = from; step <= to; step++)
        for (int rank = 0; rank < world; rank++)
            save(ck[rank], of, rank, step);
    for (int rank = 0; rank < world; rank++)
        dlr_ckpt_close(ck[rank]);
}

static inline int restore(const char *of, int rank, int world, uint64_t *ret_step,
                          char why[256])
{
    struct dlr_ckpt *ck = open_as(of, rank, world);
    int rc = dlr_ckpt_restore(ck, ret_step);

    dlr_format(why, 256, "%s", dlr_ckpt_error(ck));
    if (rc == 1)
        assert_true(holds(of, rank, *ret_step));
    dlr_ckpt_close(ck);
    return rc;
}

static inline void assert_restores(const char *of, int world, uint64_t want)
{
    for (int rank = 0; rank < world; rank++) {
        char why[256];
        uint64_t step = 0;
        int rc = restore(of, rank, world, &step, why);

        if (rc != 1)
            fail_msg("rank %d of '%s' restored %d: %s", rank, of, rc, why);
        assert_int_equal(step, want);
    }
}

static inline bool there(const char *name)
{
    char path[128];

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static inline unsigned count(const char *part)
{
    DIR *d = opendir(dir);
    unsigned n = 0;

    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

#endif
