/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a node's snapshots alone: its data process is played, its workers are
 * sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/store.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/data/data_process.h"
#include "mpi_launcher/agent/snapshots/fetch.h"
#include "mpi_launcher/agent/snapshots/orders.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/snapshots/save.h"

#define BYTES 65536

static struct rig {
    struct dlr_agent_snapshots *snapshots;
    struct dlr_agent_self self;
    struct dlr_agent_round round;
    struct dlr_agent_node node;
    int32_t ranks[1];
    struct dlr_agent_conn conn;
    int worker; /* the other end of it */
    char dir[64];
    char said[2048];  /* types of what the supervisor hears */
    char asked[256];  /* types of what the data process is asked for */
    char heard[256];  /* events */
    bool no_data;     /* there is no data process */
    unsigned started; /* requests */
} rig;

/* --- instead of other engines ----------------------------------------------------- */

static void note(char *list, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void note(char *list, size_t size, const char *fmt, ...)
{
    size_t at = strlen(list);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(list + at, size - at, fmt, ap);
    va_end(ap);
}

void dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg)
{
    note(rig.said, sizeof(rig.said), "%s;",
         json_string_value(json_object_get(msg, "t")));
    json_decref(msg);
}

void dlr_agent_peers_send(struct dlr_agent_base *base, const char *node, json_t *msg)
{
    json_decref(msg);
}

bool dlr_agent_data_runs(const struct dlr_agent_data *d)
{
    return !rig.no_data;
}

bool dlr_agent_data_comes(const struct dlr_agent_data *d)
{
    return !rig.no_data;
}

const char *dlr_agent_data_address(const struct dlr_agent_data *d)
{
    return rig.no_data ? "" : "here";
}

pid_t dlr_agent_data_pid(const struct dlr_agent_data *d)
{
    return getpid();
}

void dlr_agent_data_send(struct dlr_agent_data *d, const struct dlr_local_msg *msg)
{
    note(rig.asked, sizeof(rig.asked), "%s;",
         msg->type == DLR_LOCAL_D_RESERVE  ? "reserve"
         : msg->type == DLR_LOCAL_D_COMMIT ? "commit"
         : msg->type == DLR_LOCAL_D_ABORT  ? "abort"
                                           : "?");
}

void dlr_agent_data_config(struct dlr_agent_data *d)
{
    note(rig.asked, sizeof(rig.asked), "config;");
}

void dlr_agent_data_round(struct dlr_agent_data *d, bool drop)
{
    note(rig.asked, sizeof(rig.asked), "round%s;", drop ? " drop" : "");
}

void dlr_agent_data_request(struct dlr_agent_data *d, const struct dlr_agent_request *q)
{
    rig.started++;
    q->done(q->arg, -EIO, "no network");
}

/* --- events ----------------------------------------------------------------------- */

static void on_reserved(void *arg, int32_t rank, int rc, const char *why)
{
    assert_ptr_equal(arg, &rig);
    note(rig.heard, sizeof(rig.heard), "reserved %d %d;", (int)rank, rc);
}

static void on_page(void *arg, struct dlr_page *page)
{
    note(rig.heard, sizeof(rig.heard), "page of %d;", (int)page->rank);
}

static void each_task(void *arg, void (*fn)(void *fn_arg, pid_t pid), void *fn_arg)
{
}

static const struct dlr_agent_snapshots_ops ops = {
    .reserved = on_reserved, .page = on_page, .tasks = each_task};

/* ---------------------------------------------------------------------------------- */

/* Rank 4 runs here, in round 2. */
static int setup(void **state)
{
    int pair[2];

    rig = (struct rig){.ranks = {4}, .dir = "/dev/shm/dlr-test-snapshots.XXXXXX"};
    if (!mkdtemp(rig.dir) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    rig.worker = pair[1];
    rig.conn = (struct dlr_agent_conn){
        .fd = pair[0], .pid = 77, .kind = DLR_CONN_WORKER, .round = 2, .rank = 4};
    dlr_job_config_init(&rig.self.job);
    dlr_format(rig.self.node, sizeof(rig.self.node), "n1");
    rig.self.dir_fd = open(rig.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rig.node = (struct dlr_agent_node){.name = "n1", .ranks = rig.ranks, .nranks = 1};
    rig.round = (struct dlr_agent_round){
        .known = true, .round = 2, .nodes = &rig.node, .nnodes = 1};
    rig.snapshots =
        dlr_agent_snapshots_new(NULL, &rig.self, &rig.round, NULL, &ops, &rig);
    dlr_agent_ranks_round(rig.snapshots);
    return rig.snapshots ? 0 : -1;
}

static int teardown(void **state)
{
    struct dlr_err err;

    rig.snapshots = dlr_agent_snapshots_free(rig.snapshots);
    close(rig.conn.fd);
    close(rig.worker);
    close(rig.self.dir_fd);
    return dlr_store_remove(rig.dir, &err);
}

/* What the worker was sent; descriptors are closed. */
static struct dlr_local_msg receive(unsigned *ret_fds)
{
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS];

    *ret_fds = 0;
    assert_true(dlr_local_recv(rig.worker, &m, fds, ret_fds) > 0);
    for (unsigned i = 0; i < *ret_fds; i++)
        close(fds[i]);
    return m;
}

static void make_slots(void)
{
    struct dlr_err err;

    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++) {
        struct dlr_slot *slot = NULL;
        char name[64];

        dlr_store_name(4, k, name, sizeof(name));
        assert_int_equal(dlr_slot_create(rig.self.dir_fd, name, BYTES, &slot, &err), 0);
        dlr_slot_unmap(slot);
    }
}

static void hello(void)
{
    unsigned fds;

    dlr_agent_ranks_hello(rig.snapshots, &rig.conn);
    assert_int_equal(receive(&fds).type, DLR_LOCAL_WELCOME);
    assert_int_equal(fds, 1); /* its page */
}

static void a_worker_is_welcomed_once_with_a_page(void **state)
{
    assert_true(dlr_agent_ranks_expects(rig.snapshots, 4));
    assert_false(dlr_agent_ranks_expects(rig.snapshots, 5));
    hello();
    assert_string_equal(rig.heard, "page of 4;");
    assert_false(dlr_agent_ranks_expects(rig.snapshots, 4));
    assert_true(dlr_agent_ranks_serves(rig.snapshots, &rig.conn));
    dlr_agent_ranks_leave(rig.snapshots, &rig.conn);
    dlr_agent_ranks_gone(rig.snapshots, &rig.conn);
    assert_false(dlr_agent_ranks_serves(rig.snapshots, &rig.conn));
    assert_int_equal(dlr_agent_ranks_left(rig.snapshots, 4), 77);
    dlr_agent_ranks_reopen(rig.snapshots, 4);
    assert_true(dlr_agent_ranks_expects(rig.snapshots, 4));
}

static void slots_are_asked_of_the_data_process(void **state)
{
    struct dlr_local_msg m;
    unsigned fds;

    hello();
    dlr_agent_ranks_reserve(rig.snapshots, 4, BYTES, true);
    assert_string_equal(rig.asked, "reserve;");
    make_slots();
    dlr_agent_snapshots_reserved(rig.snapshots, 4, 0, 0, "");
    m = receive(&fds);
    assert_int_equal(m.type, DLR_LOCAL_SLOTS);
    assert_int_equal(m.arg[0], fds);
    assert_true(fds >= DLR_STORE_SLOTS);
    assert_string_equal(rig.heard, "page of 4;reserved 4 0;");
    assert_string_equal(rig.said, "ready;");
}

static void without_one_the_worker_is_told_why(void **state)
{
    struct dlr_local_msg m;
    unsigned fds;

    hello();
    rig.no_data = true;
    dlr_agent_ranks_reserve(rig.snapshots, 4, BYTES, true);
    m = receive(&fds);
    assert_int_equal(m.type, DLR_LOCAL_SLOTS);
    assert_int_equal(m.arg[0], 0);
    assert_string_equal(m.text, "no data process on this node");
    assert_string_equal(rig.said, "no_slots;");
}

static void an_order_of_a_round_before_is_answered_and_not_carried_out(void **state)
{
    DLR_AUTO_JSON json_t *msg =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:s}", "id", 1, "round", 1, "rank", 4,
                  "vround", 1, "step", 10, "data", "there");

    assert_int_equal(dlr_agent_order(rig.snapshots, msg, DLR_LOCAL_D_SEND, "data"), 0);
    assert_int_equal(rig.started, 0);
    json_object_set_new(msg, "round", json_integer(2));
    assert_int_equal(dlr_agent_order(rig.snapshots, msg, DLR_LOCAL_D_SEND, "data"), 0);
    assert_int_equal(rig.started, 1);
    assert_string_equal(rig.said, "done;done;");
    json_object_del(msg, "data");
    assert_int_equal(dlr_agent_order(rig.snapshots, msg, DLR_LOCAL_D_SEND, "data"),
                     -EBADMSG);
}

static void a_turn_forgets_what_is_open(void **state)
{
    DLR_AUTO_JSON json_t *told = json_object();

    dlr_agent_save_at(rig.snapshots, 10);
    dlr_agent_save_round_state(rig.snapshots, told);
    assert_int_equal(json_array_size(json_object_get(told, "open")), 1);
    assert_int_equal(dlr_agent_save_ordered(rig.snapshots), 10);
    dlr_agent_snapshots_turn(rig.snapshots);
    dlr_agent_save_round_state(rig.snapshots, told);
    assert_int_equal(json_array_size(json_object_get(told, "open")), 0);
    assert_int_equal(dlr_agent_save_ordered(rig.snapshots), 0);
}

static void a_new_data_process_hears_what_was_decided(void **state)
{
    dlr_agent_save_at(rig.snapshots, 10);
    dlr_agent_save_commit(rig.snapshots, 10);
    dlr_agent_save_at(rig.snapshots, 20);
    dlr_agent_save_abort(rig.snapshots, 20);
    rig.asked[0] = '\0';
    dlr_agent_snapshots_data_ready(rig.snapshots);
    assert_string_equal(rig.asked, "round;commit;abort;");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_worker_is_welcomed_once_with_a_page),
        T(slots_are_asked_of_the_data_process),
        T(without_one_the_worker_is_told_why),
        T(an_order_of_a_round_before_is_answered_and_not_carried_out),
        T(a_turn_forgets_what_is_open),
        T(a_new_data_process_hears_what_was_decided),
    };

    return cmocka_run_group_tests_name("agent_snapshots", tests, NULL, NULL);
}
