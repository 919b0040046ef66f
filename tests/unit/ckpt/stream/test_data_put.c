/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-data */
/* Where UCX listens, and what a stranger gains who has it write into the process. */
#include <arpa/inet.h>
#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "ckpt/transport/nic.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/stream/data_pair.h"

static bool holds_socket(pid_t pid, unsigned inode)
{
    char path[320], link[64] = "", want[64];
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    struct dirent *e;

    dlr_format(want, sizeof(want), "socket:[%u]", inode);
    dlr_format(path, sizeof(path), "/proc/%d/fd", pid);
    dir = opendir(path);
    while (dir && (e = readdir(dir)) && !dlr_streq(link, want)) {
        ssize_t n;

        dlr_format(path, sizeof(path), "/proc/%d/fd/%.20s", pid, e->d_name);
        n = readlink(path, link, sizeof(link) - 1);
        link[n < 0 ? 0 : n] = '\0';
    }
    return dlr_streq(link, want);
}

/* Listening sockets of a process: how many, and how many of them a connect to the
 * loopback would reach.
 */
static unsigned listeners(pid_t pid, unsigned *ret_loopback)
{
    DLR_AUTO_FCLOSE FILE *f = NULL;
    char path[64], line[512], local[160];
    unsigned n = 0, state, inode;

    *ret_loopback = 0;
    dlr_format(path, sizeof(path), "/proc/%d/net/tcp", pid);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, " %*u: %150s %*s %x %*s %*s %*s %*u %*u %u", local, &state,
                   &inode) == 3 &&
            state == 10 && holds_socket(pid, inode)) {
            n++;
            *ret_loopback +=
                dlr_after(local, "0100007F:") || dlr_after(local, "00000000:");
        }
    return n;
}

static void it_listens_on_devices_that_lead_outward(void **state)
{
    struct rig_data p;
    char outward[256];
    unsigned loopback, all;

    dlr_nic_outward("", outward, sizeof(outward));
    unsetenv("UCX_TLS");
    rig_start(&p, NULL, NULL);
    if (outward[0]) {
        assert_true(listeners(p.pid, &loopback) > 0);
        assert_int_equal(loopback, 0);
    }
    rig_end(&p);
    rig_remove(&p);
    setenv("UCX_NET_DEVICES", "lo", 1); /* somebody has chosen */
    rig_start(&p, NULL, NULL);
    all = listeners(p.pid, &loopback);
    assert_true(loopback > 0 && loopback == all);
    rig_end(&p);
    rig_remove(&p);
    unsetenv("UCX_NET_DEVICES");
}

/* The address in hexadecimal of one of its ports, as /proc has it. */
static bool find_port(pid_t pid, unsigned *ret_addr, unsigned *ret_port)
{
    DLR_AUTO_FCLOSE FILE *f = NULL;
    char path[64], line[512];
    unsigned state, inode;

    dlr_format(path, sizeof(path), "/proc/%d/net/tcp", pid);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, " %*u: %x:%x %*s %x %*s %*s %*s %*u %*u %u", ret_addr,
                   ret_port, &state, &inode) == 4 &&
            state == 10 && holds_socket(pid, inode))
            return true;
    return false;
}

/* What UCX does with a PUT request of a process that it has never heard of: "obeyed" or
 * "dropped". address: 0, or where a word is to be written.
 */
static void put(const struct rig_data *p, uint64_t address, char ret[16])
{
    char command[256], host[INET_ADDRSTRLEN];
    FILE *out;
    unsigned addr, port;

    assert_true(find_port(p->pid, &addr, &port));
    assert_non_null(inet_ntop(AF_INET, &addr, host, sizeof(host)));
    dlr_format(command, sizeof(command),
               "python3 tests/cluster/lib/ucx_put.py %s %u %s%" PRIx64, host, port,
               address ? "0x" : "", address);
    out = popen(command, "re");
    assert_non_null(out);
    assert_non_null(fgets(ret, 16, out));
    ret[strcspn(ret, "\n")] = '\0';
    pclose(out);
}

static void processes_of_this_host_reach_no_port(void **state)
{
    struct rig_data p;
    char answer[16];

    rig_start(&p, NULL, "--log=error");
    put(&p, 0, answer); /* nobody has said who is a peer */
    assert_string_equal(answer, "dropped");
    rig_config(&p, ROUND, RIG_TOKEN, "[3]"); /* which says nothing of this host */
    pair_settle(&p);
    put(&p, 0, answer);
    assert_string_equal(answer, "obeyed"); /* as UCX does */
    p.alone = true;
    rig_config(&p, ROUND, RIG_TOKEN, "[3]");
    pair_settle(&p);
    put(&p, 0, answer);
    assert_string_equal(answer, "dropped");
    rig_end(&p);
    rig_remove(&p);
}

/* Not even one that the filter admits: there is no UCX. */
static void a_sealed_stream_obeys_no_stranger(void **state)
{
    struct rig_data p;
    char answer[16];

    setenv(RIG_TRANSPORT, "stream", 1);
    rig_start(&p, NULL, "--log=error");
    setenv(RIG_TRANSPORT, "ucx", 1);
    rig_config(&p, ROUND, RIG_TOKEN, "[3]");
    pair_settle(&p);
    put(&p, 0, answer);
    assert_string_equal(answer, "dropped");
    assert_true(rig_alive(&p));
    rig_end(&p);
    rig_remove(&p);
}

/* Where the process has a slot of RANK. */
static uint64_t address_of(const struct rig_data *p, unsigned k)
{
    DLR_AUTO_FCLOSE FILE *f = NULL;
    char path[64], line[512], name[32];
    uint64_t at = 0;

    dlr_format(path, sizeof(path), "/proc/%d/maps", p->pid);
    dlr_format(name, sizeof(name), "/r%d.s%u\n", RANK, k);
    f = fopen(path, "re");
    while (f && !at && fgets(line, sizeof(line), f))
        if (strstr(line, name))
            assert_int_equal(sscanf(line, "%" SCNx64, &at), 1);
    assert_true(at > 0);
    return at;
}

/* A copy that is whole stays as it was checked, and so do its sums; a free slot is
 * given nothing.
 */
static void what_a_stranger_writes_into_a_slot_does_not_stay(void **state)
{
    static const char *const what[] = {"data", "sums", "a free slot"};

    for (unsigned i = 0; i < 3; i++) {
        struct dlr_slot *copy;
        struct pair p;
        char answer[16], byte;
        const void *meta;
        size_t bytes;
        uint32_t crc;
        void *data;
        unsigned k;

        print_message("%s\n", what[i]);
        pair_up(&p, 2 * MIB, NULL);
        pair_send(&p, (struct dlr_version){ROUND, 7}, 1);
        assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
        copy = pair_expect_copy(&p, p.src);
        dlr_slot_meta(copy, &meta, &bytes);
        assert_int_equal(dlr_slot_block(copy, 1, &data, &bytes, &crc), 0);
        k = copy == p.dst[i < 2] ? 1 : 0; /* the copy's, or the other one */
        data = i == 1 ? (char *)meta + sizeof(struct dlr_meta_head) : data;
        bytes = (size_t)((char *)data - (char *)dlr_slot_base(copy));
        byte = ((char *)dlr_slot_base(p.dst[k]))[bytes];
        put(&p.to, address_of(&p.to, k) + bytes, answer);
        assert_true(rig_same(copy, p.src));
        assert_int_equal(((char *)dlr_slot_base(p.dst[k]))[bytes], byte);
        rig_kill(&p.to); /* it may be dead, and an agent starts another */
        pair_down(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_listens_on_devices_that_lead_outward),
        cmocka_unit_test(processes_of_this_host_reach_no_port),
        cmocka_unit_test(a_sealed_stream_obeys_no_stranger),
        cmocka_unit_test(what_a_stranger_writes_into_a_slot_does_not_stay),
    };

    setenv("UCX_TLS", "tcp,self", 1); /* shared memory would hide the network */
    setenv(RIG_TRANSPORT, "ucx", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
