/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/read.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watch/comms.h"
#include "watch/map.h"

#define NOW UINT64_C(1000000000000)

static struct dlr_watch_page *page;
static struct dlr_look look;

static int make(void **state)
{
    page = aligned_alloc(4096, sizeof(*page));
    memset(page, 0, sizeof(*page));
    dlr_watch_page_init(page, 3, 2, 77, 0, NOW);
    dlr_watch_put_flag(page, DLR_WATCH_SEEN_CALLS, true);
    return 0;
}

static int unmake(void **state)
{
    free(page);
    return 0;
}

static void take_look(void)
{
    memset(&look, 0xff, sizeof(look));
    dlr_watch_read(page, 3, 2, NOW, &look);
}

static const struct dlr_watch_member world = {
    .id = DLR_LOOK_WORLD, .size = 8, .my_rank = 3};

static void an_empty_page_says_nothing(void **state)
{
    page->flags = 0;
    take_look();
    assert_int_equal(look.data, DLR_LOOK_NONE);
    assert_int_equal(look.rank, 3);
    assert_int_equal(look.round, 2);
    assert_true(look.step == UINT64_MAX && look.total == 0 && look.moved_ns == 0);
    assert_int_equal(look.ncomms + look.ncalls + look.garbage + look.torn, 0);
}

static void steps_add_up(void **state)
{
    page->flags = DLR_WATCH_SEEN_STEPS;
    dlr_watch_put_total(page, 100);
    dlr_watch_put_step(page, 5, NOW - 300);
    dlr_watch_put_step(page, 6, NOW - 200);
    dlr_watch_put_step(page, 7, NOW - 50);
    take_look();
    assert_int_equal(look.data, DLR_LOOK_STEPS);
    assert_true(look.step == 7 && look.total == 100 && look.step_ns == NOW - 50);
    assert_true(look.steps_ns == 250 && look.moved_ns == NOW - 50);
}

static void a_phase_has_a_name_and_a_limit(void **state)
{
    static const struct {
        const char *name, *shown;
    } rows[] = {
        {"eval", "eval"},
        {"a\tb\033[2J", "a b?[2J"},
        {"\303\251valuation", "\303\251valuation"},
        {"bad \377\300 utf-8", "bad ?? utf-8"},
        {"123456789012345678901234567890123456789", /* as long as may be */
         "123456789012345678901234567890123456789"},
        {"12345678901234567890123456789012345678\303\251", /* cut in a character */
         "12345678901234567890123456789012345678?"},
        {"", ""},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dlr_watch_put_phase(page, rows[i].name, 9, NOW - 7);
        take_look();
        assert_string_equal(look.phase, rows[i].shown);
        assert_true(look.phase_ns == NOW - 7 && look.phase_limit_ns == 9);
    }
    dlr_watch_put_phase(page, NULL, 9, NOW - 3);
    take_look();
    assert_true(look.phase_ns == 0 && look.phase_limit_ns == 0);
    assert_string_equal(look.phase, "");
}

static void flags_come_and_go(void **state)
{
    dlr_watch_put_flag(page, DLR_WATCH_PAUSED, true);
    dlr_watch_put_flag(page, DLR_WATCH_FINISHED, true);
    dlr_watch_put_flag(page, DLR_WATCH_HANDLER, true);
    dlr_watch_put_flag(page, DLR_WATCH_PAUSED, false);
    take_look();
    assert_true(!look.paused && look.finished && look.handler);
}

static void a_collective_is_counted_at_both_ends(void **state)
{
    const int line = dlr_watch_comm_open(page, &world, NOW - 9);

    assert_int_equal(dlr_watch_comm_open(page, &world, NOW - 9), line);
    assert_true(dlr_watch_enter(page, line, 1, 12, 3, 4, 4096, NOW - 5));
    take_look();
    assert_int_equal(look.data, DLR_LOOK_CALLS_TOO);
    assert_int_equal(look.ncomms, 1);
    assert_true(look.comms[0].id == 1 && look.comms[0].size == 8 &&
                look.comms[0].my_rank == 3);
    assert_true(look.comms[0].op == 12 && look.comms[0].type == 3 &&
                look.comms[0].root == 4 && look.comms[0].bytes == 4096);
    assert_true(look.comms[0].entered == 1 && look.comms[0].left == 0);
    assert_true(dlr_watch_leave(page, line, 1, NOW - 1));
    assert_false(dlr_watch_leave(page, line, 1, NOW - 1)); /* it is in none */
    take_look();
    assert_true(look.comms[0].left == 1 && look.moved_ns == NOW - 1);
    assert_false(dlr_watch_enter(page, line, 2, 12, 3, 4, 4096, NOW));
    assert_false(dlr_watch_enter(page, -1, 1, 12, 3, 4, 4096, NOW));
}

static void a_freed_communicator_is_gone(void **state)
{
    const int line = dlr_watch_comm_open(page, &world, NOW);
    const struct dlr_watch_member other = {
        .id = 99, .size = 2, .entered = 7, .left = 7};

    dlr_watch_comm_close(page, line, 98);
    take_look();
    assert_int_equal(look.ncomms, 1);
    dlr_watch_comm_close(page, line, 1);
    take_look();
    assert_int_equal(look.ncomms, 0);
    assert_int_equal(dlr_watch_comm_open(page, &other, NOW), line);
    assert_false(dlr_watch_enter(page, line, 1, 12, 3, 4, 4096, NOW));
    assert_true(dlr_watch_enter(page, line, 99, 12, 3, 1, 4096, NOW));
    take_look();
    assert_true(look.comms[0].entered == 8 && look.comms[0].left == 7);
}

static void the_line_used_longest_ago_is_given_away(void **state)
{
    int lines[5000];
    const int first = dlr_watch_comm_open(page, &world, 1);
    const struct dlr_watch_member held = {.id = 2, .size = 8};
    const int inside = dlr_watch_comm_open(page, &held, 2);

    assert_true(dlr_watch_enter(page, inside, 2, 5, 0, 0, 8, 3));
    for (unsigned i = 0; i < 5000; i++) {
        const struct dlr_watch_member one = {.id = 1000 + i, .parent = 1, .size = 4};

        lines[i] = dlr_watch_comm_open(page, &one, 10 + i);
        assert_true(lines[i] >= 0 && lines[i] != first && lines[i] != inside);
        assert_true(dlr_watch_enter(page, lines[i], 1000 + i, 5, 0, 0, 8, 10 + i));
        assert_true(dlr_watch_leave(page, lines[i], 1000 + i, 10 + i));
    }
    assert_false(dlr_watch_enter(page, lines[0], 1000, 5, 0, 0, 8, 6000));
    assert_false(dlr_watch_leave(page, lines[4000], 5000, 6000));
    assert_true(dlr_watch_enter(page, lines[4900], 5900, 5, 0, 0, 8, 6000));
    take_look();
    assert_int_equal(look.ncomms, DLR_LOOK_COMMS);
    assert_true(look.comms[0].id == 5900 && look.comms[1].id == 2); /* those inside */
    assert_true(look.comms[2].id == 5999 && look.comms[15].id == 5986);
    assert_int_equal(look.more_comms + look.lost + look.garbage, 0);
}

static void a_page_of_operations_that_do_not_end_counts_what_is_lost(void **state)
{
    for (unsigned i = 0; i < DLR_WATCH_COMMS; i++) {
        const struct dlr_watch_member one = {.id = 1 + i, .size = 4};
        const int line = dlr_watch_comm_open(page, &one, 1);

        assert_true(dlr_watch_enter(page, line, 1 + i, 5, 0, 0, 8, 2 + i));
    }
    assert_int_equal(dlr_watch_comm_open(
                         page, &(struct dlr_watch_member){.id = 900, .size = 1}, NOW),
                     -1);
    take_look();
    assert_int_equal(look.lost, 1);
    assert_int_equal(look.more_comms, DLR_WATCH_COMMS - DLR_LOOK_COMMS);
}

static void threads_that_block_are_listed(void **state)
{
    int lines[DLR_WATCH_CALLS + 1];

    for (unsigned i = 0; i <= DLR_WATCH_CALLS; i++)
        lines[i] =
            dlr_watch_block(page, 40, 7, 1, i ? i : DLR_LOOK_ANY, -1, 8, NOW - 5);
    assert_int_equal(lines[0], 8); /* 40 % 32 */
    assert_int_equal(lines[DLR_WATCH_CALLS], -1);
    take_look();
    assert_int_equal(look.ncalls, DLR_LOOK_CALLS);
    assert_int_equal(look.more_calls, DLR_WATCH_CALLS - DLR_LOOK_CALLS);
    assert_int_equal(look.lost, 1);
    for (unsigned i = 1; i <= DLR_WATCH_CALLS; i++)
        dlr_watch_clear(page, lines[i], NOW - 2);
    take_look();
    assert_int_equal(look.ncalls, 1);
    assert_int_equal(look.in[0].peer, DLR_LOOK_ANY);
    assert_true(look.in[0].tid == 40 && look.in[0].call == 7 && look.in[0].comm == 1);
    assert_true(look.moved_ns == NOW - 2);
}

/* Another thread, which looks for a line of its own, has the version meanwhile. */
static void a_call_that_has_ended_is_cleared_beside_another_thread(void **state)
{
    const int line = dlr_watch_block(page, 40, 7, 1, 2, -1, 8, NOW - 5);

    assert_true(dlr_watch_begin(&page->calls_in[line].version));
    dlr_watch_clear(page, line, NOW - 2);
    dlr_watch_end(&page->calls_in[line].version);
    take_look();
    assert_int_equal(look.ncalls, 0);
    assert_int_equal(dlr_watch_block(page, 40, 7, 1, 2, -1, 8, NOW - 1), line);
}

static void a_writer_that_died_in_a_line_leaves_it_torn(void **state)
{
    const int line = dlr_watch_comm_open(page, &world, NOW);

    dlr_watch_put_step(page, 5, NOW - 3);
    assert_true(dlr_watch_begin(&page->comms[line].version));
    take_look();
    assert_int_equal(look.data, DLR_LOOK_TORN);
    assert_int_equal(look.torn, 1);
    assert_int_equal(look.ncomms, 0);
    assert_true(look.step == 5);
    assert_false(dlr_watch_enter(page, line, 1, 12, 3, 4, 4096, NOW));
    assert_true(dlr_watch_begin(&page->steps_version));
    dlr_watch_put_step(page, 6, NOW - 2);
    take_look();
    assert_true(look.step == UINT64_MAX && look.torn == 2);
}

static void assert_one_is_garbage(void)
{
    take_look();
    assert_int_equal(look.data, DLR_LOOK_TORN);
    assert_int_equal(look.garbage, 1);
}

static void what_cannot_be_is_not_taken(void **state)
{
    const int line = dlr_watch_comm_open(page, &world, NOW);
    struct dlr_watch_comm *comm = &page->comms[line];
    struct dlr_watch_call *call;

#define REFUSED(change, back)                                                          \
    do {                                                                               \
        change;                                                                        \
        assert_one_is_garbage();                                                       \
        back;                                                                          \
        take_look();                                                                   \
        assert_int_equal(look.data, DLR_LOOK_CALLS_TOO);                               \
    } while (0)
    dlr_watch_put_step(page, 1, NOW);
    REFUSED(page->step = UINT64_C(1) << 60, page->step = 1);
    REFUSED(page->step_ns = NOW * 2, page->step_ns = NOW);
    REFUSED(page->total = UINT64_MAX, page->total = 0);
    REFUSED(page->magic = 1, page->magic = DLR_WATCH_MAGIC);
    REFUSED(page->rank = 4, page->rank = 3);
    REFUSED(page->round = 4, page->round = 2);
    REFUSED(page->size = 4096, page->size = DLR_WATCH_BYTES);
    REFUSED(page->phase.since_ns = NOW * 2, page->phase.since_ns = 0);
    REFUSED(comm->size = 0, comm->size = 8);
    REFUSED(comm->size = UINT32_MAX, comm->size = 8);
    REFUSED(comm->my_rank = 8, comm->my_rank = 3);
    REFUSED(comm->root = 8, comm->root = 7);
    REFUSED(comm->op = 70000, comm->op = 1);
    REFUSED(comm->left = 9, comm->left = 0);
    REFUSED(comm->entered_ns = NOW * 2, comm->entered_ns = NOW);
    REFUSED(comm->bytes = UINT64_MAX, comm->bytes = 0);
    page->comms[9].size = 8;
    REFUSED(page->comms[9].id = 1, page->comms[9].id = 0);
    call = &page->calls_in[dlr_watch_block(page, 40, 7, 1, 2, 0, 8, NOW)];
    REFUSED(call->peer = -3, call->peer = 2);
    REFUSED(call->peer = INT32_MAX, call->peer = 2);
    REFUSED(call->tid = UINT32_MAX, call->tid = 40);
    REFUSED(call->call = 70000, call->call = 7);
#undef REFUSED
}

static void a_time_of_just_now_is_not_later_than_the_look(void **state)
{
    dlr_watch_put_step(page, 1, NOW + 1000);
    take_look();
    assert_true(look.garbage == 0 && look.step == 1 && look.step_ns == NOW);
}

static void the_short_look_has_no_calls(void **state)
{
    dlr_watch_comm_open(page, &world, NOW);
    dlr_watch_put_step(page, 4, NOW - 8);
    page->comms[0].size = 0; /* it is not looked at */
    dlr_watch_read_steps(page, 3, 2, NOW, &look);
    assert_int_equal(look.data, DLR_LOOK_CALLS_TOO);
    assert_true(look.step == 4 && look.ncomms == 0 && look.moved_ns == NOW - 8);
}

static void random_pages_do_no_harm(void **state)
{
    unsigned seed = 12345;

    for (unsigned n = 0; n < 200; n++) {
        unsigned char *bytes = (unsigned char *)page;

        for (size_t i = 0; i < sizeof(*page); i++)
            bytes[i] = n % 2 ? rand_r(&seed) : rand_r(&seed) & 1;
        if (n % 4 > 1) {
            page->magic = DLR_WATCH_MAGIC;
            page->size = DLR_WATCH_BYTES;
            page->rank = 3;
            page->round = 2;
        }
        take_look();
        assert_true(look.ncomms <= DLR_LOOK_COMMS && look.ncalls <= DLR_LOOK_CALLS);
        assert_int_equal(look.data, DLR_LOOK_TORN);
    }
}

struct race {
    _Atomic bool stop;
    int line;
};

/* Each thing it writes is a function of i, so that a mix of two is seen. */
static void *write_on(void *arg)
{
    struct race *race = arg;

    for (uint64_t i = 1; !atomic_load(&race->stop); i++) {
        dlr_watch_put_step(page, i, NOW - 100000 + i % 1000);
        dlr_watch_enter(page, race->line, 1, i % 4000, i % 4000, i % 8, i, 1 + i);
        dlr_watch_clear(page, dlr_watch_block(page, 40, i % 4000, i, i % 999, i, i, i),
                        i);
        dlr_watch_leave(page, race->line, 1, 1 + i);
    }
    return NULL;
}

static void a_reader_beside_a_writer_sees_whole_lines(void **state)
{
    struct race race = {.line = dlr_watch_comm_open(page, &world, 1)};
    unsigned met = 0; /* looks during which the writer wrote */
    pthread_t writer;

    assert_int_equal(pthread_create(&writer, NULL, write_on, &race), 0);
    for (unsigned n = 0; n < 100000 && met < 2000; n++) {
        const uint64_t before = atomic_load(&page->comms[race.line].entered);

        take_look();
        assert_int_equal(look.garbage, 0);
        if (look.ncomms == 1 && look.comms[0].entered > 0) {
            const struct dlr_look_comm *comm = &look.comms[0];

            assert_true(comm->op == comm->bytes % 4000 && comm->type == comm->op &&
                        comm->root == comm->bytes % 8 &&
                        comm->entered_ns == 1 + comm->bytes &&
                        comm->entered - comm->left <= 1);
            met += before > 0 && before != atomic_load(&page->comms[race.line].entered);
        }
        if (look.ncalls == 1)
            assert_true(look.in[0].comm == look.in[0].bytes &&
                        look.in[0].peer == (int32_t)(look.in[0].bytes % 999));
        if (look.step != UINT64_MAX)
            assert_true(look.step_ns == NOW - 100000 + look.step % 1000);
    }
    atomic_store(&race.stop, true);
    pthread_join(writer, NULL);
    assert_true(met > 0);
}

static void *open_many(void *arg)
{
    const uint64_t base = *(const uint64_t *)arg;

    for (unsigned i = 0; i < 20000; i++) {
        const struct dlr_watch_member one = {.id = base + i % 700, .size = 4};
        const int line = dlr_watch_comm_open(page, &one, i);

        if (dlr_watch_enter(page, line, one.id, 5, 0, 0, 8, i))
            dlr_watch_leave(page, line, one.id, i);
    }
    return NULL;
}

static void threads_that_make_communicators_do_not_mix_them(void **state)
{
    static const uint64_t bases[] = {1000, 2000, 3000};
    pthread_t threads[3];

    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, open_many, (void *)&bases[i]), 0);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    take_look();
    assert_int_equal(look.garbage + look.torn, 0);
    assert_int_equal(look.more_comms, 0);
    for (unsigned i = 0; i < look.ncomms; i++)
        assert_true(look.comms[i].left == look.comms[i].entered);
}

static int memory_file(size_t bytes, bool sealed)
{
    const int fd = memfd_create("watch", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0 && ftruncate(fd, bytes) == 0);
    if (sealed)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return fd;
}

static void a_file_that_is_no_page_is_not_mapped(void **state)
{
    static const struct {
        size_t bytes;
        bool sealed, magic;
    } rows[] = {
        {4096, true, true},
        {DLR_WATCH_BYTES, false, true},
        {DLR_WATCH_BYTES, true, false},
        {DLR_WATCH_BYTES + 4096, true, true},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const int fd = memory_file(rows[i].bytes, rows[i].sealed);
        const uint32_t head[2] = {DLR_WATCH_MAGIC, DLR_WATCH_BYTES};
        struct dlr_watch_map map;
        struct dlr_err err;

        if (rows[i].magic)
            assert_int_equal(pwrite(fd, head, sizeof(head), 0), sizeof(head));
        assert_int_equal(dlr_watch_map_open(&map, fd, -1, &err), -EBADMSG);
        assert_string_equal(err.text, "the watch page is not one");
        assert_null(map.page);
        dlr_watch_map_close(&map);
        close(fd);
    }
}

static void a_forked_child_has_no_page(void **state)
{
    const int page_fd = memory_file(DLR_WATCH_BYTES, true);
    const int ring_fd = memory_file(DLR_RING_BYTES(64), true);
    struct dlr_watch_map map;
    int status;
    pid_t pid;

    assert_int_equal(pwrite(page_fd, page, sizeof(*page), 0), sizeof(*page));
    assert_int_equal(dlr_watch_map_open(&map, page_fd, ring_fd, NULL), 0);
    assert_int_equal(map.records, 64);
    pid = fork();
    if (pid == 0)
        _exit(map.page || map.ring || map.records);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_non_null(map.page);
    dlr_watch_put_step(map.page, 4, 5);
    dlr_watch_map_close(&map);
    assert_null(map.page);
    close(page_fd);
    close(ring_fd);
}

static void a_ring_keeps_the_last_operations(void **state)
{
    struct dlr_watch_ring *ring = aligned_alloc(4096, DLR_RING_BYTES(128));
    struct dlr_ring_entry entry;

    memset(ring, 0, DLR_RING_BYTES(128));
    dlr_watch_ring_init(ring, 128);
    assert_false(dlr_ring_read(ring, 128, 0, &entry));
    for (uint64_t i = 0; i < 1000; i++)
        dlr_ring_put(ring, 128,
                     &(struct dlr_ring_entry){.began_ns = i,
                                              .took_ns = i * 10000000,
                                              .bytes = 8,
                                              .seq = i,
                                              .op = 5,
                                              .kind = DLR_RING_COLLECTIVE,
                                              .comm = 3});
    assert_true(ring->next == 1000);
    assert_false(dlr_ring_read(ring, 128, 871, &entry)); /* overwritten */
    assert_false(dlr_ring_read(ring, 128, 1000, &entry));
    assert_true(dlr_ring_read(ring, 128, 872, &entry));
    assert_true(entry.began_ns == 872 && entry.took_ns == 8720000000 && entry.op == 5);
    ring->record[1000 % 128].lap = 0; /* 872 is being overwritten */
    assert_false(dlr_ring_read(ring, 128, 872, &entry));
    ring->record[999 % 128].comm = 224;
    assert_false(dlr_ring_read(ring, 128, 999, &entry));
    free(ring);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, make, unmake)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(an_empty_page_says_nothing),
        ROW(steps_add_up),
        ROW(a_phase_has_a_name_and_a_limit),
        ROW(flags_come_and_go),
        ROW(a_collective_is_counted_at_both_ends),
        ROW(a_freed_communicator_is_gone),
        ROW(the_line_used_longest_ago_is_given_away),
        ROW(a_page_of_operations_that_do_not_end_counts_what_is_lost),
        ROW(threads_that_block_are_listed),
        ROW(a_call_that_has_ended_is_cleared_beside_another_thread),
        ROW(a_writer_that_died_in_a_line_leaves_it_torn),
        ROW(what_cannot_be_is_not_taken),
        ROW(a_time_of_just_now_is_not_later_than_the_look),
        ROW(the_short_look_has_no_calls),
        ROW(random_pages_do_no_harm),
        ROW(a_reader_beside_a_writer_sees_whole_lines),
        ROW(threads_that_make_communicators_do_not_mix_them),
        ROW(a_file_that_is_no_page_is_not_mapped),
        ROW(a_forked_child_has_no_page),
        ROW(a_ring_keeps_the_last_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
