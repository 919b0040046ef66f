/* SPDX-License-Identifier: Apache-2.0 */
/* A data process that is killed at every step of something: a build of it whose code
 * under test calls tests/faults/kill_points.h, beside others that are left alone.
 */
#ifndef DLR_TESTS_FAULTS_KILL_DATA_H
#define DLR_TESTS_FAULTS_KILL_DATA_H

#include <stdbool.h>

#include "tests/support/data_rig.h"

struct kill_data {
    char program[4096], table[80];
};

/* The victim will be the program called name beside this test. */
void kill_data_init(struct kill_data *k, const char *name);
void kill_data_done(struct kill_data *k);
/* As rig_start(); in the directory of a victim that was killed it may be p's own. */
void kill_data_start(const struct kill_data *k, struct rig_data *p, const char *dir);

struct kill_data_ops {
    bool (*life)(void *arg); /* what the victim is killed in; whether it went well */
    void (*go_on)(
        void *arg); /* it is dead: what is there, and that another one goes on */
    void (*ready)(void *arg); /* it met no kill: what the next life begins with */
};

/* A life left alone, then one for each point. Prints how many kills there were; most
 * points must be met, some before their life had gone well. Returns how many were met
 * after that.
 */
unsigned kill_data_each(struct rig_data *victim, const struct kill_data_ops *ops,
                        void *arg);

#endif
