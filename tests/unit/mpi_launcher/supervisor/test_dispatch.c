/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_user_line,dlr_sup_adopt_failed,dlr_sup_rejoin_lost,dlr_redundancy_degraded,dlr_sup_gather_lost,dlr_sup_transfers_lost,dlr_sup_peers_went,dlr_sup_save_lost,dlr_policy_node_dead */
/* Who is told that a node is lost, and in which order: around the nodes' engine and
 * mpi_launcher/supervisor/dispatch.c nothing but names of who was called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/steps/rejoin.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "tests/support/nodes_rig.h"

static struct dlr_sup s;
static struct dlr_members *table;
static char told[256]; /* one word each; + while the node is here */

static void note(const char *who)
{
    size_t at = strlen(told);

    dlr_format(told + at, sizeof(told) - at, "%s%s%s", at ? " " : "", who,
               table->list[1].here ? "+" : "-");
}

void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...);
void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    note("user");
}
void __wrap_dlr_sup_adopt_failed(struct dlr_sup_rounds *rounds, const char *why);
void __wrap_dlr_sup_adopt_failed(struct dlr_sup_rounds *rounds, const char *why)
{
    note("adoption");
}
void __wrap_dlr_policy_node_dead(struct dlr_policy *p, unsigned node, const char *why,
                                 int64_t now_ms);
void __wrap_dlr_policy_node_dead(struct dlr_policy *p, unsigned node, const char *why,
                                 int64_t now_ms)
{
    note("policy");
}
void __wrap_dlr_sup_save_lost(struct dlr_sup_nodes *nodes);
void __wrap_dlr_sup_save_lost(struct dlr_sup_nodes *nodes)
{
    note("saved");
}

#define TOLD(function, whose, word)                                                    \
    void __wrap_##function(struct whose *who, unsigned node);                          \
    void __wrap_##function(struct whose *who, unsigned node)                           \
    {                                                                                  \
        note(word);                                                                    \
    }
TOLD(dlr_sup_rejoin_lost, dlr_sup_steps, "rejoin")
TOLD(dlr_redundancy_degraded, dlr_sup, "copies")
TOLD(dlr_sup_gather_lost, dlr_sup_planning, "reports")
TOLD(dlr_sup_peers_went, dlr_sup_nodes, "peers")
TOLD(dlr_sup_transfers_lost, dlr_sup, "transfers")

static int begin(void **state)
{
    char *names[] = {"n0", "n1"};

    s.io = dlr_sup_io_new(NULL, NULL);
    table = nodes_rig(&s, &dlr_sup_nodes_ops, names, 2);
    table->list[1].here = true;
    told[0] = '\0';
    return 0;
}

static int end(void **state)
{
    dlr_sup_nodes_free(s.nodes);
    dlr_sup_io_free(s.io);
    return 0;
}

/* What the next supervisor reads is saved before the policy acts on the loss. */
static void a_silent_node_is_told_to_all_then_to_the_policy(void **state)
{
    dlr_node_lost(s.nodes, 1, 1000, 5000);
    assert_string_equal(told, "adoption+ rejoin+ user- copies- reports- transfers- "
                              "peers- saved- policy-");
}

static void a_node_that_is_given_up_is_no_news_to_the_policy(void **state)
{
    dlr_node_mark_dead(s.nodes, 1, "its agent cannot be started", "no such file");
    assert_string_equal(told, "user- copies- reports- transfers- peers- saved-");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(a_silent_node_is_told_to_all_then_to_the_policy),
        T(a_node_that_is_given_up_is_no_news_to_the_policy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
