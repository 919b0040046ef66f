/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* The question for the switch tree: an answer, none, a late one. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/network.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

#define NODES 3

static struct dlr_job_config conf;
static struct dlr_runinfo info = {.job = "7"};
static struct dlr_sup_io *io;
static struct dlr_sup_nodes *nodes;
static struct dlr_sup_steps *steps;
static bool not_started, killed;
static unsigned mapped;
static int status, out = -1;
static char asked[512], said[DLR_TOPO_NOTE + 64];
static zloop_fn *ended;

int64_t dlr_sup_now(void)
{
    return 1000;
}
void dlr_user_line(struct dlr_sup_io *to, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}
int dlr_sup_watch(struct dlr_sup_io *to, int fd, zloop_fn *fn, void *arg)
{
    ended = fn;
    return 0;
}
void dlr_sup_unwatch(struct dlr_sup_io *to, int fd)
{
}
int dlr_proc_start(char *const *argv, char *const *envp, int in, int to, int err_fd,
                   struct dlr_proc *ret, struct dlr_err *err)
{
    if (not_started)
        return -1;
    snprintf(asked, sizeof(asked), "%s %s '%s'", argv[1], argv[2], argv[3]);
    out = dup(to);
    *ret = (struct dlr_proc){.pid = 70, .pidfd = 900};
    return 0;
}
int dlr_proc_reap(struct dlr_proc *proc)
{
    *proc = (struct dlr_proc){.pidfd = -1};
    return status;
}
void dlr_proc_kill(const struct dlr_proc *proc, int sig)
{
    killed = sig == SIGKILL;
}

static void on_mapped(void *arg)
{
    mapped++;
}
static bool is_over(void *arg)
{
    return false;
}

static int begin(void **state)
{
    static const struct dlr_sup_steps_ops ops = {.mapped = on_mapped, .over = is_over};
    static char n[NODES][3] = {"n0", "n1", "n2"};
    char *names[NODES] = {n[0], n[1], n[2]};
    struct dlr_sup_nodes_env nodes_env = {.conf = &conf};
    struct dlr_sup_steps_env env = {.conf = &conf, .info = &info};
    struct dlr_err err;

    dlr_job_config_init(&conf);
    io = nodes_env.io = env.io = dlr_sup_io_new(NULL, NULL);
    nodes = env.nodes = dlr_sup_nodes_new(&nodes_env, NULL, NULL);
    assert_int_equal(dlr_sup_nodes_open(nodes, names, NODES, NULL, &err), 0);
    steps = dlr_sup_steps_new(&env, &ops, NULL);
    assert_int_equal(dlr_sup_steps_open(steps, NULL, &err), 0);
    not_started = killed = false;
    mapped = 0;
    status = 0;
    said[0] = '\0';
    return 0;
}

static int end(void **state)
{
    dlr_sup_steps_free(steps);
    dlr_sup_nodes_free(nodes);
    dlr_sup_io_free(io);
    return 0;
}

static void answer(const char *text)
{
    zmq_pollitem_t item = {.fd = 900};

    assert_int_equal(write(out, text, strlen(text)), (ssize_t)strlen(text));
    close(out);
    assert_int_equal(ended(NULL, &item, steps), 0);
}

static const char *path_of(unsigned node)
{
    return nodes->members.list[node].node.path;
}

static void the_tree_goes_before_what_nodes_say(void **state)
{
    dlr_format(conf.topology_file, sizeof(conf.topology_file), "/etc/x");
    dlr_sup_network_start(steps);
    assert_string_equal(asked, "paths n0,n1,n2 '/etc/x'");
    assert_true(dlr_sup_network_is_asked(steps));
    answer("/etc/x\n/etc/x: odd\nn0 top.a.n0\nn9 top.a.n9\nn1 n1\nn2 top.b.n2\n");
    assert_false(dlr_sup_network_is_asked(steps));
    assert_int_equal(mapped, 1);
    assert_string_equal(path_of(0), "top.a.n0");
    assert_string_equal(path_of(1), "n1");
    for (unsigned i = 0; i < NODES; i++) /* one without a switch, too */
        assert_true(nodes->members.list[i].mapped);
    dlr_sup_network_tell(steps);
    assert_string_equal(said, "switches: /etc/x: odd");
    said[0] = '\0';
    dlr_sup_network_tell(steps);
    assert_string_equal(said, ""); /* once */
}

static void without_an_answer_each_nodes_own_word_counts(void **state)
{
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"-\n\n", 0},         {"", 0}, {"Slurm", 0}, {"Slurm\n\nn0 a.n0\n", 9},
        {"Slurm\n\nn0\n", 0},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dlr_sup_network_start(steps);
        status = rows[i].status;
        answer(rows[i].text);
        assert_int_equal(mapped, i + 1);
        for (unsigned k = 0; k < NODES; k++)
            assert_false(nodes->members.list[k].mapped);
    }
    dlr_sup_network_tell(steps);
    assert_string_equal(said, "");
}

static void nobody_waits_for_it_longer_than_its_limit(void **state)
{
    dlr_sup_network_start(steps);
    dlr_sup_network_tick(steps, 5999);
    assert_false(killed);
    dlr_sup_network_tick(steps, 6000);
    assert_true(killed);
    status = 9;
    answer("");
    assert_int_equal(mapped, 1);
    killed = false;
    dlr_sup_network_tick(steps, 7000);
    assert_false(killed);
    dlr_sup_network_tell(steps);
    assert_string_equal(said, "switches: nobody could be asked for them, or has not "
                              "answered in time: each node's own word counts");
}

static void one_that_cannot_be_asked_is_not_waited_for(void **state)
{
    not_started = true;
    dlr_sup_network_start(steps);
    assert_false(dlr_sup_network_is_asked(steps));
    assert_int_equal(mapped, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(the_tree_goes_before_what_nodes_say),
        T(without_an_answer_each_nodes_own_word_counts),
        T(nobody_waits_for_it_longer_than_its_limit),
        T(one_that_cannot_be_asked_is_not_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
