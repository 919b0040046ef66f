/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* What a supervisor leaves to the next one, in the small: each row through its file's
 * own writer and reader.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi_launcher/supervisor/copies/fallback_network.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "tests/support/copies_alone.h"

static unsigned kept, told_peers;

/* --- instead of the other files of the supervisor --------------------------------- */

void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
}
void dlr_sup_send_peers(struct dlr_sup_nodes *nodes)
{
    told_peers++;
}
static void on_changed(void *arg)
{
    kept++;
}

/* --- tests ------------------------------------------------------------------------ */

static int begin(void **state)
{
    static const struct dlr_sup_copies_ops events = {.changed = on_changed};

    kept = told_peers = 0;
    copies_begin(&events, 1);
    return 0;
}

static int end(void **state)
{
    copies_end();
    return 0;
}

static void the_network_that_all_have_in_common_is_kept(void **state)
{
    json_t *msg = json_pack("{s:s}", "why", "no way"), *left = json_object();

    dlr_sup_on_unreached(copies, 0, msg);
    assert_int_equal(told_peers, 1);
    assert_int_equal(kept, 1);
    dlr_sup_net_state(copies, left);
    copies->fallback_network = false; /* the next one */
    dlr_sup_net_take(copies, left);
    assert_true(copies->fallback_network);
    dlr_sup_on_unreached(copies, 0, msg); /* said again by one that was slow */
    assert_int_equal(told_peers, 1);
    json_decref(msg);
    json_decref(left);
}

static void the_fastest_network_is_used_where_nothing_else_was_said(void **state)
{
    json_t *left = json_object();

    copies->fallback_network = true;
    dlr_sup_net_take(copies, left); /* of a supervisor before the word was kept */
    assert_false(copies->fallback_network);
    dlr_sup_net_state(copies, left);
    dlr_sup_net_take(copies, left);
    assert_false(copies->fallback_network);
    json_decref(left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_network_that_all_have_in_common_is_kept,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            the_fastest_network_is_used_where_nothing_else_was_said, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
