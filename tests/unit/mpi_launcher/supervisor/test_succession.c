/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_user_line,dlr_sup_file_text,dlr_sup_now,dlr_sup_send,dlr_sup_state_for_heirs,dlr_sup_requeue_bar */
/* Who gets a supervisor's will, and when a supervisor finds that it has a successor:
 * nodes that are a table, and a file that is a text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/succession.h"
#include "mpi_launcher/supervisor/will.h"
#include "tests/support/nodes_rig.h"

#define NODES 7

static struct dlr_sup s;
static struct dlr_members *table;
static const char *file;     /* taken-over; NULL: there is none */
static unsigned looks, bars; /* looks for it, and requeues given up */
static char told[256];
static json_t *heir; /* state of b, as its agent has it */
static bool has_row; /* the state has one more member */
static int64_t now_ms = 100000;
static int step;
static char *no_argv[] = {"dlrover-supervisor", NULL};

void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...);
void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
}
char *__wrap_dlr_sup_file_text(struct dlr_sup_io *io, const char *path, off_t from);
char *__wrap_dlr_sup_file_text(struct dlr_sup_io *io, const char *path, off_t from)
{
    assert_string_equal(path, "/state/lm/taken-over");
    looks++;
    return file ? strdup(file) : NULL;
}
int64_t __wrap_dlr_sup_now(void);
int64_t __wrap_dlr_sup_now(void)
{
    return now_ms;
}
json_t *__wrap_dlr_sup_state_for_heirs(const struct dlr_sup *of);
json_t *__wrap_dlr_sup_state_for_heirs(const struct dlr_sup *of)
{
    json_t *state = json_pack("{s:i,s:{s:s}}", "step", step, "peers", "b", "key");

    if (has_row)
        json_object_set_new(state, "end", json_integer(step));
    return state;
}
void __wrap_dlr_sup_requeue_bar(struct dlr_sup_ending *ending);
void __wrap_dlr_sup_requeue_bar(struct dlr_sup_ending *ending)
{
    bars++;
}
static void inherit(const json_t *msg)
{
    json_t *state = json_object_get(msg, "state"), *name;
    size_t i;

    if (state) {
        json_decref(heir);
        heir = json_deep_copy(state);
        return;
    }
    json_object_update(heir, json_object_get(msg, "changed"));
    json_array_foreach(json_object_get(msg, "gone"), i, name)
    {
        json_object_del(heir, json_string_value(name));
    }
}

/* "NODE", a * where it gets the whole state, and a + where what does not change, too. */
void __wrap_dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg);
void __wrap_dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg)
{
    size_t at = strlen(told);

    assert_string_equal(dlr_msg_type(msg), "will");
    dlr_format(told + at, sizeof(told) - at, "%s%s%s ", table->list[node].node.name,
               json_object_get(msg, "state") ? "*" : "",
               json_object_get(msg, "start") ? "+" : "");
    if (node == 1)
        inherit(msg);
    json_decref(msg);
}

/* The batch host is a; all are heard. */
static int begin(void **state)
{
    char *names[] = {"g", "b", "f", "c", "e", "d", "a"};
    unsigned char keys[DLR_IDENTITY_BYTES] = {1};

    memset(&s, 0, sizeof(s));
    dlr_job_config_init(&s.conf);
    s.conf.nodes.min = 2;
    s.conf.takeover = true;
    dlr_format(s.info.dir, sizeof(s.info.dir), "/state/lm");
    s.info.incarnation = 3;
    s.argv = no_argv;
    s.state_fd = memfd_create("state", MFD_CLOEXEC);
    assert_int_equal(pwrite(s.state_fd, keys, sizeof(keys), 0), sizeof(keys));
    table = nodes_rig(&s, NULL, names, NODES);
    dlr_format(s.nodes->batch, sizeof(s.nodes->batch), "a");
    for (unsigned i = 0; i < NODES; i++) {
        dlr_format(table->list[i].boot, sizeof(table->list[i].boot), "x");
        table->list[i].here = true;
        table->list[i].heard_ms = now_ms;
    }
    file = NULL;
    looks = bars = 0;
    told[0] = '\0';
    setenv("ENVIRONMENT", "BATCH", 1);
    return 0;
}

static int end(void **state)
{
    dlr_sup_will_free(&s);
    json_decref(heir);
    heir = NULL;
    has_row = false;
    s.nodes = dlr_sup_nodes_free(s.nodes);
    close(s.state_fd);
    return 0;
}

static void tick(const char *wanted)
{
    told[0] = '\0';
    dlr_sup_will_tick(&s);
    assert_string_equal(told, wanted);
}

/* Between the two nothing is told. */
static void change(const char *wanted)
{
    step++;
    dlr_sup_will_changed(&s);
    tick(wanted);
}

static void the_four_lowest_get_the_will_and_what_changes(void **state)
{
    dlr_sup_will_open(&s);
    tick("b*+ c*+ d*+ e*+ ");
    tick("");
    dlr_sup_will_changed(&s);
    tick(""); /* it has not */
    change("b c d e ");
    table->list[1].here = false; /* b */
    dlr_sup_will_changed(&s);
    tick("f*+ ");
    table->list[1].here = true;
    dlr_sup_will_greeted(&s, 1); /* its agent is another one */
    tick("b*+ ");
}

static void what_changes_makes_the_state_of_now(void **state)
{
    DLR_AUTO_JSON json_t *wanted = NULL;

    dlr_sup_will_open(&s);
    tick("b*+ c*+ d*+ e*+ ");
    has_row = true;
    change("b c d e ");
    change("b c d e ");
    wanted = dlr_sup_state_for_heirs(&s);
    assert_int_equal(json_object_size(wanted), 3);
    assert_true(json_equal(heir, wanted));
    has_row = false;
    change("b c d e ");
    assert_int_equal(json_object_size(heir), 2); /* the row is gone */
}

/* It was not among the four for a while, and kept its connection. */
static void who_has_missed_a_change_gets_the_whole_state(void **state)
{
    dlr_sup_will_open(&s);
    tick("b*+ c*+ d*+ e*+ ");
    table->list[1].here = false; /* b */
    change("c d e f*+ ");
    table->list[1].here = true;
    change("b* c d e ");
    table->list[1].here = false;
    change("c d e f* ");
}

static void without_a_batch_script_there_is_no_will(void **state)
{
    setenv("ENVIRONMENT", "INTERACTIVE", 1);
    dlr_sup_will_open(&s);
    dlr_sup_will_changed(&s);
    tick("");
    setenv("ENVIRONMENT", "BATCH", 1);
    s.conf.takeover = false; /* nobody has asked for it */
    dlr_sup_will_open(&s);
    tick("");
}

static void silence(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        table->list[i].heard_ms = now_ms - 10000;
}

static void without_a_will_nobody_looks(void **state)
{
    s.conf.takeover = false;
    file = "3 1 b\n";
    silence(NODES);
    assert_false(dlr_sup_is_deposed(&s));
    assert_int_equal(looks, 0);
}

static void while_most_are_heard_nobody_looks(void **state)
{
    file = "3 1 b\n";
    silence(2);
    assert_false(dlr_sup_is_deposed(&s));
    assert_int_equal(looks, 0);
}

static void a_successor_of_this_incarnation_deposes(void **state)
{
    silence(3); /* half of the others */
    assert_false(dlr_sup_is_deposed(&s));
    assert_int_equal(looks, 1);
    file = "3 1 b\n";
    assert_false(dlr_sup_is_deposed(&s)); /* it was looked for a moment ago */
    now_ms += 1000;
    assert_int_equal(bars, 0);
    assert_true(dlr_sup_is_deposed(&s));
    assert_int_equal(bars, 1);
    silence(0);
    file = NULL;
    assert_true(dlr_sup_is_deposed(&s)); /* for good */
}

static void what_is_no_successor_deposes_nobody(void **state)
{
    static const char *const texts[] = {"2 1 b\n", "3 0 b\n", "", "3 1", "x"};

    silence(6);
    for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        file = texts[i];
        now_ms += 1000;
        assert_false(dlr_sup_is_deposed(&s));
        assert_int_equal(looks, i + 1);
    }
    s.nth = 1; /* we have written it ourselves */
    file = "3 1 a\n";
    now_ms += 1000;
    assert_false(dlr_sup_is_deposed(&s));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(the_four_lowest_get_the_will_and_what_changes),
        T(what_changes_makes_the_state_of_now),
        T(who_has_missed_a_change_gets_the_whole_state),
        T(without_a_batch_script_there_is_no_will),
        T(without_a_will_nobody_looks),
        T(while_most_are_heard_nobody_looks),
        T(a_successor_of_this_incarnation_deposes),
        T(what_is_no_successor_deposes_nobody),
    };

    return cmocka_run_group_tests_name("succession", tests, NULL, NULL);
}
