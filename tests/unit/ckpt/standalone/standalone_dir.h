/* SPDX-License-Identifier: Apache-2.0 */
/* A directory for the library's work without a job, and an environment that has no job.
 */
#ifndef DLR_TESTS_CKPT_STANDALONE_STANDALONE_DIR_H
#define DLR_TESTS_CKPT_STANDALONE_STANDALONE_DIR_H

#include <stdlib.h>

#include "common/base/str.h"

static char dir[64]; /* of the test that runs */

static inline int standalone_setup(void **state)
{
    static const char *const names[] = {
        "DLROVER_AGENT_SOCKET", "DLROVER_ROUND", "RANK",
        "WORLD_SIZE",           "SLURM_PROCID",  "SLURM_NTASKS"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    setenv("DLROVER_CKPT_AGREE_MS", "0", 1); /* ranks come one after the other */
    setenv("DLROVER_CKPT_EVERY", "1", 1); /* they do nothing else: it would be rarely */
    dlr_format(dir, sizeof(dir), "/tmp/dlr-test-alone-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int standalone_teardown(void **state)
{
    char command[128];

    dlr_format(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

#endif
