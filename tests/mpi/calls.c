/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks call everything that interpose/calls/mpi.calls names, and look whether each call was counted once. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/mpi/page.h"

#define CHECKED(name, result)                                                          \
    do {                                                                               \
        const long before = test_calls();                                              \
                                                                                       \
        if ((result) != MPI_SUCCESS)                                                   \
            fprintf(stderr, "MPI_%s failed\n", name);                                  \
        test_counted(name, before, 1);                                                 \
    } while (0)
#define DO(name, ...) CHECKED(#name, MPI_##name(__VA_ARGS__))
/* Its twin with MPI_Count, too, where there is one. */
#ifdef MPICH
#define BOTH(name, ...)                                                                \
    DO(name, __VA_ARGS__);                                                             \
    CHECKED(#name "_c", MPI_##name##_c(__VA_ARGS__))
#define TWINS 2
#else
#define BOTH(name, ...) DO(name, __VA_ARGS__)
#define TWINS 1
#endif
/* With a request that ends at once. */
#define ENDS(name, ...)                                                                \
    DO(name, __VA_ARGS__, &request);                                                   \
    MPI_Wait(&request, MPI_STATUS_IGNORE)
#ifdef MPICH
#define BOTH_END(name, ...)                                                            \
    ENDS(name, __VA_ARGS__);                                                           \
    CHECKED(#name "_c", MPI_##name##_c(__VA_ARGS__, &request));                        \
    MPI_Wait(&request, MPI_STATUS_IGNORE)
#define PERSISTS(name, ...)                                                            \
    DO(name##_init, __VA_ARGS__, MPI_INFO_NULL, &request);                             \
    begin_and_end()
#define BOTH_PERSIST(name, ...)                                                        \
    PERSISTS(name, __VA_ARGS__);                                                       \
    CHECKED(#name "_init_c",                                                           \
            MPI_##name##_init_c(__VA_ARGS__, MPI_INFO_NULL, &request));                \
    begin_and_end()
#else
#define BOTH_END(name, ...) ENDS(name, __VA_ARGS__)
#define PERSISTS(name, ...) (void)0
#define BOTH_PERSIST(name, ...) (void)0
#endif

#define WORLD MPI_COMM_WORLD
#define N 4

static int me, other;
static int out[64], in[64];
static MPI_Request request, requests[2];
static MPI_Comm ring;

static void begin_and_end(void)
{
    DO(Start, &request);
    DO(Wait, &request, MPI_STATUS_IGNORE);
    DO(Request_free, &request);
}

/* What was sent by the calls before. */
static void receive(int times)
{
    for (int i = 0; i < times; i++)
        MPI_Recv(in, N, MPI_INT, other, 1, WORLD, MPI_STATUS_IGNORE);
}

static void expect(MPI_Request *r)
{
    MPI_Irecv(in, N, MPI_INT, other, 1, WORLD, r);
    MPI_Barrier(WORLD);
}

static void messages(void)
{
    static char buffer[65536];

    MPI_Buffer_attach(buffer, sizeof(buffer));
    BOTH(Send, out, N, MPI_INT, other, 1, WORLD);
    receive(TWINS);
    BOTH(Bsend, out, N, MPI_INT, other, 1, WORLD);
    receive(TWINS);
    expect(&requests[0]);
    expect(&requests[1]);
    BOTH(Ssend, out, N, MPI_INT, other, 1, WORLD);
    for (int i = TWINS; i < 2; i++)
        MPI_Send(out, N, MPI_INT, other, 1, WORLD);
    DO(Waitall, 2, requests, MPI_STATUSES_IGNORE);
    expect(&requests[0]);
    expect(&requests[1]);
    BOTH(Rsend, out, N, MPI_INT, other, 1, WORLD);
    for (int i = TWINS; i < 2; i++)
        MPI_Send(out, N, MPI_INT, other, 1, WORLD);
    DO(Waitall, 2, requests, MPI_STATUSES_IGNORE);
    BOTH_END(Isend, out, N, MPI_INT, other, 1, WORLD);
    BOTH_END(Ibsend, out, N, MPI_INT, other, 1, WORLD);
    receive(2 * TWINS);
    for (int i = 0; i < 2 * TWINS; i++)
        MPI_Send(out, N, MPI_INT, other, 1, WORLD);
    BOTH(Recv, in, N, MPI_INT, other, 1, WORLD, MPI_STATUS_IGNORE);
    BOTH_END(Irecv, in, N, MPI_INT, other, 1, WORLD);
    expect(&requests[0]);
    expect(&requests[1]);
    BOTH_END(Issend, out, N, MPI_INT, other, 1, WORLD);
    for (int i = TWINS; i < 2; i++)
        MPI_Send(out, N, MPI_INT, other, 1, WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(&requests[0]);
    expect(&requests[1]);
    BOTH_END(Irsend, out, N, MPI_INT, other, 1, WORLD);
    for (int i = TWINS; i < 2; i++)
        MPI_Send(out, N, MPI_INT, other, 1, WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    BOTH(Sendrecv, out, N, MPI_INT, other, 1, in, N, MPI_INT, other, 1, WORLD,
         MPI_STATUS_IGNORE);
    BOTH(Sendrecv_replace, in, N, MPI_INT, other, 1, other, 1, WORLD,
         MPI_STATUS_IGNORE);
}

#define PERSISTENT(name)                                                               \
    BOTH(name, out, N, MPI_INT, other, 1, WORLD, &request);                            \
    DO(Start, &request);                                                               \
    MPI_Recv(in, N, MPI_INT, other, 1, WORLD, MPI_STATUS_IGNORE);                      \
    DO(Wait, &request, MPI_STATUS_IGNORE);                                             \
    DO(Request_free, &request)

static void persistent(void)
{
    PERSISTENT(Send_init);
    PERSISTENT(Bsend_init);
    PERSISTENT(Ssend_init);
    BOTH(Rsend_init, out, N, MPI_INT, other, 1, WORLD, &requests[0]);
    BOTH(Recv_init, in, N, MPI_INT, other, 1, WORLD, &requests[1]);
    DO(Start, &requests[1]);
    MPI_Barrier(WORLD);
    DO(Startall, 1, requests);
    DO(Waitall, 2, requests, MPI_STATUSES_IGNORE);
    DO(Request_free, &requests[0]);
    DO(Request_free, &requests[1]);
#ifdef MPICH
    DO(Psend_init, out, 1, N, MPI_INT, other, 7, WORLD, MPI_INFO_NULL, &requests[0]);
    DO(Precv_init, in, 1, N, MPI_INT, other, 7, WORLD, MPI_INFO_NULL, &requests[1]);
    DO(Startall, 2, requests);
    DO(Pready, 0, requests[0]);
    DO(Waitall, 2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
#endif
}

/* Those that find nothing are not counted. */
#define UNTIL(name, flag, ...)                                                         \
    do {                                                                               \
        const long before = test_calls();                                              \
                                                                                       \
        do                                                                             \
            MPI_##name(__VA_ARGS__);                                                   \
        while (!(flag));                                                               \
        test_counted(#name, before, 1);                                                \
    } while (0)

static void send_and_expect(int times)
{
    for (int i = 0; i < times; i++)
        MPI_Irecv(in, N, MPI_INT, other, 1, WORLD, &requests[i]);
    for (int i = 0; i < times; i++)
        MPI_Send(out, N, MPI_INT, other, 1, WORLD);
}

static void ends(void)
{
    int flag = 0, index, n, indices[2];

    send_and_expect(1);
    DO(Waitany, 1, requests, &index, MPI_STATUS_IGNORE);
    send_and_expect(1);
    DO(Waitsome, 1, requests, &n, indices, MPI_STATUSES_IGNORE);
    send_and_expect(1);
    UNTIL(Test, flag, &requests[0], &flag, MPI_STATUS_IGNORE);
    send_and_expect(2);
    UNTIL(Testall, flag, 2, requests, &flag, MPI_STATUSES_IGNORE);
    send_and_expect(1);
    UNTIL(Testany, flag, 1, requests, &index, &flag, MPI_STATUS_IGNORE);
    send_and_expect(1);
    n = 0;
    UNTIL(Testsome, n, 1, requests, &n, indices, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4; i++)
        MPI_Send(out, N, MPI_INT, other, 1, WORLD);
    DO(Probe, other, 1, WORLD, MPI_STATUS_IGNORE);
    UNTIL(Iprobe, flag, other, 1, WORLD, &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) {
        MPI_Message message;

        DO(Mprobe, other, 1, WORLD, &message, MPI_STATUS_IGNORE);
        if (i == 0 || TWINS == 1)
            DO(Mrecv, in, N, MPI_INT, &message, MPI_STATUS_IGNORE);
#ifdef MPICH
        else
            DO(Mrecv_c, in, N, MPI_INT, &message, MPI_STATUS_IGNORE);
#endif
        UNTIL(Improbe, flag, other, 1, WORLD, &flag, &message, MPI_STATUS_IGNORE);
        if (i == 0 || TWINS == 1)
            DO(Imrecv, in, N, MPI_INT, &message, &request);
#ifdef MPICH
        else
            DO(Imrecv_c, in, N, MPI_INT, &message, &request);
#endif
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* Each collective in all its forms; I: its nonblocking name. */
#define FORMS(name, I, ...)                                                            \
    BOTH(name, __VA_ARGS__);                                                           \
    BOTH_END(I, __VA_ARGS__);                                                          \
    BOTH_PERSIST(name, __VA_ARGS__)
/* The same where counts are arrays. */
#ifdef MPICH
#define ARRAYS(name, I, ...)                                                           \
    {                                                                                  \
        int *counts = ints, *starts = int_starts, *wstarts = byte_starts;              \
                                                                                       \
        (void)counts, (void)starts, (void)wstarts;                                     \
        DO(name, __VA_ARGS__);                                                         \
        ENDS(I, __VA_ARGS__);                                                          \
        PERSISTS(name, __VA_ARGS__);                                                   \
    }                                                                                  \
    {                                                                                  \
        MPI_Count *counts = wide;                                                      \
        MPI_Aint *starts = wide_starts, *wstarts = places;                             \
                                                                                       \
        (void)counts, (void)starts, (void)wstarts;                                     \
        CHECKED(#name "_c", MPI_##name##_c(__VA_ARGS__));                              \
        CHECKED(#I "_c", MPI_##I##_c(__VA_ARGS__, &request));                          \
        MPI_Wait(&request, MPI_STATUS_IGNORE);                                         \
        CHECKED(#name "_init_c",                                                       \
                MPI_##name##_init_c(__VA_ARGS__, MPI_INFO_NULL, &request));            \
        begin_and_end();                                                               \
    }
#else
#define ARRAYS(name, I, ...)                                                           \
    {                                                                                  \
        int *counts = ints, *starts = int_starts, *wstarts = byte_starts;              \
                                                                                       \
        (void)counts, (void)starts, (void)wstarts;                                     \
        DO(name, __VA_ARGS__);                                                         \
        ENDS(I, __VA_ARGS__);                                                          \
    }
#endif

static int ints[2] = {2, 2}, int_starts[2] = {0, 2}, byte_starts[2] = {0, 8};
static MPI_Count wide[2] = {2, 2};
static MPI_Aint wide_starts[2] = {0, 2}, places[2] = {0, 8};

static void collectives(void)
{
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};

    DO(Barrier, WORLD);
    ENDS(Ibarrier, WORLD);
    PERSISTS(Barrier, WORLD);
    FORMS(Bcast, Ibcast, out, N, MPI_INT, 1, WORLD);
    FORMS(Gather, Igather, out, 2, MPI_INT, in, 2, MPI_INT, 0, WORLD);
    ARRAYS(Gatherv, Igatherv, out, 2, MPI_INT, in, counts, starts, MPI_INT, 0, WORLD);
    FORMS(Scatter, Iscatter, out, 2, MPI_INT, in, 2, MPI_INT, 0, WORLD);
    ARRAYS(Scatterv, Iscatterv, out, counts, starts, MPI_INT, in, 2, MPI_INT, 0, WORLD);
    FORMS(Allgather, Iallgather, out, 2, MPI_INT, in, 2, MPI_INT, WORLD);
    ARRAYS(Allgatherv, Iallgatherv, out, 2, MPI_INT, in, counts, starts, MPI_INT,
           WORLD);
    FORMS(Alltoall, Ialltoall, out, 2, MPI_INT, in, 2, MPI_INT, WORLD);
    ARRAYS(Alltoallv, Ialltoallv, out, counts, starts, MPI_INT, in, counts, starts,
           MPI_INT, WORLD);
    ARRAYS(Alltoallw, Ialltoallw, out, counts, wstarts, types, in, counts, wstarts,
           types, WORLD);
    FORMS(Reduce, Ireduce, out, in, N, MPI_INT, MPI_SUM, 0, WORLD);
    FORMS(Allreduce, Iallreduce, out, in, N, MPI_INT, MPI_SUM, WORLD);
    ARRAYS(Reduce_scatter, Ireduce_scatter, out, in, counts, MPI_INT, MPI_SUM, WORLD);
    FORMS(Reduce_scatter_block, Ireduce_scatter_block, out, in, 2, MPI_INT, MPI_SUM,
          WORLD);
    FORMS(Scan, Iscan, out, in, N, MPI_INT, MPI_SUM, WORLD);
    FORMS(Exscan, Iexscan, out, in, N, MPI_INT, MPI_SUM, WORLD);
}

static void neighbours(void)
{
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};

    FORMS(Neighbor_allgather, Ineighbor_allgather, out, 2, MPI_INT, in, 2, MPI_INT,
          ring);
    ARRAYS(Neighbor_allgatherv, Ineighbor_allgatherv, out, 2, MPI_INT, in, counts,
           starts, MPI_INT, ring);
    FORMS(Neighbor_alltoall, Ineighbor_alltoall, out, 2, MPI_INT, in, 2, MPI_INT, ring);
    ARRAYS(Neighbor_alltoallv, Ineighbor_alltoallv, out, counts, starts, MPI_INT, in,
           counts, starts, MPI_INT, ring);
    ARRAYS(Neighbor_alltoallw, Ineighbor_alltoallw, out, counts, places, types, in,
           counts, places, types, ring);
}

#define MAKES(name, ...)                                                               \
    DO(name, __VA_ARGS__, &comm);                                                      \
    MPI_Comm_free(&comm)

static void communicators(void)
{
    const int dims = 2, periods = 1, remain = 1, index[2] = {1, 2}, edges[2] = {1, 0},
              degree = 1;
    MPI_Comm comm, half;
    MPI_Group group;

    MPI_Comm_group(WORLD, &group);
    MAKES(Comm_dup, WORLD);
    MAKES(Comm_dup_with_info, WORLD, MPI_INFO_NULL);
    ENDS(Comm_idup, WORLD, &comm);
    DO(Comm_disconnect, &comm);
#ifdef MPICH
    ENDS(Comm_idup_with_info, WORLD, MPI_INFO_NULL, &comm);
    MPI_Comm_free(&comm);
#endif
    MAKES(Comm_create, WORLD, group);
    MAKES(Comm_create_group, WORLD, group, 5);
    MAKES(Comm_split_type, WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL);
    DO(Cart_create, WORLD, 1, &dims, &periods, 0, &ring);
    MAKES(Cart_sub, ring, &remain);
    MAKES(Graph_create, WORLD, 2, index, edges, 0);
    MAKES(Dist_graph_create, WORLD, 1, &me, &degree, &other, MPI_UNWEIGHTED,
          MPI_INFO_NULL, 0);
    MAKES(Dist_graph_create_adjacent, WORLD, 1, &other, MPI_UNWEIGHTED, 1, &other,
          MPI_UNWEIGHTED, MPI_INFO_NULL, 0);
    DO(Comm_split, WORLD, me, 0, &half);
    DO(Intercomm_create, half, 0, WORLD, other, 9, &comm);
    MAKES(Intercomm_merge, comm, me);
    DO(Comm_free, &half);
    MPI_Group_free(&group);
}

#ifdef MPICH
#define MAKES_WINDOW(name, ...)                                                        \
    DO(name, __VA_ARGS__);                                                             \
    MPI_Win_free(&win);                                                                \
    CHECKED(#name "_c", MPI_##name##_c(__VA_ARGS__));                                  \
    MPI_Win_free(&win)
#else
#define MAKES_WINDOW(name, ...)                                                        \
    DO(name, __VA_ARGS__);                                                             \
    MPI_Win_free(&win)
#endif

static void one_sided(void)
{
    static int memory[N];
    MPI_Group group, pair;
    MPI_Win win;
    void *base;

    MAKES_WINDOW(Win_allocate, sizeof(memory), 1, MPI_INFO_NULL, WORLD, &base, &win);
    MAKES_WINDOW(Win_allocate_shared, sizeof(memory), 1, MPI_INFO_NULL, WORLD, &base,
                 &win);
    MAKES_WINDOW(Win_create, memory, sizeof(memory), 1, MPI_INFO_NULL, WORLD, &win);
    DO(Win_create_dynamic, MPI_INFO_NULL, WORLD, &win);
    DO(Win_free, &win);
    MPI_Win_create(memory, sizeof(memory), 1, MPI_INFO_NULL, WORLD, &win);
    DO(Win_fence, 0, win);
    DO(Win_fence, MPI_MODE_NOSUCCEED, win);
    MPI_Comm_group(WORLD, &group);
    MPI_Group_incl(group, 1, &other, &pair);
    DO(Win_post, pair, 0, win);
    DO(Win_start, pair, 0, win);
    DO(Win_complete, win);
    DO(Win_wait, win);
    DO(Win_lock, MPI_LOCK_SHARED, other, 0, win);
    DO(Win_flush, other, win);
    DO(Win_unlock, other, win);
    DO(Win_lock_all, 0, win);
    DO(Win_flush_all, win);
    DO(Win_unlock_all, win);
    MPI_Win_free(&win);
    MPI_Group_free(&group);
    MPI_Group_free(&pair);
}

#ifdef MPICH
#define BEGINS_AND_ENDS(name, begin_args, end_args)                                    \
    DO(File_##name##_begin, begin_args);                                               \
    DO(File_##name##_end, end_args);                                                   \
    CHECKED("File_" #name "_begin_c", MPI_File_##name##_begin_c(begin_args));          \
    DO(File_##name##_end, end_args)
#else
#define BEGINS_AND_ENDS(name, begin_args, end_args)                                    \
    DO(File_##name##_begin, begin_args);                                               \
    DO(File_##name##_end, end_args)
#endif
#define LIST(...) __VA_ARGS__
#define FILES(how)                                                                     \
    BOTH(File_##how##_at, file, 0, out, N, MPI_INT, &status);                          \
    BOTH(File_##how##_at_all, file, 0, out, N, MPI_INT, &status);                      \
    BOTH(File_##how, file, out, N, MPI_INT, &status);                                  \
    BOTH(File_##how##_all, file, out, N, MPI_INT, &status);                            \
    BOTH(File_##how##_shared, file, out, N, MPI_INT, &status);                         \
    BOTH(File_##how##_ordered, file, out, N, MPI_INT, &status);                        \
    BEGINS_AND_ENDS(how##_at_all, LIST(file, 0, out, N, MPI_INT),                      \
                    LIST(file, out, &status));                                         \
    BEGINS_AND_ENDS(how##_all, LIST(file, out, N, MPI_INT), LIST(file, out, &status)); \
    BEGINS_AND_ENDS(how##_ordered, LIST(file, out, N, MPI_INT),                        \
                    LIST(file, out, &status))

static void files(const char *path)
{
    MPI_Status status;
    MPI_File file;

    DO(File_open, WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    DO(File_set_size, file, 4096);
    DO(File_preallocate, file, 4096);
    DO(File_set_view, file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    FILES(write);
    DO(File_sync, file);
    FILES(read);
    DO(File_close, &file);
}

static void begin(int argc, char **argv, int threads)
{
    const long before = test_calls();
    int level;

    if (threads) {
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
        test_counted("Init_thread", before, 1);
    } else {
        MPI_Init(&argc, &argv);
        test_counted("Init", before, 1);
    }
}

int main(int argc, char **argv)
{
    long before;
    struct dlr_look look;

    begin(argc, argv, argc > 2);
    test_counted(argc > 2 ? "Init" : "Init_thread", test_calls(), 0);
    MPI_Comm_rank(WORLD, &me);
    other = 1 - me;
    messages();
    persistent();
    ends();
    collectives();
    communicators();
    neighbours();
    one_sided();
    files(argc > 1 ? argv[1] : "file");
    test_counted("Comm_spawn", test_calls(), 0); /* tests/mpi/situations.c */
    test_counted("Comm_spawn_multiple", test_calls(), 0);
    test_counted("Comm_accept", test_calls(), 0);
    test_counted("Comm_connect", test_calls(), 0);
    look = test_look();
    if (look.ncalls || look.comms[0].entered != look.comms[0].left || look.lost ||
        look.garbage)
        fprintf(stderr, "%u calls, entered %lu, left %lu\n", look.ncalls,
                (unsigned long)look.comms[0].entered,
                (unsigned long)look.comms[0].left);
    printf("rank %d: %ld calls, %u communicators, world %lu of %lu\n", me, test_calls(),
           look.ncomms, (unsigned long)look.comms[0].left,
           (unsigned long)look.comms[0].entered);
    before = test_calls();
    MPI_Finalize();
    test_counted("Finalize", before, 1);
    test_missing();
    return test_failed() != 0;
}
