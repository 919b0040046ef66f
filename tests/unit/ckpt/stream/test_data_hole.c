/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-data */
/* A network that swallows what is sent and says nothing, between two dlrover-data
 * processes that have a network namespace each: either side sends to a hardware address
 * that nobody has.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/stream/data_pair.h"

#define LIMIT "--answer-timeout=1500ms" /* a connection is silent 2 s later */
#define NOTHING "nothing gets through: Connection timed out"

static const struct dlr_version v6 = {ROUND, 6}, v7 = {ROUND, 7}, v8 = {ROUND, 8};

/* Runs a command on both sides: "A" in it is the side's own number, "B" the other's;
 * its namespace is called "sideA".
 */
static bool both(const char *words)
{
    for (unsigned side = 1; side <= 2; side++) {
        char command[512] = "", *to = command;

        for (const char *at = words; *at && to < command + sizeof(command) - 64; at++)
            if (*at == 'A' || *at == 'B')
                to += sprintf(to, "%u", *at == 'A' ? side : 3 - side);
            else
                *to++ = *at;
        if (system(command) != 0) /* NOLINT: words of ours */
            return false;
    }
    return true;
}

static bool usable; /* there are namespaces */

static void dig_hole(void)
{
    assert_true(both("ip -n sideA neigh replace 10.98.0.B lladdr 02:00:00:00:00:99 "
                     "dev v0 nud permanent"));
}

static void fill_hole(void)
{
    assert_true(both("ip -n sideA neigh replace 10.98.0.B lladdr 02:00:00:00:00:0B "
                     "dev v0 nud permanent"));
}

/* Where namespaces have their names is a mount of this process and its children:
 * however they end, nothing is left.
 */
static bool have_names(void)
{
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           (mkdir("/run/netns", 0755) == 0 || errno == EEXIST) &&
           mount("none", "/run/netns", "tmpfs", 0, NULL) == 0;
}

/* Skipped where that is not allowed, or there is no ip(8); what fails then is a
 * failure.
 */
static int make_networks(void)
{
    static const char link[] =
        "ip -n side1 link add v0 type veth peer name v0 netns side2";

    usable = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && both("ip -V >/dev/null");
    if (!usable)
        return 0;
    return have_names() && both("ip netns add sideA") &&
                   system(link) == 0 && /* NOLINT: words of ours */
                   both("ip -n sideA link set lo up && "
                        "ip -n sideA link set v0 address 02:00:00:00:00:0A up && "
                        "ip -n sideA addr add 10.98.0.A/24 dev v0")
               ? 0
               : -1;
}

static void start(struct rig_data *p, unsigned side)
{
    char program[4096], script[] = "/tmp/dlr-hole-XXXXXX";
    int fd = mkstemp(script);

    assert_true(fd >= 0);
    assert_int_equal(
        dlr_install_path_sibling("../dlrover-data", program, sizeof(program)), 0);
    dprintf(fd, "#!/bin/sh\nexec ip netns exec side%u %s \"$@\"\n", side, program);
    fchmod(fd, 0700);
    close(fd);
    rig_start_program(p, script, NULL, LIMIT);
    unlink(script);
}

static void up(struct pair *p, uint64_t data)
{
    if (!usable) {
        print_message("no network namespaces here\n");
        skip();
    }
    fill_hole();
    start(&p->from, 1);
    start(&p->to, 2);
    pair_fill(p, data);
}

static void expect_given_up(struct pair *p, uint64_t id)
{
    char why[256];

    assert_int_equal(rig_done(&p->from, id, why, sizeof(why)), ETIMEDOUT);
    assert_string_equal(why, NOTHING);
}

struct ports {
    unsigned port[8], n;
};

/* This side's ports of the connections that p has. */
static struct ports connections(const struct rig_data *p)
{
    struct ports all = {0};
    char path[64], line[512];
    unsigned port, state;
    FILE *f;

    dlr_format(path, sizeof(path), "/proc/%d/net/tcp", (int)p->pid);
    f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) && all.n < 8)
        if (sscanf(line, " %*u: %*x:%x %*s %x", &port, &state) == 2 &&
            state == TCP_ESTABLISHED)
            all.port[all.n++] = port;
    fclose(f);
    return all;
}

/* Sockets of the side's network that listen, and those of them at lo's or at any
 * address.
 */
static unsigned listeners(const struct rig_data *p, unsigned *ret_wide)
{
    unsigned address, state, n = 0;
    char path[64], line[512];
    FILE *f;

    *ret_wide = 0;
    for (unsigned k = 0; k < 2; k++) {
        dlr_format(path, sizeof(path), "/proc/%d/net/tcp%s", (int)p->pid, k ? "6" : "");
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f)) {
            if (sscanf(line, " %*u: %8x%*s %*s %x", &address, &state) != 2)
                continue;
            n += state == TCP_LISTEN;
            *ret_wide +=
                state == TCP_LISTEN && (address == 0 || (address & 0xff) == 127);
        }
        if (f)
            fclose(f);
    }
    return n;
}

/* UCX is not there to obey a stranger, and nothing listens beside the network that was
 * given.
 */
static void only_the_sealed_stream_listens(void **state)
{
    bool sealed = !dlr_streq(getenv(RIG_TRANSPORT), "ucx");
    unsigned wide;
    struct pair p;

    if (sealed)
        unsetenv(RIG_TRANSPORT); /* as nobody asks for it, where there is no RDMA */
    up(&p, MIB);
    setenv(RIG_TRANSPORT, sealed ? "stream" : "ucx", 1);
    pair_send(&p, v7, 1);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    assert_true((listeners(&p.from, &wide) == 1) ==
                sealed); /* UCX has one for bulk, too */
    assert_true(!sealed || wide == 0);
    assert_true(!sealed || (listeners(&p.to, &wide) == 1 && wide == 0));
    pair_down(&p);
}

/* Who calls from a node of the job before that is known is heard then, and loses
 * nothing.
 */
static void only_the_jobs_nodes_are_heard(void **state)
{
    struct pair p;

    up(&p, MIB);
    p.to.hosts = "[\"10.98.0.77\",\"fe80::77\"]";
    rig_config(&p.to, ROUND, RIG_TOKEN, "[2,3]");
    pair_settle(&p.to);
    pair_send(&p, v7, 1);
    assert_true(rig_silent(&p.from, 300));
    assert_false(pair_any_whole(&p));
    p.to.hosts = "[\"10.98.0.77\",\"10.98.0.1\"]";
    rig_config(&p.to, ROUND, RIG_TOKEN, "[2,3]");
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    pair_down(&p);
}

static bool has_another(struct ports now, struct ports before)
{
    for (unsigned i = 0; i < now.n; i++) {
        unsigned k = 0;

        while (k < before.n && before.port[k] != now.port[i])
            k++;
        if (k == before.n)
            return true;
    }
    return false;
}

/* Sends v8, with this id and those after it: TCP of the other side may have put off
 * what it says next for longer than a copy waits. Then it is sent once more, as a
 * supervisor has the next version sent.
 */
static void expect_sent(struct pair *p, uint64_t id)
{
    int rc = ETIMEDOUT;

    for (unsigned tries = 0; rc == ETIMEDOUT && tries < 3; tries++, id++) {
        pair_send(p, v8, id);
        rc = rig_done(&p->from, id, NULL, 0);
    }
    assert_int_equal(rc, 0);
}

/* On a connection that worked, then on one that is not made. A transfer behind the hole
 * has a new one, which does not wait for what TCP will try again.
 */
static void copies_are_given_up_and_go_on_afterwards(void **state)
{
    struct dlr_slot *src8;
    struct ports before;
    struct pair p;

    up(&p, 2 * MIB);
    pair_send(&p, v7, 1);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    before = connections(&p.from);
    src8 = rig_slot(&p.from, RANK, 1);
    rig_snapshot(src8, RANK, v8, p.data);
    dig_hole();
    pair_send(&p, v8, 2);
    expect_given_up(&p, 2);
    pair_send(&p, v8, 3);
    expect_given_up(&p, 3);
    fill_hole();
    expect_sent(&p, 4);
    assert_true(before.n > 0 && has_another(connections(&p.from), before));
    pair_expect_copy(&p, src8);
    dlr_slot_unmap(src8);
    pair_down(&p);
}

static void wait_for_state(struct pair *p, unsigned k, enum dlr_slot_state state)
{
    int64_t limit = dlr_now_ms() + RIG_ANSWER_MS;

    while (dlr_slot_state(p->dst[k]) != state) {
        assert_true(dlr_now_ms() < limit);
        assert_true(rig_silent(&p->to, 5));
    }
}

/* A copy of v7 that takes 6 s is on its way to slot 0; the other slot is taken. */
static void be_midway(struct pair *p)
{
    up(p, 64 * MIB);
    assert_true(both("tc -n sideA qdisc replace dev v0 root tbf rate 80mbit burst 64k "
                     "latency 50ms"));
    rig_snapshot(p->dst[1], RANK, v6, p->data);
    rig_order(&p->to, DLR_LOCAL_D_COMMIT, ROUND, -1, v6, 0, "");
    pair_settle(&p->to);
    pair_send(p, v7, 1);
    wait_for_state(p, 0, DLR_SLOT_OPEN);
}

static void expect_next(struct pair *p)
{
    struct dlr_slot *src8 = rig_slot(&p->from, RANK, 1);

    assert_true(both("tc -n sideA qdisc del dev v0 root"));
    rig_snapshot(src8, RANK, v8, p->data);
    expect_sent(p, 2);
    pair_expect_copy(p, src8);
    dlr_slot_unmap(src8);
}

static void a_copy_that_is_stuck_gives_its_slot_back_when_aborted(void **state)
{
    struct pair p;

    be_midway(&p);
    assert_true(rig_silent(&p.from, 100)); /* blocks are on their way */
    dig_hole();
    expect_given_up(&p, 1);
    assert_int_equal(dlr_slot_state(p.dst[0]), DLR_SLOT_OPEN);
    rig_order(&p.to, DLR_LOCAL_D_ABORT, ROUND, -1, v7, 0, "");
    wait_for_state(&p, 0, DLR_SLOT_DEAD);
    fill_hole();
    expect_next(&p);
    pair_down(&p);
}

/* The network is whole: what is in flight arrives, and the connection lives. */
static void nothing_more_is_sent_of_a_version_that_is_decided_against(void **state)
{
    struct pair p;
    char why[256];

    be_midway(&p);
    rig_order(&p.from, DLR_LOCAL_D_ABORT, ROUND, -1, v7, 0, "");
    assert_int_equal(rig_done(&p.from, 1, why, sizeof(why)), ECANCELED);
    assert_string_equal(why, "the version was decided against: Operation canceled");
    rig_order(&p.to, DLR_LOCAL_D_ABORT, ROUND, -1, v7, 0, "");
    wait_for_state(&p, 0, DLR_SLOT_DEAD);
    expect_next(&p);
    pair_down(&p);
}

int main(int argc, char **argv)
{
    int rc;

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_sealed_stream_listens),
        cmocka_unit_test(only_the_jobs_nodes_are_heard),
        cmocka_unit_test(copies_are_given_up_and_go_on_afterwards),
        cmocka_unit_test(a_copy_that_is_stuck_gives_its_slot_back_when_aborted),
        cmocka_unit_test(nothing_more_is_sent_of_a_version_that_is_decided_against),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    setenv("UCX_TLS", "tcp,self", 1); /* shared memory would hide the network */
    rc = make_networks();
    return rc < 0 ? 1 : RIG_RUN(tests);
}
