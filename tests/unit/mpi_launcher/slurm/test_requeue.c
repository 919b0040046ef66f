/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=poll */
/* Which nodes a job does without after a requeue, with slurmctld played here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/str.h"
#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/slurm/requeue.h"

static struct {
    char excluded[65536]; /* the job's list */
    unsigned nodes;       /* n1, n2 ... of the partition; 0: it cannot be asked */
    int busy, updates;    /* so often it says "try again" */
    int away, answer;     /* so often it does not answer a requeue; then it says this */
    struct dlr_slurm_job job;
    bool fixed; /* jobs may not shrink */
    time_t begin;
    unsigned tasks;       /* 0: as many as before */
    uint64_t node_mb, mb; /* of the partition's nodes; what the job was given */
    bool requeued;
    bool accounts;         /* their limits are enforced */
    bool no_memory;        /* its owner may not have more */
    int64_t took_s;        /* that the begin is asked for */
    const char *ours_path; /* what the file says when the list is set */
    char ours[256];
} ctld;

#define BEGIN 1000

static char said[DLR_REQUEUE_SAID];

static void read_ours(const char *path, char *ret, size_t size)
{
    FILE *in = fopen(path, "r");

    ret[0] = '\0';
    if (in && !fgets(ret, (int)size, in))
        ret[0] = '\0';
    if (in)
        fclose(in);
}

/* --- instead of mpi_launcher/slurm/api.c; lists are n1,n2, and no list has a bracket
 * that nobody closes
 */

int dlr_slurm_expand(const char *list, char ***ret_names, unsigned *ret_n,
                     struct dlr_err *err)
{
    char *copy = strdup(list), *at = NULL;
    char **names = calloc(strlen(list) + 1, sizeof(*names));
    unsigned n = 0;

    if (strchr(list, '[')) {
        free(copy);
        free(names);
        return dlr_fail(err, -EINVAL, "'%s' is no list of nodes", list);
    }
    for (char *w = strtok_r(copy, ",", &at); w; w = strtok_r(NULL, ",", &at))
        names[n++] = strdup(w);
    free(copy);
    *ret_names = names;
    *ret_n = n;
    return 0;
}

char **dlr_slurm_free_names(char **names, unsigned n)
{
    for (unsigned i = 0; names && i < n; i++)
        free(names[i]);
    free(names);
    return NULL;
}

int dlr_slurm_load_job(uint32_t job_id, struct dlr_slurm_job *ret, struct dlr_err *err)
{
    *ret = ctld.job;
    dlr_format(ret->exc_nodes, sizeof(ret->exc_nodes), "%s", ctld.excluded);
    dlr_format(ret->partition, sizeof(ret->partition), "main");
    return 0;
}

int dlr_slurm_requeue(uint32_t job_id, struct dlr_err *err)
{
    if (ctld.away-- > 0)
        return dlr_fail(err, -EIO, "nobody answers");
    ctld.requeued = true;
    return ctld.answer < 0 ? dlr_fail(err, ctld.answer, "no") : 0;
}

/* No time goes by. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    assert_int_equal(n, 0);
    return 0;
}

bool dlr_slurm_is_listed(const char *list, const char *node)
{
    return strstr(list, node); /* no name is a part of another */
}

int dlr_slurm_shrink(uint32_t job_id, const char *keep, struct dlr_err *err)
{
    if (ctld.fixed)
        return dlr_fail(err, -ENOTSUP, "disable_job_shrink");
    dlr_format(ctld.job.nodes, sizeof(ctld.job.nodes), "%s", keep);
    return 0;
}

time_t dlr_slurm_next_begin(int64_t took_s)
{
    ctld.took_s = took_s;
    return BEGIN;
}

int dlr_slurm_update_pending(uint32_t job_id, const struct dlr_slurm_update *to,
                             struct dlr_err *err)
{
    ctld.updates++;
    if (ctld.ours_path)
        read_ours(ctld.ours_path, ctld.ours, sizeof(ctld.ours));
    if (ctld.busy-- > 0)
        return dlr_fail(err, -EAGAIN, "busy");
    if (!to->exclude && ctld.no_memory)
        return dlr_fail(err, -EPERM, "cannot give the job more memory: over a limit");
    if (to->memory_mb) {
        assert_true(to->memory_per_cpu == ctld.job.memory_per_cpu);
        ctld.mb = to->memory_mb;
        return 0;
    }
    ctld.begin = to->begin;
    ctld.tasks = to->tasks;
    dlr_format(ctld.excluded, sizeof(ctld.excluded), "%s", to->exclude);
    return 0;
}

int dlr_slurm_count_nodes(const char *partitions, const char *without, unsigned *ret_n,
                          struct dlr_err *err)
{
    assert_string_equal(partitions, "main");
    *ret_n = ctld.nodes;
    for (const char *p = without; *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : "")
        (*ret_n)--;
    return ctld.nodes ? 0 : -EIO;
}

int dlr_slurm_memory(const struct dlr_slurm_job *job, struct dlr_slurm_memory *ret,
                     struct dlr_err *err)
{
    ret->mb = ctld.node_mb;
    ret->accounts = ctld.accounts;
    return ctld.node_mb ? 0 : dlr_fail(err, -EIO, "cannot load the nodes");
}

/* ---------------------------------------------------------------------------------- */

/* A job of four nodes in a partition, requeued again and again. */
static void
an_exclusion_holds_for_one_requeue_and_never_makes_a_job_impossible(void **state)
{
    static const struct {
        unsigned nodes;
        const char *dead, *list, *note, *asked;
    } rows[] = {
        {8, "n2", "n7,n2", ""},       /* beside the user's own */
        {8, "n3,n4", "n7,n3,n4", ""}, /* n2 may have come back */
        {8, "", "n7", ""},
        {6, "n1", "n7,n1", ""},
        {5, "n2", "n7",
         "n2: not excluded, since partition 'main' has 3 nodes beside it and 4 are "
         "needed"},
        {0, "n2", "n7,n2", ""}, /* slurmctld does not say */
        {8, "n5", "n7,n5", ""},
        {8, "n1,n3", "n7,n3",
         "of n1,n3 those are not excluded that the job asks for by name", "n1,n2,n4"},
        {8, "n3", "n7,n3", "", "n1,n2,n4"},
    };
    char dir[] = "/tmp/dlr-test-requeue-XXXXXX", path[64];
    struct dlr_requeue r = {.job_id = 7,
                            .incarnation = 9,
                            .min_nodes = 4,
                            .max_nodes = 5,
                            .timeout_ms = 10000,
                            .ours_path = path};

    assert_non_null(mkdtemp(dir));
    dlr_format(path, sizeof(path), "%s/excluded", dir);
    dlr_format(ctld.excluded, sizeof(ctld.excluded), "n7");
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_err err = {0};

        ctld.nodes = rows[i].nodes;
        ctld.busy = i == 0;
        r.exclude = rows[i].dead;
        dlr_format(ctld.job.req_nodes, sizeof(ctld.job.req_nodes), "%s",
                   rows[i].asked ? rows[i].asked : "");
        assert_int_equal(dlr_requeue_job(&r, said, &err), 0);
        assert_string_equal(ctld.excluded, rows[i].list);
        assert_string_equal(err.code ? err.text : "", rows[i].note);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* -N4 --ntasks-per-node=2: Slurm holds such a job to four nodes by its eight tasks. */
static void
a_job_that_may_have_fewer_nodes_wants_no_more_tasks_than_they_hold(void **state)
{
    static const struct {
        unsigned nodes, tasks, per_node;
        const char *dead;
        unsigned wants;
    } rows[] = {
        {5, 8, 2, "n1,n2", 6}, {6, 8, 2, "n1,n2", 0}, {5, 8, 0, "n1,n2", 0},
        {5, 0, 2, "n1,n2", 0}, {0, 8, 2, "n1,n2", 0}, {4, 8, 2, "n1,n2", 0},
        {3, 8, 2, "", 0},
    };
    struct dlr_requeue r = {
        .job_id = 7, .min_nodes = 3, .max_nodes = 4, .timeout_ms = 10000};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_err err = {0};

        ctld.nodes = rows[i].nodes;
        ctld.excluded[0] = '\0';
        ctld.job = (struct dlr_slurm_job){.tasks = rows[i].tasks,
                                          .per_node = rows[i].per_node};
        r.exclude = rows[i].dead;
        assert_int_equal(dlr_requeue_job(&r, said, &err), 0);
        assert_int_equal(ctld.tasks, rows[i].wants);
    }
    ctld.job = (struct dlr_slurm_job){0};
    ctld.excluded[0] = '\0';
}

/* slurmctld may set a list after the process that asked for it was killed: the next
 * requeue has to know that the names are not the user's.
 */
static void what_an_update_may_set_is_kept_before_it_is_asked_for(void **state)
{
    char dir[] = "/tmp/dlr-test-requeue-XXXXXX", path[64], ours[256];
    struct dlr_requeue r = {.job_id = 7,
                            .incarnation = 9,
                            .timeout_ms = 10000,
                            .exclude = "n2",
                            .ours_path = path};
    struct dlr_err err = {0};

    assert_non_null(mkdtemp(dir));
    dlr_format(path, sizeof(path), "%s/excluded", dir);
    memset(&ctld, 0, sizeof(ctld));
    ctld.ours_path = path;
    assert_int_equal(dlr_requeue_job(&r, said, &err), 0);
    assert_string_equal(ctld.ours, "n2");
    r.exclude = "n3";
    ctld.busy = 1000000; /* not before our time is over */
    r.timeout_ms = 0;
    assert_int_equal(dlr_requeue_job(&r, said, &err), 0);
    assert_int_equal(err.code, -EAGAIN);
    assert_string_equal(
        ctld.ours, "n2,n3"); /* the list that is there, and the one that may come */
    read_ours(path, ours, sizeof(ours));
    assert_string_equal(ours, "n2,n3");
    ctld.busy = 0;
    dlr_format(ctld.excluded, sizeof(ctld.excluded), "n7,n3"); /* it came */
    r.exclude = "";
    assert_int_equal(dlr_requeue_job(&r, said, &err), 0);
    assert_string_equal(ctld.excluded, "n7");
    memset(&ctld, 0, sizeof(ctld));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Then it has ended everywhere within KillWait, and can begin at once. */
static void a_dead_node_is_given_back_before_the_requeue(void **state)
{
    static const struct {
        const char *dead, *left;
        bool no_requeue, fixed, begins, expedited;
    } rows[] = {
        {.dead = "n2", .left = "n1,n3,n4", .begins = true},
        {.dead = "n4,n2", .left = "n1,n3", .begins = true},
        {.dead = "", .left = "n1,n2,n3,n4", .begins = true},
        {.dead = "n1,n2", .left = "n1,n2,n3,n4"}, /* the batch host */
        {.dead = "n2", .left = "n1,n2,n3,n4", .fixed = true},
        {.dead = "n2", .left = "n1,n2,n3,n4", .no_requeue = true},
        {.dead = "n2", .left = "n1,n3,n4", .expedited = true}, /* Slurm's own time */
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_requeue r = {
            .job_id = 7, .incarnation = 9, .timeout_ms = 1000, .exclude = rows[i].dead};
        struct dlr_err err = {0};

        memset(&ctld, 0, sizeof(ctld));
        ctld.fixed = rows[i].fixed;
        ctld.job = (struct dlr_slurm_job){.batch_host = "n1",
                                          .nodes = "n1,n2,n3,n4",
                                          .running = true,
                                          .expedited = rows[i].expedited,
                                          .may_requeue = !rows[i].no_requeue};
        assert_int_equal(dlr_requeue_job(&r, said, &err), 0);
        assert_string_equal(ctld.job.nodes, rows[i].left);
        assert_int_equal(ctld.begin, rows[i].begins ? BEGIN : 0);
    }
    memset(&ctld, 0, sizeof(ctld));
}

/* How long its epilogs take nobody can be asked: it is measured, from a requeue to the
 * job's next life.
 */
static void the_next_begin_is_after_what_the_job_took_to_end_before(void **state)
{
    static const struct {
        const char *what;
        unsigned restarts; /* of the job now */
        int queued_s;      /* after the requeue before */
        bool lost;         /* a dead node is not given back now */
        int64_t took_s;    /* that is reckoned with; -1: nothing is asked */
    } rows[] = {
        {"the first", 0, 0, false, 0},
        {"the second", 1, 50, false, 50},
        {"it was shorter", 2, 20, false, 50},
        {"it was longer", 3, 70, false, 70},
        {"it waits for a dead node", 4, 30, true, -1},
        {"that took long", 5, 300, false, 70},
        {"somebody else's requeue in between", 7, 90, false, 70},
        {"clocks differ", 8, -40, false, 70},
    };
    char dir[] = "/tmp/dlr-test-requeue-XXXXXX", path[64];
    struct dlr_requeue r = {
        .job_id = 7, .incarnation = 9, .timeout_ms = 1000, .times_path = path};
    time_t before = 0;

    assert_non_null(mkdtemp(dir));
    dlr_format(path, sizeof(path), "%s/requeued", dir);
    memset(&ctld, 0, sizeof(ctld));
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_err err = {0};

        print_message("%s\n", rows[i].what);
        r.exclude = rows[i].lost ? "n2" : "";
        ctld.fixed = rows[i].lost;
        ctld.took_s = -1;
        ctld.job = (struct dlr_slurm_job){.batch_host = "n1",
                                          .nodes = "n1,n2",
                                          .running = true,
                                          .may_requeue = true,
                                          .restarts = rows[i].restarts,
                                          .queued = before + rows[i].queued_s};
        before = time(NULL);
        assert_int_equal(dlr_requeue_job(&r, said, &err), 0);
        assert_in_range(ctld.took_s - rows[i].took_s + 2, 0, 4);
        assert_true(rows[i].took_s > 0 || ctld.took_s == rows[i].took_s);
    }
    memset(&ctld, 0, sizeof(ctld));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Else the job would stand there until its time limit. */
static void where_the_script_is_lost_slurmctld_is_asked_until_it_answers(void **state)
{
    static const struct {
        bool lost;
        int away, answer, rc;
    } rows[] = {
        {.away = 1, .rc = -EIO}, /* the time is over */
        {.lost = true, .away = 50},
        {.lost = true, .away = 2, .answer = -ENOTSUP, .rc = -ENOTSUP},
        {.lost = true, .answer = -ESRCH, .rc = -ESRCH}, /* there is no job any more */
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_requeue r = {
            .job_id = 7, .incarnation = 9, .exclude = "", .script_lost = rows[i].lost};
        struct dlr_err err = {0};

        memset(&ctld, 0, sizeof(ctld));
        ctld.away = rows[i].away;
        ctld.answer = rows[i].answer;
        assert_int_equal(dlr_requeue_job(&r, said, &err), rows[i].rc);
        assert_true(ctld.away <= 0);
    }
    memset(&ctld, 0, sizeof(ctld));
}

static void a_long_list_is_set_whole(void **state)
{
    static char many[60000];
    struct dlr_requeue r = {
        .job_id = 7, .incarnation = 9, .timeout_ms = 1000, .exclude = many};
    struct dlr_err err = {0};

    for (unsigned i = 0; i < 9000; i++)
        dlr_format(many + strlen(many), 8, "%sm%u", i ? "," : "", i);
    ctld.excluded[0] = '\0';
    ctld.nodes = 0;
    ctld.busy = 0;
    assert_int_equal(dlr_requeue_job(&r, said, &err), 0);
    assert_string_equal(ctld.excluded, many);
}

static void a_list_that_cannot_be_read_is_kept_as_the_user_wrote_it(void **state)
{
    struct dlr_requeue r = {
        .job_id = 7, .incarnation = 9, .timeout_ms = 1000, .exclude = "n2"};
    struct dlr_err err = {0};

    dlr_format(ctld.excluded, sizeof(ctld.excluded), "n[7-");
    ctld.nodes = 0;
    assert_int_equal(dlr_requeue_job(&r, said, &err), 0);
    assert_string_equal(ctld.excluded, "n[7-,n2");
}

/* Half as much again, twice, and never more than four nodes of its partition have: else
 * it is not requeued at all, since it can go on where it is.
 */
static void a_job_that_died_for_want_of_memory_gets_more_or_is_left_alone(void **state)
{
    static const struct {
        const char *what;
        uint64_t mb, node_mb, gets;
        unsigned cpus;
        bool per_cpu, no_requeue, no_memory, accounts, anyway;
        const char *said, *text;
    } rows[] = {
        {"once", 300, 2048, 450, 8, .said = "450 MB a node, 300 before", .text = ""},
        {"twice", 301, 2048, 452, 8, .said = "452 MB a node, 301 before", .text = ""},
        {"as often as may be", 675, 2048, 0, 8, .said = "",
         .text = "it has been given more 2 times already"},
        {"as much as there is", 300, 400, 400, 8, .said = "400 MB a node, 300 before",
         .text = ""},
        {"by the CPU", 100, 130, 130, 8, .per_cpu = true,
         .said = "130 MB a CPU, 100 before", .text = ""},
        {"all that a node has", 400, 400, 0, 8, .said = "",
         .text = "it has 400 MB a node, and can have 400 on its nodes"},
        {"--mem=0", 0, 400, 0, 8, .said = "",
         .text = "it has all of its nodes' memory, or asks for it by its GPUs"},
        {"--no-requeue", 300, 2048, 0, 8, .no_requeue = true, .said = "",
         .text = "it may not be requeued"},
        {"slurmctld does not say", 300, 0, 0, 8, .said = "",
         .text = "cannot load the nodes"},
        {"an account may have limits", 300, 2048, 0, 8, .accounts = true, .said = "",
         .text = "limits of accounts are enforced here, and one might not let it begin "
                 "again (--dlrover-on=memory:requeue tries it)"},
        {"and is wanted anyway", 300, 2048, 450, 8, .accounts = true, .anyway = true,
         .said = "450 MB a node, 300 before", .text = ""},
        {"a limit of the user's", 300, 2048, 0, 8, .no_memory = true, .said = "",
         .text = "cannot give the job more memory: over a limit"},
    };
    char dir[] = "/tmp/dlr-test-requeue-XXXXXX", path[64];
    struct dlr_requeue r = {.job_id = 7,
                            .incarnation = 9,
                            .min_nodes = 4,
                            .max_nodes = 5,
                            .timeout_ms = 100,
                            .exclude = "",
                            .memory_path = path};

    assert_non_null(mkdtemp(dir));
    dlr_format(path, sizeof(path), "%s/memory", dir);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        bool refused = !rows[i].gets && !rows[i].no_memory;
        struct dlr_err err = {0};

        print_message("%s\n", rows[i].what);
        memset(&ctld, 0, sizeof(ctld));
        ctld.node_mb = rows[i].node_mb;
        ctld.no_memory = rows[i].no_memory;
        ctld.accounts = rows[i].accounts;
        r.memory_anyway = rows[i].anyway;
        ctld.job = (struct dlr_slurm_job){.may_requeue = !rows[i].no_requeue,
                                          .memory_mb = rows[i].mb,
                                          .memory_per_cpu = rows[i].per_cpu,
                                          .nodes_now = 4,
                                          .cpus_now = rows[i].cpus};
        r.only_ask = true; /* first, and nothing has happened then */
        assert_int_equal(dlr_requeue_job(&r, said, &err), !refused          ? 0
                                                          : rows[i].node_mb ? -ENOSPC
                                                                            : -EIO);
        assert_false(ctld.requeued || ctld.mb);
        r.only_ask = false;
        err = (struct dlr_err){0};
        assert_int_equal(dlr_requeue_job(&r, said, &err), !refused          ? 0
                                                          : rows[i].node_mb ? -ENOSPC
                                                                            : -EIO);
        assert_int_equal(ctld.mb, rows[i].gets);
        assert_string_equal(said, rows[i].said);
        assert_string_equal(err.code ? err.text : "", rows[i].text);
        assert_int_equal(ctld.requeued, !refused);
        if (i > 1)
            unlink(path); /* another job */
    }
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    memset(&ctld, 0, sizeof(ctld));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_that_cannot_be_read_is_kept_as_the_user_wrote_it),
        cmocka_unit_test(
            an_exclusion_holds_for_one_requeue_and_never_makes_a_job_impossible),
        cmocka_unit_test(
            a_job_that_may_have_fewer_nodes_wants_no_more_tasks_than_they_hold),
        cmocka_unit_test(what_an_update_may_set_is_kept_before_it_is_asked_for),
        cmocka_unit_test(a_dead_node_is_given_back_before_the_requeue),
        cmocka_unit_test(the_next_begin_is_after_what_the_job_took_to_end_before),
        cmocka_unit_test(where_the_script_is_lost_slurmctld_is_asked_until_it_answers),
        cmocka_unit_test(a_long_list_is_set_whole),
        cmocka_unit_test(a_job_that_died_for_want_of_memory_gets_more_or_is_left_alone),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
