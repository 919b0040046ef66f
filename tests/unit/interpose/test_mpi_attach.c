/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/local/message.h"
#include "interpose/inherit.h"
#include "watch/read.h"

/* An agent that answers one question, and what it was asked. */
static struct agent {
    char path[64];
    int listens;
    enum dlr_local_type answers; /* 0: hangs up */
    bool with_ring;
    struct dlr_local_msg asked;
    pthread_t thread;
} agent;

static int make_file(size_t bytes, void **ret_at)
{
    int fd = memfd_create("watch", MFD_ALLOW_SEALING | MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    *ret_at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return fd;
}

static void *answer(void *arg)
{
    int sock = accept(agent.listens, NULL, NULL), got[DLR_LOCAL_FDS], fds[2];
    struct dlr_local_msg msg;
    void *page, *ring;
    unsigned n;

    if (dlr_local_recv(sock, &agent.asked, got, &n) > 0 && agent.answers) {
        fds[0] = make_file(DLR_WATCH_BYTES, &page);
        dlr_watch_page_init(page, 3, 2, 1, 64, 1);
        fds[1] = make_file(DLR_RING_BYTES(64), &ring);
        dlr_watch_ring_init(ring, 64);
        dlr_local_init(&msg, agent.answers);
        dlr_local_send(sock, &msg, fds,
                       agent.answers == DLR_LOCAL_WATCHED ? 1 + agent.with_ring : 0);
        close(fds[0]);
        close(fds[1]);
        munmap(page, DLR_WATCH_BYTES);
        munmap(ring, DLR_RING_BYTES(64));
    }
    close(sock);
    return NULL;
}

static void start(enum dlr_local_type answers, bool with_ring)
{
    agent.answers = answers;
    agent.with_ring = with_ring;
    snprintf(agent.path, sizeof(agent.path), "/tmp/test_mpi_attach.%d", (int)getpid());
    assert_int_equal(dlr_local_listen(agent.path, &agent.listens, NULL), 0);
    setenv("DLROVER_AGENT_SOCKET", agent.path, 1);
    setenv("DLROVER_ROUND", "2", 1);
    setenv("SLURM_PROCID", "3", 1);
    setenv("SLURM_NTASKS", "4", 1);
    pthread_create(&agent.thread, NULL, answer, NULL);
}

static void stop(void)
{
    pthread_join(agent.thread, NULL);
    close(agent.listens);
    unlink(agent.path);
}

static int forget(void **state)
{
    static const char *const names[] = {
        "DLROVER_AGENT_SOCKET", "DLROVER_ROUND",        "SLURM_PROCID", "SLURM_NTASKS",
        "DLROVER_WATCH_FDS",    "OMPI_COMM_WORLD_RANK", "RANK",         "WORLD_SIZE"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    return 0;
}

static void the_agent_gives_page_and_ring(void **state)
{
    struct dlr_watch_map map = {0};

    start(DLR_LOCAL_WATCHED, true);
    assert_int_equal(dlr_mpi_attach(&map), 0);
    stop();
    assert_int_equal(agent.asked.type, DLR_LOCAL_WATCH);
    assert_int_equal(agent.asked.round, 2);
    assert_int_equal(agent.asked.rank, 3);
    assert_int_equal(agent.asked.arg[0], 1);
    assert_int_equal(map.page->rank, 3);
    assert_int_equal(map.records, 64);
    dlr_watch_map_close(&map);
}

static void a_page_without_a_ring_will_do(void **state)
{
    struct dlr_watch_map map = {0};

    start(DLR_LOCAL_WATCHED, false);
    assert_int_equal(dlr_mpi_attach(&map), 0);
    stop();
    assert_non_null(map.page);
    assert_null(map.ring);
    dlr_watch_map_close(&map);
}

static void an_agent_that_refuses_or_hangs_up_is_nobody(void **state)
{
    struct dlr_watch_map map = {0};

    start(DLR_LOCAL_REFUSED, false);
    assert_int_equal(dlr_mpi_attach(&map), -ENOENT);
    stop();
    start(0, false);
    assert_int_equal(dlr_mpi_attach(&map), -ECONNRESET);
    stop();
    assert_null(map.page);
}

static void without_a_job_nobody_is_asked(void **state)
{
    struct dlr_watch_map map = {0};

    assert_int_equal(dlr_mpi_attach(&map), -ENOENT);
    setenv("DLROVER_AGENT_SOCKET", "/tmp/nowhere", 1);
    assert_int_equal(dlr_mpi_attach(&map), -ENOENT);
    setenv("DLROVER_ROUND", "x", 1);
    assert_int_equal(dlr_mpi_attach(&map), -ENOENT);
    setenv("DLROVER_ROUND", "1", 1);
    assert_true(dlr_mpi_attach(&map) < 0);
    assert_null(map.page);
}

static void descriptors_that_are_no_page_are_refused(void **state)
{
    static const char *const words[] = {"", "x", "99999", "0 x", "0 0", "1 2 3"};
    struct dlr_watch_map map = {0};

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        setenv("DLROVER_WATCH_FDS", words[i], 1);
        assert_true(dlr_mpi_attach(&map) < 0);
        assert_null(map.page);
    }
}

static void what_a_program_with_mpi_starts_preloads_what_the_user_does(void **state)
{
    static const struct {
        const char *list, *left; /* "": nothing */
    } rows[] = {
        {"/x/libdlrover-mpi.so", ""},
        {"libdlrover-mpi.so", ""},
        {"/a.so:/x/libdlrover-mpi.so", "/a.so"},
        {"/x/libdlrover-mpi.so:/a.so b.so", "/a.so b.so"},
        {"a.so /x/libdlrover-mpi.so b.so", "a.so b.so"},
        {"/x/libdlrover-mpi.so:/y/libdlrover-mpi.so", ""},
        {"/x/mylibdlrover-mpi.so:/libdlrover-mpi.so.1",
         "/x/mylibdlrover-mpi.so:/libdlrover-mpi.so.1"},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char list[128];

        print_message("  %s\n", rows[i].list);
        dlr_format(list, sizeof(list), "%s", rows[i].list);
        assert_int_equal(dlr_mpi_not_inherited(list), rows[i].left[0] != '\0');
        assert_string_equal(list, rows[i].left);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_agent_gives_page_and_ring, forget),
        cmocka_unit_test_setup(a_page_without_a_ring_will_do, forget),
        cmocka_unit_test_setup(an_agent_that_refuses_or_hangs_up_is_nobody, forget),
        cmocka_unit_test_setup(without_a_job_nobody_is_asked, forget),
        cmocka_unit_test_setup(descriptors_that_are_no_page_are_refused, forget),
        cmocka_unit_test(what_a_program_with_mpi_starts_preloads_what_the_user_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
