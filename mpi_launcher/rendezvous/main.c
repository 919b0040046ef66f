/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover-rendezvous: one MPI rank per candidate node. Each makes its report, all
 * reports are gathered, everyone computes the plan, rank 0 prints it. It never has to
 * survive a fault: whoever started it gives it a limit. With --no-mpi it prints the
 * report of this node and touches nothing of MPI.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/plan/stragglers.h"
#include "mpi_launcher/rendezvous/node_report.h"
#include "mpi_launcher/rendezvous/tournament_mpi.h"

#define INPUT_MAX (256u << 20)
#define FINALIZE_S 2 /* the end of MPI, when it has a message that nobody takes */

enum exit_code { DONE = 0, FAILED = 1, USAGE = 2 };

static const char usage[] =
    "usage: dlrover-rendezvous [--no-mpi | --network] --input=PATH\n"
    "Started by the supervisor (one MPI rank per node) and by "
    "agents (--no-mpi). '-' is\n"
    "the standard input, of the first rank. Not for people.\n";

/* --- input ------------------------------------------------------------------------ */

static int load_stdin(char **ret_text, size_t *ret_size)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0, room = 0;
    ssize_t n;

    do {
        if (room - size < 4096) {
            size_t bigger = room ? 2 * room : 65536;
            char *more = bigger <= INPUT_MAX ? realloc(text, bigger) : NULL;

            if (!more)
                return bigger <= INPUT_MAX ? -ENOMEM : -EFBIG;
            text = more;
            room = bigger;
        }
        n = read(STDIN_FILENO, text + size, room - size);
        if (n < 0 && errno != EINTR)
            return -errno;
        size += n > 0 ? (size_t)n : 0;
    } while (n);
    *ret_text = DLR_STEAL(text);
    *ret_size = size;
    return 0;
}

static int load_input(const char *path, char **ret_text, size_t *ret_size,
                      struct dlr_err *err)
{
    int rc;

    if (!dlr_streq(path, "-"))
        return dlr_file_load(AT_FDCWD, path, INPUT_MAX, ret_text, ret_size, err);
    rc = load_stdin(ret_text, ret_size);
    return rc < 0 ? dlr_fail(err, rc, "cannot read the input: %s", strerror(-rc)) : 0;
}

static int parse_input(const char *text, size_t size, struct dlr_plan_input *ret_input,
                       struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *j = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);

    if (!j) {
        memset(ret_input, 0, sizeof(*ret_input));
        return dlr_fail(err, -EBADMSG, "the input is not JSON");
    }
    return dlr_plan_input_from_json(j, ret_input, err);
}

/* --- output ----------------------------------------------------------------------- */

/* One line; srun labels nothing, the reader looks for the word. */
static int print_line(const char *word, const json_t *j)
{
    DLR_AUTO_FREE char *text = j ? dlr_msg_text(j) : NULL;
    DLR_AUTO_FREE char *line = text ? dlr_format_new("%s %s\n", word, text) : NULL;

    return line ? dlr_write_all(STDOUT_FILENO, line, strlen(line)) : -ENOMEM;
}

static int report_alone(const char *path)
{
    DLR_CLEANUP(dlr_plan_input_done) struct dlr_plan_input input = {0};
    DLR_CLEANUP(dlr_plan_report_done) struct dlr_plan_report report = {0};
    const struct dlr_report_clock no_clock = {0};
    DLR_AUTO_JSON json_t *j = NULL;
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_err err = {0};
    size_t size = 0;
    int rc = load_input(path, &text, &size, &err);

    if (rc == 0)
        rc = parse_input(text, size, &input, &err);
    if (rc == 0)
        dlr_report_make(&input.survey, &no_clock, &report);
    else
        dlr_report_refuse(err.text, &report);
    j = dlr_plan_report_to_json(&report);
    rc = print_line("DLROVER-REPORT", j);
    if (rc < 0)
        dlr_error("cannot print the report: %s", strerror(-rc));
    return rc < 0 ? FAILED : DONE;
}

/* --- MPI: no return between two collectives --------------------------------------- */

struct meeting {
    int rank, size;
    char node[DLR_TOPO_NAME];
    struct dlr_plan_input input;
    int rc; /* of this rank; carried in its report */
    struct dlr_err err;
    char *mine; /* report as text */
    char *all;  /* everybody's, one after the other */
    int *sizes, *offsets;
    struct dlr_net_result net; /* check NULL: no tournament */
    double phase_ms[6];        /* init, input, clock, network, report, gather */
};

/* Memory for the exchange itself: without it nobody can go on. */
static void *must(void *p)
{
    if (!p) {
        dlr_error("out of memory in the rendezvous");
        MPI_Abort(MPI_COMM_WORLD, FAILED);
    }
    return p;
}

static double since_ms(int64_t *from_ns)
{
    int64_t now = dlr_now_ns();
    double ms = (double)(now - *from_ns) / 1e6;

    *from_ns = now;
    return ms;
}

/* One rank reads it, all get its text: thousands of nodes do not open one file, and it
 * need not be on a shared file system. '-' is the first rank's standard input.
 */
static void share_input(struct meeting *m, const char *path)
{
    bool has = dlr_streq(path, "-") ? m->rank == 0 : access(path, R_OK) == 0;
    int mine = has ? m->rank : INT_MAX, root;
    unsigned long long bytes = 0;
    char *text = NULL;
    size_t size = 0;

    MPI_Allreduce(&mine, &root, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (root == m->rank && load_input(path, &text, &size, &m->err) == 0)
        bytes = size;
    if (root != INT_MAX)
        MPI_Bcast(&bytes, 1, MPI_UNSIGNED_LONG_LONG, root, MPI_COMM_WORLD);
    if (bytes && !text)
        text = must(malloc(bytes + 1));
    if (bytes)
        MPI_Bcast(text, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    if (bytes)
        m->rc = parse_input(text, bytes, &m->input, &m->err);
    else
        m->rc = dlr_fail(&m->err, -ENOENT, "no node can read the input '%.200s'", path);
    free(text);
}

/* The batch host looks at its clock when everybody has come to the barrier, and all
 * hear of it before they go on: the moment lies between the two looks at our own clock.
 */
static void share_clock(struct meeting *m, struct dlr_report_clock *ret_clock)
{
    int mine = m->rc == 0 && dlr_streq(m->node, m->input.want.batch) ? m->rank : -1,
        root;
    int64_t before_ns, after_ns, wall_ns;

    memset(ret_clock, 0, sizeof(*ret_clock));
    MPI_Allreduce(&mine, &root, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (root < 0)
        return;
    before_ns = dlr_now_ns();
    MPI_Barrier(MPI_COMM_WORLD);
    wall_ns = dlr_wall_ns();
    MPI_Bcast(&wall_ns, 1, MPI_INT64_T, root, MPI_COMM_WORLD);
    after_ns = dlr_now_ns();
    ret_clock->wall_ns = wall_ns;
    ret_clock->taken_ns = before_ns + (after_ns - before_ns) / 2;
    ret_clock->error_ns = (after_ns - before_ns + 1) / 2;
}

/* When all have read that it is wanted. */
static void play_tournament(struct meeting *m)
{
    const struct dlr_plan_survey *s = &m->input.survey;
    struct dlr_topo_node self = {0};
    int mine = m->rc == 0 && s->network_ms > 0, all;

    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all)
        return;
    dlr_report_place(s, &self);
    dlr_net_tournament(&self, s->no_stragglers, s->network_ms, &m->net);
}

static void make_report(struct meeting *m, const struct dlr_report_clock *clock)
{
    DLR_CLEANUP(dlr_plan_report_done) struct dlr_plan_report report = {0};
    DLR_AUTO_JSON json_t *j = NULL;

    if (m->rc == 0)
        dlr_report_make(&m->input.survey, clock, &report);
    else
        dlr_report_refuse(m->err.text, &report);
    if (m->net.check.check)
        dlr_report_add(&report, &m->net.check);
    j = dlr_plan_report_to_json(&report);
    m->mine = must(j ? dlr_msg_text(j) : NULL);
}

static void gather(struct meeting *m)
{
    int size = (int)strlen(m->mine), i;
    size_t total = 0;

    m->sizes = must(calloc((size_t)m->size, sizeof(*m->sizes)));
    m->offsets = must(calloc((size_t)m->size, sizeof(*m->offsets)));
    MPI_Allgather(&size, 1, MPI_INT, m->sizes, 1, MPI_INT, MPI_COMM_WORLD);
    for (i = 0; i < m->size; i++) {
        m->offsets[i] = (int)total;
        total += (size_t)m->sizes[i];
    }
    if (total > INT_MAX) /* the same on every rank */
        MPI_Abort(MPI_COMM_WORLD, FAILED);
    m->all = must(malloc(total + 1));
    MPI_Allgatherv(m->mine, size, MPI_BYTE, m->all, m->sizes, m->offsets, MPI_BYTE,
                   MPI_COMM_WORLD);
}

static int parse_reports(struct meeting *m, struct dlr_plan_report *reports,
                         struct dlr_err *err)
{
    int i, rc = 0;

    for (i = 0; rc == 0 && i < m->size; i++) {
        DLR_AUTO_JSON json_t *j = json_loadb(
            m->all + m->offsets[i], (size_t)m->sizes[i], JSON_REJECT_DUPLICATES, NULL);

        rc = j ? dlr_plan_report_from_json(j, &reports[i], err)
               : dlr_fail(err, -EBADMSG, "the report of rank %d is not JSON", i);
    }
    return rc;
}

/* The plan as JSON; a plan that cannot be made is its error. */
static json_t *make_plan(struct meeting *m)
{
    struct dlr_plan_report *reports = must(calloc((size_t)m->size, sizeof(*reports)));
    DLR_CLEANUP(dlr_plan_done) struct dlr_plan plan = {0};
    struct dlr_err err = {0};
    json_t *j;
    int rc = parse_reports(m, reports, &err), i;

    if (rc == 0)
        rc = dlr_plan_find_stragglers(reports, (unsigned)m->size,
                                      m->input.survey.no_stragglers);
    if (rc == 0 && m->rc < 0)
        rc = dlr_fail(&err, m->rc, "%s", m->err.text);
    if (rc == 0)
        rc = dlr_plan_make(reports, (unsigned)m->size, &m->input.want, &plan, &err);
    j = must(dlr_plan_to_json(&plan, rc < 0 ? &err : NULL));
    for (i = 0; i < m->size; i++)
        dlr_plan_report_done(&reports[i]);
    free(reports);
    return j;
}

/* True on every rank, or on none: all computed the same. */
static bool agree(const json_t *plan)
{
    DLR_AUTO_FREE char *text = must(json_dumps(plan, JSON_SORT_KEYS | JSON_COMPACT));
    uint64_t hash = XXH64(text, strlen(text), 0), both[2] = {hash, ~hash}, least[2];

    MPI_Allreduce(both, least, 2, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    return least[0] == ~least[1];
}

static void add_phases(struct meeting *m, json_t *plan)
{
    static const char *const names[] = {"init",    "input",  "clock",
                                        "network", "report", "gather"};
    json_t *phases = json_object();
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        json_object_set_new(phases, names[i], json_real(m->phase_ms[i]));
    json_object_set_new(plan, "phases", phases);
}

static void meeting_done(struct meeting *m)
{
    dlr_plan_input_done(&m->input);
    free(m->mine);
    free(m->all);
    free(m->sizes);
    free(m->offsets);
    json_decref(m->net.links);
}

static int rendezvous(const char *path, int64_t start_ns)
{
    DLR_CLEANUP(meeting_done) struct meeting m = {0};
    struct dlr_report_clock clock;
    DLR_AUTO_JSON json_t *plan = NULL;
    bool same;
    int rc = 0;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &m.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &m.size);
    dlr_report_node_name(m.node, sizeof(m.node));
    m.phase_ms[0] = since_ms(&start_ns);
    share_input(&m, path);
    m.phase_ms[1] = since_ms(&start_ns);
    share_clock(&m, &clock);
    m.phase_ms[2] = since_ms(&start_ns);
    play_tournament(&m);
    m.phase_ms[3] = since_ms(&start_ns);
    make_report(&m, &clock);
    m.phase_ms[4] = since_ms(&start_ns);
    gather(&m);
    m.phase_ms[5] = since_ms(&start_ns);
    plan = make_plan(&m);
    same = agree(plan);
    if (m.rank == 0 && same) {
        add_phases(&m, plan);
        rc = print_line("DLROVER-PLAN", plan);
        if (rc == 0 && m.net.links) /* last: it may be long, and is not needed */
            print_line("DLROVER-LINKS", m.net.links);
    }
    if (m.rank == 0 && (!same || rc < 0))
        dlr_error("%s",
                  same ? "cannot print the plan" : "ranks computed different plans");
    if (m.net.hung)
        alarm(FINALIZE_S); /* the plan is out: this process may be killed */
    MPI_Finalize();
    return !same || rc < 0 ? FAILED : DONE;
}

/* A meeting is a few small messages: what Open MPI and hwloc load for fast networks and
 * GPUs takes longer than all of it. On nodes with fewer cores than ranks, as in a test,
 * waiting must not keep others from the CPU. The network is measured over what the
 * training uses, though: MPI chooses it. What the environment says goes first.
 */
static void start_light(bool network)
{
    static const char *const settings[][2] = {
        {"OMPI_MCA_mpi_yield_when_idle", "1"},
        {"OMPI_MCA_osc", "^ucx"},
        {"HWLOC_PLUGINS_BLACKLIST",
         "hwloc_opencl.so,hwloc_gl.so,hwloc_cuda.so,hwloc_nvml.so,hwloc_pci.so"},
        {"OMPI_MCA_pml", "ob1"}, /* from here on: without the network's measurement */
        {"OMPI_MCA_btl", "tcp,self"},
    };
    size_t n = sizeof(settings) / sizeof(settings[0]) - (network ? 2 : 0), i;

    for (i = 0; i < n; i++)
        setenv(settings[i][0], settings[i][1], 0);
}

int main(int argc, char **argv)
{
    int64_t start_ns = dlr_now_ns();
    const char *input = NULL, *value;
    bool with_mpi = true, network = false;
    int i;

    for (i = 1; i < argc; i++) {
        if ((value = dlr_after(argv[i], "--input=")))
            input = value;
        else if (dlr_streq(argv[i], "--no-mpi"))
            with_mpi = false;
        else if (dlr_streq(argv[i], "--network"))
            network = true;
        else
            input = NULL, i = argc;
    }
    if (!input || !input[0]) {
        dlr_write_all(STDERR_FILENO, usage, sizeof(usage) - 1);
        return USAGE;
    }
    start_light(network);
    return with_mpi ? rendezvous(input, start_ns) : report_alone(input);
}
