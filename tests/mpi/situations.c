/* SPDX-License-Identifier: Apache-2.0 */
/* usage: situations NAME: two ranks do what programs do with MPI, and look at their own pages. */
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/calls/calls.h"
#include "tests/mpi/page.h"

#define WORLD MPI_COMM_WORLD
#define THREADS 4
#define OF_EACH 500
#define MANY 600

static int me, other, wrong;
static char **arguments;

static void expect(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "rank %d: not so: %s\n", me, what);
        wrong++;
    }
}

/* The communicator whose last operation was the newest. */
static struct dlr_look_comm newest(void)
{
    const struct dlr_look look = test_look();
    struct dlr_look_comm found = {0};

    for (unsigned i = 0; i < look.ncomms; i++)
        if (look.comms[i].entered_ns >= found.entered_ns)
            found = look.comms[i];
    return found;
}

/* Its id as the page has it; equal on all members, and unlike all before. */
static uint64_t id_of(MPI_Comm comm, const char *what)
{
    static uint64_t before[64];
    static unsigned n;
    uint64_t mine, least, most;
    struct dlr_look_comm line;

    MPI_Barrier(comm);
    line = newest();
    mine = line.id;
    expect(line.entered == 1 && line.left == 1, what);
    MPI_Allreduce(&mine, &least, 1, MPI_UINT64_T, MPI_MIN, comm);
    MPI_Allreduce(&mine, &most, 1, MPI_UINT64_T, MPI_MAX, comm);
    expect(mine > DLR_LOOK_WORLD && least == most, what);
    for (unsigned i = 0; i < n; i++)
        expect(before[i] != mine, what);
    before[n++] = mine;
    return mine;
}

static void same_ids(void)
{
    const int dims = 2, periods = 0;
    MPI_Comm dup, dup2, idup, group_comm, group_comm2, cart, half, inter, merged;
    MPI_Request request;
    MPI_Group group;

    MPI_Comm_group(WORLD, &group);
    MPI_Comm_dup(WORLD, &dup);
    id_of(dup, "a duplicate");
    MPI_Comm_dup(WORLD, &dup2);
    id_of(dup2, "a second duplicate");
    MPI_Comm_idup(WORLD, &idup, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    id_of(idup, "a nonblocking duplicate");
    MPI_Comm_create_group(WORLD, group, 3, &group_comm);
    id_of(group_comm, "of a group");
    MPI_Comm_create_group(WORLD, group, 3, &group_comm2);
    id_of(group_comm2, "of the same group");
    MPI_Cart_create(dup, 1, &dims, &periods, 0, &cart);
    id_of(cart, "a grid");
    MPI_Comm_split(WORLD, me, 0, &half);
    id_of(half, "a half");
    MPI_Intercomm_create(half, 0, WORLD, other, 4, &inter);
    id_of(inter, "between halves");
    expect(newest().size == 2 && newest().my_rank == (uint32_t)me,
           "both halves' ranks");
    MPI_Intercomm_merge(inter, me, &merged);
    id_of(merged, "halves merged");
    MPI_Comm_free(&dup2);
    MPI_Comm_dup(WORLD, &dup2);
    id_of(dup2, "one whose handle was another's");
}

/* More than there are lines on a page; each goes on counting where it had been. */
static void many_communicators(void)
{
    static MPI_Comm comms[MANY];

    for (int i = 0; i < MANY; i++)
        MPI_Comm_dup(WORLD, &comms[i]);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < MANY; i++) {
            MPI_Barrier(comms[i]);
            expect(newest().entered == (uint64_t)turn + 1,
                   "count of a line that was lost");
        }
    for (int i = 0; i < MANY; i++)
        MPI_Comm_free(&comms[i]);
}

static void *work(void *arg)
{
    int one = 1, sum;

    for (int i = 0; i < OF_EACH; i++)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, *(MPI_Comm *)arg);
    return NULL;
}

static void threads(void)
{
    MPI_Comm comms[THREADS];
    pthread_t thread[THREADS];
    long before;

    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(WORLD, &comms[i]);
    before = test_calls();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    expect(test_calls() - before == THREADS * OF_EACH,
           "calls of threads are counted once");
    for (unsigned i = 0; i < DLR_WATCH_COMMS; i++)
        expect(test_page()->comms[i].entered == test_page()->comms[i].left, "all left");
}

static jmp_buf back;

static void leave(MPI_Comm *comm, int *code, ...)
{
    longjmp(back, 1);
}

/* Deeper in the stack than the call that was left. */
static void go_on(MPI_Comm comm)
{
    char room[4096];
    const long before = test_calls();
    int x = 0;

    memset(room, me, sizeof(room));
    MPI_Sendrecv(&x, 1, MPI_INT, me, 0, &x, 1, MPI_INT, me, 0, comm, MPI_STATUS_IGNORE);
    expect(test_calls() - before == 1 && room[x] == me,
           "one call after one that was left by longjmp()");
    expect(test_look().ncalls == 0, "nothing is under way after it");
}

static void errors(void)
{
    MPI_Errhandler handler;
    long before = test_calls();
    int x = 0;

    MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
    expect(MPI_Send(&x, 1, MPI_INT, 77, 0, WORLD) != MPI_SUCCESS,
           "an error is returned");
    expect(test_calls() - before == 1 && test_look().ncalls == 0, "it is over");
#ifndef MPICH /* it keeps a lock over the handler */
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(WORLD, handler);
    if (setjmp(back) == 0)
        MPI_Bcast(&x, 1, MPI_INT, 77, WORLD);
    go_on(WORLD);
#endif
}

/* The other rank goes on when it is seen that this one waits. */
static void *look_soon(void *arg)
{
    struct dlr_look *look = arg;
    int go = 1;

    do {
        usleep(1000);
        *look = test_look();
    } while (!look->ncalls);
    MPI_Send(&go, 1, MPI_INT, other, 6, WORLD);
    return NULL;
}

static struct dlr_look look_while(int polls)
{
    struct dlr_look look = {0};
    const long before = test_calls();
    pthread_t thread;
    int x, flag = 0;
    MPI_Request request;

    MPI_Irecv(&x, 1, MPI_INT, other, 5, WORLD, &request);
    pthread_create(&thread, NULL, look_soon, &look);
    while (polls && !flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    if (!polls)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    pthread_join(thread, NULL);
    expect(test_calls() - before == 3, "a test that finds nothing is no progress");
    return look;
}

static void waiting(void)
{
    int x = 0;

    if (me == 0) {
        struct dlr_look look = look_while(0);

        expect(look.in[0].peer == 1 && look.in[0].tag == 5 &&
                   look.in[0].comm == DLR_LOOK_WORLD &&
                   look.in[0].call == DLR_CALL_Wait,
               "a wait names its peer");
        look = look_while(1);
        expect(look.in[0].peer == 1 && look.in[0].call == DLR_CALL_Test,
               "a poll names its peer");
    } else {
        for (int i = 0; i < 2; i++) {
            MPI_Recv(&x, 1, MPI_INT, 0, 6, WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&x, 1, MPI_INT, 0, 5, WORLD);
        }
    }
}

static void nonblocking(void)
{
    const struct dlr_watch_comm *world = &test_page()->comms[0];
    uint64_t entered = world->entered, left = world->left;
    MPI_Request requests[3];
    int one = 1, sum[2];

    MPI_Ibarrier(WORLD, &requests[0]);
    MPI_Iallreduce(&one, &sum[0], 1, MPI_INT, MPI_SUM, WORLD, &requests[1]);
    MPI_Iallreduce(&one, &sum[1], 1, MPI_INT, MPI_SUM, WORLD, &requests[2]);
    expect(world->entered - entered == 3 && world->left == left, "counted at the call");
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    expect(world->left - left == 1, "one has ended with its wait");
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    expect(world->left - left == 3, "all have ended");
}

static void forked(void)
{
    const long before = test_calls();
    int status, x = me;
    pid_t child = fork();

    if (child == 0) {
        MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, 0, WORLD);
        _exit(0);
    }
    waitpid(child, &status, 0);
    expect(test_calls() == before, "a forked child counts nothing");
}

static void spawning(void)
{
    char *child[] = {arguments[2], arguments[3], "child", NULL};
    MPI_Comm inter;
    const long before = test_calls();

    MPI_Comm_spawn(arguments[1], child, 1, MPI_INFO_NULL, 0, WORLD, &inter,
                   MPI_ERRCODES_IGNORE);
    test_counted("Comm_spawn", before, 1);
    MPI_Barrier(inter);
    MPI_Comm_disconnect(&inter);
}

static void spawned(void)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    MPI_Barrier(parent);
    expect(test_calls() == 0, "who was spawned is no rank of the job");
    MPI_Comm_disconnect(&parent);
}

static const struct {
    const char *name;
    void (*run)(void);
} situations[] = {{"ids", same_ids},    {"many", many_communicators},
                  {"threads", threads}, {"errors", errors},
                  {"waiting", waiting}, {"nonblocking", nonblocking},
                  {"fork", forked},     {"child", spawned}};

int main(int argc, char **argv)
{
    int level, size;

    arguments = argv + argc - 4;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(WORLD, &me);
    MPI_Comm_size(WORLD, &size);
    other = 1 - me;
    if (argc == 4)
        spawning(); /* WATCHED LIBRARY PROGRAM, as what to spawn */
    for (int i = 0; argc == 2 && i < (int)(sizeof(situations) / sizeof(*situations));
         i++)
        if (strcmp(argv[1], situations[i].name) == 0 ||
            (strcmp(argv[1], "all") == 0 && situations[i].run != spawned))
            situations[i].run();
    MPI_Finalize();
    expect(argc != 2 || strcmp(argv[1], "child") == 0 || test_look().finished,
           "it says that it has finished");
    return wrong || test_failed();
}
