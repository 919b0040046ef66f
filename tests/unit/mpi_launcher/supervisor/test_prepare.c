/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=getrandom,dlr_sup_tell_round,dlr_sup_keep_plan,dlr_sup_tell_plan,dlr_sup_agents_start */
/* A round is prepared: its token cannot be guessed, and without one there is no round;
 * what was open of writes before is not its own. What is kept before agents start.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/copies/transfers.h"
#include "mpi_launcher/supervisor/disk/disk_state.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "tests/support/engines_rig.h"

static struct dlr_sup s;
static unsigned rounds; /* told to all */
static bool no_random;

ssize_t __real_getrandom(void *buf, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *buf, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *buf, size_t bytes, unsigned flags)
{
    if (!no_random)
        return __real_getrandom(buf, bytes, flags);
    errno = ENOSYS; /* a seccomp filter of somebody's container */
    return -1;
}
void __wrap_dlr_sup_tell_round(struct dlr_sup_rounds *of, uint32_t round);
void __wrap_dlr_sup_tell_round(struct dlr_sup_rounds *of, uint32_t round)
{
    rounds++;
}
void __wrap_dlr_sup_keep_plan(struct dlr_sup_planning *planning);
void __wrap_dlr_sup_keep_plan(struct dlr_sup_planning *planning)
{
}
void __wrap_dlr_sup_tell_plan(struct dlr_sup_planning *planning);
void __wrap_dlr_sup_tell_plan(struct dlr_sup_planning *planning)
{
}
static int had_state; /* when the agents were started */
bool __wrap_dlr_sup_agents_start(struct dlr_sup_steps *steps);
bool __wrap_dlr_sup_agents_start(struct dlr_sup_steps *steps)
{
    DLR_AUTO_JSON json_t *kept = NULL;
    struct dlr_err err;

    had_state = dlr_takeover_state_load(s.state_fd, &kept, &err);
    return false;
}

static int begin(void **state)
{
    static const struct dlr_policy_conf pc = {.nnodes = 1, .nplaces = 1};
    char n0[] = "n0", *names[] = {n0};
    struct dlr_err err;

    memset(&s, 0, sizeof(s));
    dlr_job_config_init(&s.conf);
    s.state_fd = -1;
    engines_rig(&s, names, 1);
    assert_int_equal(dlr_policy_new(&pc, &dlr_sup_policy_ops, &s, &s.policy, &err), 0);
    assert_int_equal(dlr_sup_engines_open(&s, &err), 0);
    return 0;
}

static int end(void **state)
{
    dlr_policy_free(s.policy);
    engines_rig_free(&s);
    return 0;
}

static void without_a_random_number_there_is_no_round(void **state)
{
    const struct dlr_sup_transfers *transfers = dlr_sup_transfers(s.copies);

    no_random = true;
    dlr_sup_policy_ops.prepare(&s, 1);
    no_random = false;
    assert_int_equal(rounds, 0);
    assert_int_equal(transfers->rc, -EIO);
    assert_string_equal(transfers->why, "no random number for the round's token: "
                                        "getrandom: Function not implemented");
    assert_true(dlr_sup_is_preparing(s.copies)); /* its end is told with what failed */
    dlr_sup_policy_ops.prepare(&s, 2);
    assert_int_equal(transfers->rc, 0);
    assert_int_equal(rounds, 1);
    assert_int_equal(strspn(s.rounds->token, "0123456789abcdef"), 32);
    assert_int_not_equal(strspn(s.rounds->token, "0"), 32);
}

/* Another run had the job requeued, which came to nothing after this one's writes had
 * run into their limit: copies that move now are none of theirs.
 */
static void writes_that_nobody_waits_for_are_dropped(void **state)
{
    s.disk->persist.writes = true;
    dlr_sup_policy_ops.prepare(&s, 1);
    assert_false(dlr_sup_is_persisting(s.disk));
    assert_true(dlr_sup_is_preparing(s.copies));
}

/* Killed once they are told its key, a supervisor has left that to the next one. */
static void agents_are_started_by_who_has_kept_its_key(void **state)
{
    DLR_AUTO_CLOSE int fd = memfd_create("state", MFD_CLOEXEC);

    s.state_fd = fd;
    had_state = -1;
    dlr_sup_policy_ops.start_agents(&s);
    assert_int_equal(had_state, 0);
    s.state_fd = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_random_number_there_is_no_round,
                                        begin, end),
        cmocka_unit_test_setup_teardown(writes_that_nobody_waits_for_are_dropped, begin,
                                        end),
        cmocka_unit_test_setup_teardown(agents_are_started_by_who_has_kept_its_key,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
