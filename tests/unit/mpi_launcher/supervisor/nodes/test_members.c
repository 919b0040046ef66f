/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's table of nodes: what a hello may and may not say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/wire/heartbeat.h"

static char *const names[] = {"n1", "n2", "n3"};

static struct dlr_members table(void)
{
    struct dlr_members m = {0};
    struct dlr_err err;

    assert_int_equal(dlr_members_new(names, 3, &m, &err), 0);
    return m;
}

static struct dlr_packet packet_from(const char *id)
{
    struct dlr_packet p = {0};

    p.from.size = strlen(id);
    memcpy(p.from.id, id, strlen(id));
    memset(p.key, 'k', sizeof(p.key) - 1);
    return p;
}

static json_t *hello(const char *node)
{
    return json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:s}", "v", 1, "t", "hello",
                     "node", node, "boot", "b-1", "topo", "spine.leaf0.n2", "addr",
                     "10.0.0.2:7000", "key", "peerkey", "data", "0aFF", "cpus", 4,
                     "hosts", "10.0.0.2");
}

static void hello_fills_the_row_of_its_node(void **state)
{
    struct dlr_members m = table();
    struct dlr_packet p = packet_from("abc");
    DLR_AUTO_JSON json_t *msg = hello("n2");
    struct dlr_err err;

    assert_int_equal(dlr_members_by_route(&m, &p.from), -ENOENT);
    assert_int_equal(dlr_members_hello(&m, msg, &p, 50, &err), 1);
    assert_int_equal(dlr_members_by_route(&m, &p.from), 1);
    assert_true(m.list[1].here);
    assert_string_equal(m.list[1].node.path, "spine.leaf0.n2");
    assert_string_equal(m.list[1].data, "0aFF");
    assert_string_equal(m.list[1].hosts, "10.0.0.2");
    assert_int_equal(m.list[1].heard_ms, 50);
    assert_int_equal(m.list[1].step_max, DLR_HEARTBEAT_NO_STEP);
    dlr_members_done(&m);
}

static void the_jobs_tree_goes_before_a_nodes_word(void **state)
{
    struct dlr_members m = table();
    struct dlr_packet p = packet_from("abc");
    DLR_AUTO_JSON json_t *msg = hello("n2");
    struct dlr_err err;

    m.list[1].mapped = true;
    snprintf(m.list[1].node.path, sizeof(m.list[1].node.path), "top.rack7.n2");
    assert_int_equal(dlr_members_hello(&m, msg, &p, 50, &err), 1);
    assert_string_equal(m.list[1].node.path, "top.rack7.n2");
    dlr_members_done(&m);
}

/* As long as DNS allows a label and a name. */
static void nodes_have_long_names(void **state)
{
    char one[64], other[256], path[300], addr[300];
    char *const both[] = {one, other};
    struct dlr_packet p = packet_from("abc");
    struct dlr_members m = {0};
    struct dlr_err err;

    memset(one, 'a', sizeof(one));
    memset(other, 'b', sizeof(other));
    one[sizeof(one) - 1] = other[sizeof(other) - 1] = '\0';
    assert_int_equal(dlr_members_new(both, 2, &m, &err), 0);
    for (int i = 0; i < 2; i++) {
        DLR_AUTO_JSON json_t *msg = hello(both[i]);

        snprintf(path, sizeof(path), "spine.leaf0.%s", both[i]);
        snprintf(addr, sizeof(addr), "%s:65535", both[i]);
        json_object_set_new(msg, "topo", json_string(path));
        json_object_set_new(msg, "addr", json_string(addr));
        assert_int_equal(dlr_members_hello(&m, msg, &p, 50, &err), i);
        assert_string_equal(m.list[i].node.name, both[i]);
        assert_string_equal(m.list[i].node.path, path);
        assert_string_equal(m.list[i].addr, addr);
    }
    dlr_members_done(&m);
}

static void second_hello_moves_the_route(void **state)
{
    struct dlr_members m = table();
    struct dlr_packet old = packet_from("abc"), new = packet_from("xyz");
    DLR_AUTO_JSON json_t *msg = hello("n2");
    struct dlr_err err;

    assert_int_equal(dlr_members_hello(&m, msg, &old, 1, &err), 1);
    assert_int_equal(dlr_members_hello(&m, msg, &new, 2, &err), 1);
    assert_int_equal(dlr_members_by_route(&m, &old.from), -ENOENT);
    assert_int_equal(dlr_members_by_route(&m, &new.from), 1);
    dlr_members_done(&m);
}

static char too_long[5000];

static const struct {
    const char *what, *key, *value; /* value NULL: the field is taken out */
} bad[] = {
    {"node of another job", "node", "n9"},
    {"no node", "node", NULL},
    {"no boot id", "boot", NULL},
    {"long boot id", "boot", too_long},
    {"no switch path", "topo", NULL},
    {"long switch path", "topo", too_long},
    {"no address", "addr", NULL},
    {"long address", "addr", too_long},
    {"no key", "key", NULL},
    {"long key", "key", too_long},
    {"data not hex", "data", "xyz"},
};

static void bad_hello_changes_nothing(void **state)
{
    struct dlr_members m = table();
    struct dlr_packet p = packet_from("abc");
    struct dlr_err err;

    memset(too_long, 'a', sizeof(too_long) - 1);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        DLR_AUTO_JSON json_t *msg = hello("n2");

        print_message("%s\n", bad[i].what);
        json_object_del(msg, bad[i].key);
        if (bad[i].value)
            json_object_set_new(msg, bad[i].key, json_string(bad[i].value));
        assert_int_equal(dlr_members_hello(&m, msg, &p, 1, &err), -EBADMSG);
        assert_false(m.list[1].here);
        assert_int_equal(dlr_members_by_route(&m, &p.from), -ENOENT);
    }
    dlr_members_done(&m);
}

static void newest_step_is_the_rounds_own(void **state)
{
    struct dlr_members m = table();

    assert_int_equal(dlr_members_step(&m, 0), DLR_HEARTBEAT_NO_STEP);
    m.list[0].round = 2;
    m.list[0].step_max = 7;
    m.list[1].round = 1; /* of an older round, further on */
    m.list[1].step_max = 90;
    m.list[2].round = 2;
    m.list[2].step_max = 9;
    assert_int_equal(dlr_members_step(&m, 2), 9);
    assert_int_equal(dlr_members_step(&m, 1), 90);
    assert_int_equal(dlr_members_step(&m, 3), DLR_HEARTBEAT_NO_STEP);
    dlr_members_done(&m);
}

static void long_names_are_refused(void **state)
{
    static char name[600];
    char *const list[] = {name};
    struct dlr_members m = {0};
    struct dlr_err err;

    memset(name, 'n', sizeof(name) - 1);
    assert_int_equal(dlr_members_new(list, 1, &m, &err), -ENAMETOOLONG);
    dlr_members_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_fills_the_row_of_its_node),
        cmocka_unit_test(the_jobs_tree_goes_before_a_nodes_word),
        cmocka_unit_test(nodes_have_long_names),
        cmocka_unit_test(second_hello_moves_the_route),
        cmocka_unit_test(bad_hello_changes_nothing),
        cmocka_unit_test(newest_step_is_the_rounds_own),
        cmocka_unit_test(long_names_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
