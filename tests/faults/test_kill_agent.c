/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/wire,ckpt/slot,common/local needs=tests/stepped-agent */
/* The agent killed at every step of a seal's way to the supervisor and of the commit's
 * way back: marks of its own slots, the word to the data process. The newest version
 * that the supervisor committed, or may have, is whole in node memory after each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "tests/faults/kill_points.h"
#include "tests/support/worker_rig.h"

#define RANK 4
#define OLD 10
#define NEW 20

static struct rig rig;
static char program[4096], table[80];

static void say(const char *what, int step)
{
    dlr_rig_say(&rig, what, "s:i, s:i", "round", 0, "step", step);
}

static void expect(const char *type)
{
    json_decref(dlr_rig_expect(&rig, type));
}

/* An agent with a rank whose step OLD is committed. */
static unsigned bring_up(struct worker *w)
{
    unsigned k;

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[4]", "null");
    dlr_rig_sync(&rig);
    assert_true(rig_hello(&rig, w, 0, RANK));
    rig_worker_slots(w);
    expect("ready");
    say("save_at", OLD);
    dlr_rig_sync(&rig);
    k = rig_worker_save(w, OLD);
    expect("sealed");
    say("commit", OLD);
    dlr_rig_sync(&rig);
    say("save_at", NEW);
    dlr_rig_sync(&rig);
    return k;
}

static bool whole(const struct worker *w, unsigned k, uint64_t step)
{
    enum dlr_slot_state state = dlr_slot_state(w->slots[k]);
    struct dlr_slot_info info;

    return (state == DLR_SLOT_SEALED || state == DLR_SLOT_COMMITTED) &&
           dlr_slot_verify(w->slots[k], NULL) == 0 &&
           dlr_slot_info(w->slots[k], &info) == 0 && info.version.step == step;
}

/* It is free when its copy is known to have ended. */
static void wait_free(const struct worker *w, unsigned k)
{
    for (int64_t until = dlr_now_ms() + RIG_WAIT_MS;
         dlr_now_ms() < until && dlr_slot_state(w->slots[k]) != DLR_SLOT_FREE;)
        dlr_rig_sync(&rig);
    assert_int_equal(dlr_slot_state(w->slots[k]), DLR_SLOT_FREE);
}

/* A new version's seal and commit under an agent that is killed at point. True: it was.
 */
static bool life(int point)
{
    struct worker w;
    unsigned old = bring_up(&w), new = 1 - old;
    bool told, alive;
    json_t *sealed;

    kill_points_order(point);
    assert_int_equal(rig_worker_save(&w, NEW), new);
    sealed = dlr_rig_expect_or_dead(&rig, "sealed");
    told = sealed != NULL;
    json_decref(sealed);
    if (told)
        say("commit", NEW); /* from here on it is the supervisor's word */
    alive = told && dlr_rig_alive(&rig);
    kill_points_off();
    alive = alive && dlr_rig_alive(&rig); /* a copy's end may have come in between */
    if (!whole(&w, new, NEW))
        fail_msg("the sealed version is not there");
    if (!told && !whole(&w, old, OLD))
        fail_msg("the committed version is not there");
    if (alive) {
        assert_int_equal(dlr_slot_state(w.slots[new]), DLR_SLOT_COMMITTED);
        wait_free(&w, old);
    }
    rig_bye(&w);
    if (alive)
        dlr_rig_stop(&rig);
    else
        dlr_rig_abandon(&rig);
    return !alive;
}

static void a_commit_survives_the_agent(void **state)
{
    unsigned points, kills = 0;

    assert_false(life(KILL_POINTS_RECORD));
    points = kill_points_count();
    for (unsigned i = 0; i < points; i += KILL_POINTS_STRIDE)
        kills += life((int)i);
    print_message("%u points, %u kills\n", points, kills);
    assert_true(kills > points / KILL_POINTS_STRIDE / 2);
}

static int set_up(void **state)
{
    assert_int_equal(
        dlr_install_path_sibling("stepped-agent", program, sizeof(program)), 0);
    dlr_format(table, sizeof(table), "/dev/shm/dlr-test-kill-%d", (int)getpid());
    kill_points_new(table, true);
    setenv(KILL_TABLE_ENV, table, 1);
    dlr_rig_use(program);
    return dlr_rig_munged(state);
}

static int tear_down(void **state)
{
    unlink(table);
    return dlr_rig_munged_end(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_commit_survives_the_agent, dlr_rig_clear),
    };

    dlr_rig_role(argc, argv);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
