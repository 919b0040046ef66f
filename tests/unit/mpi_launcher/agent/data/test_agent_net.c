/* SPDX-License-Identifier: Apache-2.0 */
/* When an agent says that its network leads nowhere. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mpi_launcher/agent/data/network.h"

static const struct {
    const char *name;
    struct {
        uint64_t step; /* of the save, 0: a transfer of a round's start; -1: the end */
        int rc;
    } sends[8];
    unsigned said; /* afterwards */
    bool chosen;   /* --dlrover-set=net */
} rows[] = {
    {"three saves find no way",
     {{1, -ETIMEDOUT}, {2, -EHOSTUNREACH}, {3, -ECONNREFUSED}, {-1}},
     1},
    {"two saves do", {{1, -ETIMEDOUT}, {2, -ETIMEDOUT}, {-1}}, 0},
    {"all sends of a save", /* the data process at their other end died */
     {{1, -ECONNRESET}, {1, -ECONNRESET}, {1, -ETIMEDOUT}, {1, -ECONNRESET}, {-1}},
     0},
    {"all sends of two",
     {{1, -EPIPE}, {1, -ETIMEDOUT}, {2, -ETIMEDOUT}, {2, -ETIMEDOUT}, {-1}},
     0},
    {"three copies of a round's start",
     {{0, -ETIMEDOUT}, {0, -ETIMEDOUT}, {0, -ETIMEDOUT}, {-1}},
     1},
    {"one has come through",
     {{1, -ETIMEDOUT}, {2, 0}, {3, -ETIMEDOUT}, {4, -ETIMEDOUT}, {5, -ETIMEDOUT}, {-1}},
     0},
    {"it is not the network", {{1, -EIO}, {2, -ENOSPC}, {3, -EBADMSG}, {-1}}, 0},
    {"whoever has named a network keeps it",
     {{1, -ETIMEDOUT}, {2, -ETIMEDOUT}, {3, -ETIMEDOUT}, {-1}},
     0,
     true},
    {"it is said once",
     {{1, -ETIMEDOUT}, {2, -ETIMEDOUT}, {3, -ETIMEDOUT}, {4, -ETIMEDOUT}, {-1}},
     1},
};

static void saves_that_find_no_way_are_counted(void **state)
{
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_agent_net net = {.chosen = rows[i].chosen};
        unsigned said = 0;

        print_message("%s\n", rows[i].name);
        for (unsigned k = 0; rows[i].sends[k].step != (uint64_t)-1; k++) {
            struct dlr_version save = {1, rows[i].sends[k].step};

            said +=
                dlr_agent_net_sent(&net, save.step ? &save : NULL, rows[i].sends[k].rc);
        }
        assert_int_equal(said, rows[i].said);
    }
}

static void the_same_step_of_another_round_is_another_save(void **state)
{
    struct dlr_agent_net net = {.chosen = false};
    unsigned said = 0;

    for (uint32_t round = 1; round <= 3; round++)
        said += dlr_agent_net_sent(&net, &(struct dlr_version){round, 40}, -ETIMEDOUT);
    assert_int_equal(said, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves_that_find_no_way_are_counted),
        cmocka_unit_test(the_same_step_of_another_round_is_another_save),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
