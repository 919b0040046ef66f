/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* What a supervisor leaves to the next one, in the small: each row through its file's own writer and
 * reader.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi_launcher/supervisor/supervisor.h"
#include "tests/support/nodes_rig.h"

static struct dlr_sup s;
static unsigned kept, told_peers, watched, let_go;
static int64_t now_ms;

/* --- instead of the other files of the supervisor ---------------------------------------- */

void dlr_sup_say(struct dlr_sup_io *io, const char *fmt, ...)
{
}
void dlr_sup_send_peers(struct dlr_sup_nodes *nodes)
{
    told_peers++;
}
void dlr_sup_keep(struct dlr_sup *sup)
{
    kept++;
}
int64_t dlr_sup_now(void)
{
    return now_ms;
}
int dlr_sup_watch(struct dlr_sup_io *io, int fd, zloop_fn *fn, void *arg)
{
    watched++;
    return 0;
}
void dlr_sup_unwatch(struct dlr_sup_io *io, int fd)
{
}
void dlr_sup_let_go(struct dlr_sup *sup, struct dlr_proc *proc)
{
    let_go += proc->pid != 0;
    *proc = (struct dlr_proc){.pidfd = -1};
}
int dlr_proc_reap(struct dlr_proc *proc)
{
    return 0;
}
void dlr_sup_transfers_check(struct dlr_sup *sup)
{
}
bool dlr_sup_is_over(const struct dlr_sup *sup)
{
    return false;
}

/* --- tests -------------------------------------------------------------------------------- */

static int begin(void **state)
{
    static char name[] = "n1";
    char *const names[] = {name};

    memset(&s, 0, sizeof(s));
    kept = told_peers = watched = let_go = 0;
    now_ms = 5000;
    nodes_rig(&s, NULL, names, 1);
    return 0;
}

static int end(void **state)
{
    dlr_sup_nodes_free(s.nodes);
    return 0;
}

static void the_network_that_all_have_in_common_is_kept(void **state)
{
    json_t *msg = json_pack("{s:s}", "why", "no way"), *left = json_object();

    dlr_sup_on_unreached(&s, 0, msg);
    assert_int_equal(told_peers, 1);
    assert_int_equal(kept, 1);
    dlr_sup_net_state(&s, left);
    s.common_net = false; /* the next one */
    dlr_sup_net_take(&s, left);
    assert_true(s.common_net);
    dlr_sup_on_unreached(&s, 0, msg); /* said again by one that was slow */
    assert_int_equal(told_peers, 1);
    json_decref(msg);
    json_decref(left);
}

static void the_fastest_network_is_used_where_nothing_else_was_said(void **state)
{
    json_t *left = json_object();

    s.common_net = true;
    dlr_sup_net_take(&s, left); /* of a supervisor before the word was kept */
    assert_false(s.common_net);
    dlr_sup_net_state(&s, left);
    dlr_sup_net_take(&s, left);
    assert_false(s.common_net);
    json_decref(left);
}

static void an_srun_that_may_end_by_itself_is_kept(void **state)
{
    struct dlr_proc srun = {.pid = 77, .pidfd = -1};
    json_t *left = json_object();
    json_int_t pid;

    dlr_sup_drain(&s, &srun);
    dlr_sup_drain_state(&s, left);
    pid = json_integer_value(json_object_get(left, "draining_pid"));
    assert_int_equal(pid, 77);
    json_decref(left);
}

static void it_has_its_limit_under_the_next_supervisor_too(void **state)
{
    dlr_sup_drain_adopt(&s); /* none */
    assert_int_equal(watched, 0);
    s.draining = (struct dlr_proc){.pid = 77, .pidfd = -1};
    dlr_sup_drain_adopt(&s);
    assert_int_equal(watched, 1);
    dlr_sup_drain_tick(&s, now_ms);
    assert_int_equal(let_go, 0);
    dlr_sup_drain_tick(&s, now_ms + 60000);
    assert_int_equal(let_go, 1);
    assert_int_equal(s.draining.pid, 0); /* the next round's srun may start */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_network_that_all_have_in_common_is_kept,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            the_fastest_network_is_used_where_nothing_else_was_said, begin, end),
        cmocka_unit_test_setup_teardown(an_srun_that_may_end_by_itself_is_kept, begin,
                                        end),
        cmocka_unit_test_setup_teardown(it_has_its_limit_under_the_next_supervisor_too,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
