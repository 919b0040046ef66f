/* SPDX-License-Identifier: Apache-2.0 */
/* The other agents as an agent knows them: whole lists, changes, and what is malformed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/data/own_hosts.h"
#include "mpi_launcher/wire/peer_list.h"

static unsigned forgotten;

static void forget(void *arg, struct dlr_client *client)
{
    forgotten++;
}

static int take(struct dlr_peer_list *list, const char *text)
{
    DLR_AUTO_JSON json_t *msg = json_loads(text, 0, NULL);

    assert_non_null(msg);
    return dlr_peer_list_take(list, msg, forget, NULL);
}

static void show(const struct dlr_peer_list *list, char *buf, size_t size)
{
    size_t n = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < list->n; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s=%s/%s ", list->all[i].node,
                              list->all[i].addr, list->all[i].key);
    for (unsigned i = 0; i < list->ngone; i++)
        n += (size_t)snprintf(buf + n, size - n, "-%s ", list->gone[i]);
}

static const struct {
    const char *what, *text, *after;
    int rc;
} rows[] = {
    {"changes before a list", "{\"peers\":[[\"n9\",\"a9\",\"k9\"]]}", "n9=a9/k9 ", 0},
    {"a list, in any order",
     "{\"whole\":true,\"peers\":[[\"n3\",\"a3\",\"k3\"],[\"n1\",\"a1\",\"k1\"]]}",
     "n1=a1/k1 n3=a3/k3 ", 0},
    {"one more", "{\"peers\":[[\"n2\",\"a2\",\"k2\"]],\"gone\":[]}",
     "n1=a1/k1 n2=a2/k2 n3=a3/k3 ", 0},
    {"another address", "{\"peers\":[[\"n2\",\"b2\",\"k2\"]]}",
     "n1=a1/k1 n2=b2/k2 n3=a3/k3 ", 0},
    {"two leave, one of them unknown", "{\"peers\":[],\"gone\":[\"n7\",\"n1\"]}",
     "n2=b2/k2 n3=a3/k3 -n1 ", 0},
    {"one leaves, one comes", "{\"peers\":[[\"n4\",\"a4\",\"k4\"]],\"gone\":[\"n2\"]}",
     "n3=a3/k3 n4=a4/k4 -n1 -n2 ", 0},
    {"no rows", "{\"gone\":[\"n3\"]}", "n3=a3/k3 n4=a4/k4 -n1 -n2 ", -EBADMSG},
    {"a row without a key", "{\"peers\":[[\"n5\",\"a\"]]}",
     "n3=a3/k3 n4=a4/k4 -n1 -n2 ", -EBADMSG},
    {"a row of the former form", "{\"peers\":[{\"node\":\"n5\"}]}",
     "n3=a3/k3 n4=a4/k4 -n1 -n2 ", -EBADMSG},
    {"a node twice", "{\"peers\":[[\"n5\",\"a\",\"k\"],[\"n5\",\"b\",\"k\"]]}",
     "n3=a3/k3 n4=a4/k4 -n1 -n2 ", -EBADMSG},
    {"a name that is a number", "{\"peers\":[],\"gone\":[3]}",
     "n3=a3/k3 n4=a4/k4 -n1 -n2 ", -EBADMSG},
    {"names that are none", "{\"peers\":[],\"gone\":\"n3\"}",
     "n3=a3/k3 n4=a4/k4 -n1 -n2 ", -EBADMSG},
    {"a row whose addresses are a number",
     "{\"whole\":true,\"peers\":[[\"n3\",\"a3\",\"k3\",7]]}", "n3=a3/k3 -n1 -n2 ", 0},
    {"one comes back", "{\"peers\":[[\"n1\",\"a1\",\"k1\"]]}", "n1=a1/k1 n3=a3/k3 -n2 ",
     0},
    {"nobody", "{\"whole\":true,\"peers\":[]}", "-n2 ", 0},
};

static void messages_make_the_list(void **state)
{
    struct dlr_peer_list list = {0};
    char text[512];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("%s\n", rows[i].what);
        assert_int_equal(take(&list, rows[i].text), rows[i].rc);
        show(&list, text, sizeof(text));
        assert_string_equal(text, rows[i].after);
    }
    dlr_peer_list_done(&list);
}

static void names_are_found(void **state)
{
    struct dlr_peer_list list = {0};

    assert_null(dlr_peer_list_find(&list, "n1"));
    assert_int_equal(take(&list, "{\"whole\":true,\"peers\":[[\"n3\",\"a\",\"k3\"],"
                                 "[\"n1\",\"a\",\"k1\"],[\"n10\",\"a\",\"k10\"]]}"),
                     0);
    assert_string_equal(dlr_peer_list_find(&list, "n10")->key, "k10");
    assert_string_equal(dlr_peer_list_find(&list, "n1")->key, "k1");
    assert_null(dlr_peer_list_find(&list, "n2"));
    dlr_peer_list_done(&list);
}

/* They are told anew of a peer that stays. */
static void addresses_of_a_peer_are_those_told_last(void **state)
{
    struct dlr_peer_list list = {0};

    assert_int_equal(take(&list, "{\"whole\":true,\"peers\":[[\"n1\",\"a\",\"k\"],"
                                 "[\"n2\",\"a\",\"k2\",\"10.0.0.2\"]]}"),
                     0);
    assert_null(dlr_host_words_of(&list)); /* n1 has not told */
    assert_int_equal(
        take(&list, "{\"peers\":[[\"n1\",\"a\",\"k\",\"10.0.0.1,fe80::1\"]]}"), 0);
    {
        DLR_AUTO_JSON json_t *hosts = dlr_host_words_of(&list);
        DLR_AUTO_FREE char *text = json_dumps(hosts, JSON_COMPACT);

        assert_string_equal(text, "[\"10.0.0.1\",\"fe80::1\",\"10.0.0.2\"]");
    }
    dlr_peer_list_done(&list);
}

/* What does not fit is not told in part: who is left out would not be heard. */
static void own_addresses_are_told_all_or_none(void **state)
{
    char text[DLR_PEER_HOSTS], one[4];

    dlr_own_hosts(text, sizeof(text));
    dlr_own_hosts(one, sizeof(one));
    assert_string_equal(one, "");
    assert_null(strstr(text, "127.0.0.1"));
}

/* As long as DNS allows a name, and one more. */
static void nodes_have_long_names(void **state)
{
    struct dlr_peer_list list = {0};
    char name[257], text[700];

    memset(name, 'b', sizeof(name));
    name[255] = '\0';
    snprintf(text, sizeof(text),
             "{\"whole\":true,\"peers\":[[\"%s\",\"%s:65535\",\"k\"]]}", name, name);
    assert_int_equal(take(&list, text), 0);
    assert_string_equal(dlr_peer_list_find(&list, name)->node, name);
    name[255] = 'b';
    name[256] = '\0';
    snprintf(text, sizeof(text), "{\"whole\":true,\"peers\":[[\"%s\",\"a\",\"k\"]]}",
             name);
    assert_int_equal(take(&list, text), -EBADMSG);
    dlr_peer_list_done(&list);
}

/* An election speaks to them: what did not change keeps its connection. */
static void who_stays_keeps_its_connection(void **state)
{
    static char mark[3];
    struct dlr_peer_list list = {0};

    forgotten = 0;
    take(&list, "{\"whole\":true,\"peers\":[[\"n1\",\"a\",\"k\"],[\"n2\",\"a\",\"k\"],"
                "[\"n3\",\"a\",\"k\"]]}");
    for (unsigned i = 0; i < 3; i++)
        list.all[i].client = (struct dlr_client *)&mark[i];
    take(&list, "{\"peers\":[[\"n2\",\"b\",\"k\"]],\"gone\":[]}");
    assert_int_equal(forgotten, 1);
    assert_null(list.all[1].client);
    take(&list,
         "{\"whole\":true,\"peers\":[[\"n1\",\"a\",\"k\"],[\"n2\",\"b\",\"k\"]]}");
    assert_int_equal(forgotten, 2);
    assert_ptr_equal(list.all[0].client, &mark[0]);
    dlr_peer_list_done(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_make_the_list),
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(addresses_of_a_peer_are_those_told_last),
        cmocka_unit_test(own_addresses_are_told_all_or_none),
        cmocka_unit_test(nodes_have_long_names),
        cmocka_unit_test(who_stays_keeps_its_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
