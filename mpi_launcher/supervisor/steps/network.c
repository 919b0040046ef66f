/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/steps/network.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/hostlist.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

/* As the plugin waits for the batch script's view (spank/task/batch_env.h). */
#define NETWORK_MS 5000

static char *read_answer(int fd)
{
    DLR_AUTO_FREE char *text = NULL;
    struct stat st;

    if (fstat(fd, &st) < 0 || !(text = malloc((size_t)st.st_size + 1)) ||
        pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
        return NULL;
    text[st.st_size] = '\0';
    return DLR_STEAL(text);
}

/* The line's end becomes a NUL; *at goes to the next. NULL: there is none. */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');

    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

/* What dlr_network_write() has written. */
static void take_answer(struct dlr_sup_steps *steps, char *text)
{
    struct dlr_sup_network *net = &steps->network;
    char *source = next_line(&text), *note = source ? next_line(&text) : NULL, *line;

    if (!note)
        return;
    dlr_format(net->note, sizeof(net->note), "%s", note);
    if (!dlr_streq(source, "-"))
        dlr_format(net->source, sizeof(net->source), "%s", source);
    while ((line = next_line(&text))) {
        char *path = strchr(line, ' ');
        int node;

        if (!path)
            continue;
        *path++ = '\0';
        node = dlr_members_find(steps->members, line);
        if (node >= 0)
            dlr_sup_node_set_path(steps->env.nodes, (unsigned)node, path);
    }
}

static int answered(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_steps *steps = arg;
    struct dlr_sup_network *net = &steps->network;
    DLR_AUTO_FREE char *text = NULL;

    dlr_sup_unwatch(steps->env.io, net->ask.pidfd);
    if (dlr_proc_reap(&net->ask) == 0 && (text = read_answer(net->out)))
        take_answer(steps, text);
    else
        dlr_format(net->note, sizeof(net->note),
                   "nobody could be asked for them, or has not answered in time: each "
                   "node's own word counts");
    close(net->out);
    steps->ops->mapped(steps->arg);
    return dlr_sup_steps_go_on(steps);
}

static char *list_nodes(const struct dlr_members *members)
{
    DLR_AUTO_FREE const char **names = calloc(members->n + 1, sizeof(*names));
    char *list = NULL;

    for (unsigned i = 0; names && i < members->n; i++)
        names[i] = members->list[i].node.name;
    if (names)
        dlr_hostlist_join(names, members->n, &list);
    return list;
}

void dlr_sup_network_start(struct dlr_sup_steps *steps)
{
    struct dlr_sup_network *net = &steps->network;
    DLR_AUTO_CLOSE int out = memfd_create("dlrover-network", MFD_CLOEXEC);
    DLR_AUTO_FREE char *list = list_nodes(steps->members);
    struct dlr_words words = {0};
    struct dlr_err err;

    dlr_sup_slurm_words(steps, &words, "paths", false);
    dlr_words_add(&words, "%s", list ? list : "");
    dlr_words_add(&words, "%s", steps->env.conf->topology_file);
    if (list && out >= 0 && dlr_sup_start_slurm(&words, out, &net->ask, &err) == 0) {
        net->out = dlr_steal_fd(&out);
        net->late_ms = dlr_sup_now() + NETWORK_MS;
        dlr_sup_watch(steps->env.io, net->ask.pidfd, answered, steps);
    } else {
        steps->ops->mapped(steps->arg);
    }
    dlr_words_done(&words);
}

void dlr_sup_network_tick(struct dlr_sup_steps *steps, int64_t now_ms)
{
    struct dlr_sup_network *net = &steps->network;

    if (net->ask.pid && now_ms >= net->late_ms)
        dlr_proc_kill(&net->ask, SIGKILL); /* its end is no answer */
}

bool dlr_sup_network_is_asked(const struct dlr_sup_steps *steps)
{
    return steps->network.ask.pid != 0;
}

/* By the nodes' own word, when the job's tree is not known. */
static bool has_switches(const struct dlr_members *members)
{
    for (unsigned i = 0; i < members->n; i++)
        if (!dlr_streq(members->list[i].node.path, members->list[i].node.name))
            return true;
    return false;
}

void dlr_sup_network_tell(struct dlr_sup_steps *steps)
{
    struct dlr_sup_network *net = &steps->network;
    const char *source = net->source[0] ? net->source : NULL;

    if (net->told)
        return;
    net->told = true;
    if (!source && has_switches(steps->members))
        source = "SLURM_TOPOLOGY_ADDR";
    dlr_journal_note(dlr_sup_journal(steps->env.io), "topology", "s:s?,s:s", "source",
                     source, "note", net->note);
    if (net->note[0])
        dlr_user_line(steps->env.io, "switches: %s", net->note);
}
