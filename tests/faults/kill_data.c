/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/kill_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/install_path.h"
#include "common/base/str.h"
#include "tests/faults/kill_points.h"

void kill_data_init(struct kill_data *k, const char *name)
{
    assert_int_equal(dlr_install_path_sibling(name, k->program, sizeof(k->program)), 0);
    dlr_format(k->table, sizeof(k->table), "/dev/shm/dlr-test-kill-%d", (int)getpid());
    kill_points_new(k->table, false);
}

void kill_data_done(struct kill_data *k)
{
    unlink(k->table);
}

void kill_data_start(const struct kill_data *k, struct rig_data *p, const char *dir)
{
    setenv(KILL_TABLE_ENV, k->table, 1);
    rig_start_program(p, k->program, dir, NULL);
    unsetenv(KILL_TABLE_ENV);
}

unsigned kill_data_each(struct rig_data *victim, const struct kill_data_ops *ops,
                        void *arg)
{
    unsigned points, kills = 0, seen[2] = {0};

    kill_points_order(KILL_POINTS_RECORD);
    assert_true(ops->life(arg));
    kill_points_off();
    points = kill_points_count();
    ops->ready(arg);
    for (unsigned i = 0; i < points; i += KILL_POINTS_STRIDE) {
        bool well;

        kill_points_order((int)i);
        well = ops->life(arg);
        if (rig_alive(victim)) {
            kill_points_off();
            ops->ready(arg);
            continue;
        }
        kill_points_off();
        kills++;
        seen[well]++;
        rig_kill(victim);
        ops->go_on(arg);
    }
    print_message("%u points, %u kills: %u in the midst, %u after it went well\n",
                  points, kills, seen[0], seen[1]);
    assert_true(kills > points / KILL_POINTS_STRIDE / 2 && seen[0] > 0);
    return seen[1];
}
