/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlsym */
/* What is done about each call, before an MPI that this program plays: one whose handles
 * are ints, and whose calls do nothing.
 */
#include "interpose/track.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "interpose/communicators.h"
#include "interpose/process.h"
#include "watch/read.h"
#include "watch/write.h"

#define WORLD 0x44000000
#define RANK 3
#define POLLS 1100 /* more than make a thread one that waits */

static struct mpi {
    int abi_major, rank, type_size, made, request;
} mpi;

static struct dlr_watch_page *page;

/* --- an MPI ------------------------------------------------------------------------ */

static int abi_get_version(int *major, int *minor)
{
    *major = *minor = mpi.abi_major;
    return 0;
}

static int get_library_version(char *text, int *length)
{
    *length = sprintf(text, "MPICH Version: 5.0");
    return 0;
}

static int comm_rank(int comm, int *rank)
{
    *rank = mpi.rank;
    return 0;
}

static int comm_size(int comm, int *size)
{
    *size = 8;
    return 0;
}

static int type_size(int type, int *size)
{
    *size = mpi.type_size;
    return 0;
}

static int comm_idup(int comm, int *made, int *request)
{
    *made = mpi.made;
    *request = mpi.request;
    return 0;
}

static int ibarrier(int comm, int *request)
{
    *request = mpi.request;
    return 0;
}

static int nothing(void)
{
    return 0;
}

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } rows[] = {
        {"PMPI_Abi_get_version", abi_get_version},
        {"PMPI_Get_library_version", get_library_version},
        {"PMPI_Comm_rank", comm_rank},
        {"PMPI_Comm_size", comm_size},
        {"PMPI_Type_size", type_size},
        {"MPI_Comm_idup", comm_idup},
        {"MPI_Ibarrier", ibarrier},
        {"MPI_Allreduce", nothing},
        {"MPI_Startall", nothing},
        {"MPI_Test", nothing},
        {"MPI_Init", nothing},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (dlr_streq(name, rows[i].name))
            return rows[i].function;
    return dlr_after(name, "MPI_") || dlr_after(name, "PMPI_") ||
                   dlr_after(name, "ompi_")
               ? NULL
               : __real_dlsym(handle, name);
}

/* --- a program --------------------------------------------------------------------- */

static void __attribute__((noinline)) run(unsigned number, const uintptr_t *a)
{
    assert_int_equal(dlr_mpi_run(number, false, a, __builtin_frame_address(0)), 0);
}
#define RUN(name, ...) run(DLR_CALL_##name, (const uintptr_t[]){__VA_ARGS__})
#define P(x) ((uintptr_t)(x))

static struct dlr_look look(void)
{
    struct dlr_look is;

    dlr_watch_read(page, RANK, 0, (uint64_t)dlr_now_ns(), &is);
    return is;
}

/* A rank with a page; MPI_Init has not been called. */
static int start(void **state)
{
    char text[16];
    int fd = memfd_create("watch", MFD_ALLOW_SEALING);

    if (ftruncate(fd, DLR_WATCH_BYTES) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        return -1;
    page = mmap(NULL, DLR_WATCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    dlr_watch_page_init(page, RANK, 0, 0, 0, 1);
    dlr_format(text, sizeof(text), "%d", fd);
    setenv("DLROVER_WATCH_FDS", text, 1);
    mpi = (struct mpi){.abi_major = -1, .rank = RANK, .type_size = 4};
    dlr_mpi_process = (struct dlr_mpi_process){0};
    return 0;
}

/* The table of communicators is the process's, and goes with it. */
static int stop(void **state)
{
    struct dlr_mpi_comm *world = dlr_mpi_comm_of(WORLD);

    if (world)
        world->handle = 1;
    dlr_watch_map_close(&dlr_mpi_process.map);
    close(atoi(getenv("DLROVER_WATCH_FDS")));
    return munmap(page, DLR_WATCH_BYTES);
}

static void init_takes_back_that_the_rank_had_left(void **state)
{
    dlr_watch_put_flag(page, DLR_WATCH_FINISHED, true);
    RUN(Init, 0, 0);
    assert_non_null(dlr_mpi_process.abi);
    assert_int_equal(look().data, DLR_LOOK_CALLS_TOO);
    assert_true(!look().finished && look().ncalls == 0 && look().calls == 1);
}

static void a_page_of_another_rank_is_left_as_it_was(void **state)
{
    mpi.rank = RANK + 1;
    RUN(Init, 0, 0);
    assert_null(dlr_mpi_process.map.page);
    assert_int_equal(look().ncalls, 0);
    assert_int_equal(page->flags, 0);
    dlr_mpi_process = (struct dlr_mpi_process){0};
    dlr_watch_put_flag(page, DLR_WATCH_SEEN_CALLS, true); /* its own process */
    RUN(Init, 0, 0);
    assert_null(dlr_mpi_process.map.page);
    assert_int_equal(page->flags, DLR_WATCH_SEEN_CALLS);
}

static void handles_of_the_standard_abi_are_not_read(void **state)
{
    mpi.abi_major = 1;
    RUN(Init, 0, 0);
    assert_null(dlr_mpi_process.map.page);
}

static void a_page_is_asked_for_once(void **state)
{
    char *fd = strdup(getenv("DLROVER_WATCH_FDS"));

    setenv("DLROVER_WATCH_FDS", "none", 1);
    RUN(Init, 0, 0);
    setenv("DLROVER_WATCH_FDS", fd, 1);
    RUN(Init, 0, 0);
    assert_null(dlr_mpi_process.map.page);
    free(fd);
}

/* Where the new communicator goes is not a root: an address below 2 GiB looks like one. */
static void a_duplicate_has_no_root(void **state)
{
    int request, *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

    RUN(Init, 0, 0);
    mpi.request = 0x100;
    RUN(Comm_idup, WORLD, P(made), P(&request));
    assert_int_equal(look().garbage, 0);
    assert_true(look().comms[0].entered == 1 &&
                look().comms[0].root == DLR_WATCH_NO_ROOT);
    munmap(made, 4096);
}

/* The duplicate was waited for unseen, and what it was written to is gone. */
static void a_handle_that_comes_again_reads_nothing_of_the_old_one(void **state)
{
    int request, *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    RUN(Init, 0, 0);
    mpi.request = 0x200;
    RUN(Comm_idup, WORLD, P(made), P(&request));
    munmap(made, 4096);
    RUN(Ibarrier, WORLD, P(&request));
    assert_true(look().comms[0].entered == 2 && look().comms[0].left == 1);
}

static void a_type_without_a_size_is_agreed_on_by_nobody(void **state)
{
    RUN(Init, 0, 0);
    mpi.type_size = -32766;
    RUN(Allreduce, 0, 0, 5, 0x4c000001, 0, WORLD);
    assert_true(look().comms[0].entered == 1 && look().comms[0].type == 0 &&
                look().comms[0].bytes == 0);
}

static void a_number_that_cannot_be_starts_nothing(void **state)
{
    RUN(Init, 0, 0);
    RUN(Startall, (uintptr_t)-1, 64); /* no address */
    assert_int_equal(look().calls, 2);
}

static void poll(int *request, unsigned times)
{
    int flag = 0;

    while (times--)
        RUN(Test, P(request), P(&flag), 0);
}

static void one_that_polls_for_long_waits_and_goes_on_waiting(void **state)
{
    int requests[2] = {0x300, 0x301};
    uint64_t moved_ns;

    RUN(Init, 0, 0);
    poll(&requests[0], POLLS);
    assert_int_equal(look().ncalls, 1);
    assert_int_equal(look().in[0].peer, DLR_LOOK_NOBODY);
    moved_ns = look().moved_ns;
    poll(&requests[0], POLLS);
    assert_true(look().ncalls == 1 && look().moved_ns == moved_ns);
    poll(&requests[1], 1); /* for one of two: for any */
    assert_int_equal(look().ncalls, 1);
    assert_int_equal(look().in[0].peer, DLR_LOOK_ANY);
    moved_ns = look().moved_ns;
    poll(&requests[0], POLLS);
    assert_true(look().ncalls == 1 && look().moved_ns == moved_ns);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        T(init_takes_back_that_the_rank_had_left),
        T(a_page_of_another_rank_is_left_as_it_was),
        T(handles_of_the_standard_abi_are_not_read),
        T(a_page_is_asked_for_once),
        T(a_duplicate_has_no_root),
        T(a_handle_that_comes_again_reads_nothing_of_the_old_one),
        T(a_type_without_a_size_is_agreed_on_by_nobody),
        T(a_number_that_cannot_be_starts_nothing),
        T(one_that_polls_for_long_waits_and_goes_on_waiting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
