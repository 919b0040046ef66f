/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/install_path.h"
#include "common/base/str.h"

#define FIELD(f) offsetof(struct dlr_agent_conf, f)

/* clang-format off */
static const struct dlr_opt opts[] = {
    {"control", DLR_OPT_WORD, FIELD(control), "", "HOST:PORT",
     "where the supervisor listens"},
    {"job", DLR_OPT_WORD, FIELD(job), "", "ID", "Slurm's job id"},
    {"run", DLR_OPT_WORD, FIELD(run), "", "NAME", "the run's name"},
    {"gen", DLR_OPT_UINT, FIELD(gen), "0", "N", "the supervisor's generation"},
    {"memory", DLR_OPT_PATH, FIELD(memory), "", "DIR",
     "directory in /dev/shm for this run's snapshots"},
    {"run-dir", DLR_OPT_PATH, FIELD(run_dir), "", "DIR",
     "the run's directory on a shared file system: journal and state"},
    {"key", DLR_OPT_WORD, FIELD(key), "", "TEXT", "cluster.job.run: names the snapshots"},
    {"peer-ports", DLR_OPT_WORD, FIELD(peer_ports), "0", "FIRST-LAST",
     "ports for talking to the other agents, 0 for any"},
    {"node", DLR_OPT_WORD, FIELD(node), "", "NAME",
     "this node's name, Slurm's when empty"},
    {"data-program", DLR_OPT_PATH, FIELD(data_program), "", "PATH",
     "the data process, dlrover-data beside this program when empty"},
    {"report-program", DLR_OPT_PATH, FIELD(report_program), "", "PATH",
     "makes node reports, dlrover-rendezvous beside this program when empty"},
    DLR_OPT_END,
};
/* clang-format on */

static void help(void)
{
    printf("usage: dlrover-agent --control=HOST:PORT --job=ID --run=NAME --memory=DIR "
           "--key=TEXT [OPTION...]\n\n"
           "Keeps one node of a supervised job: its workers, its snapshots. Started by "
           "the\n"
           "supervisor with srun; the environment variable DLROVER_CRED says whom to "
           "trust.\n"
           "\n");
    dlr_opt_help(opts, "", stdout);
    printf("\nSettings of the job:\n");
    dlr_opt_help(dlr_job_config_opts, "", stdout);
    printf("\n  --help, --version\n");
}

static int set_word(struct dlr_agent_self *self, const char *word, struct dlr_err *err)
{
    int rc = dlr_opt_set_word(opts, word, &self->conf, err);

    if (rc == -ENOENT)
        rc = dlr_opt_set_word(dlr_job_config_opts, word, &self->job, err);
    return rc;
}

static int default_paths(struct dlr_agent_self *self, struct dlr_err *err)
{
    struct dlr_agent_conf *c = &self->conf;
    const char *name = getenv("SLURMD_NODENAME");
    int rc = 0;

    if (!*c->data_program)
        rc = dlr_install_path_sibling("dlrover-data", c->data_program,
                                      sizeof(c->data_program));
    if (rc == 0 && !*c->report_program)
        rc = dlr_install_path_sibling("dlrover-rendezvous", c->report_program,
                                      sizeof(c->report_program));
    if (rc == 0)
        rc = dlr_install_path_sibling("dlrover-stacks", c->stacks_program,
                                      sizeof(c->stacks_program));
    if (rc < 0)
        return dlr_fail(err, rc, "cannot find the programs beside this one: %s",
                        strerror(-rc));
    if (*c->node)
        return dlr_format(self->node, sizeof(self->node), "%s", c->node);
    if (name)
        return dlr_format(self->node, sizeof(self->node), "%s", name);
    return gethostname(self->node, sizeof(self->node) - 1) < 0 ? -errno : 0;
}

static int check_needed(struct dlr_agent_self *self, struct dlr_err *err)
{
    const struct {
        const char *name, *value;
    } needed[] = {{"control", self->conf.control}, {"job", self->conf.job},
                  {"run", self->conf.run},         {"memory", self->conf.memory},
                  {"run-dir", self->conf.run_dir}, {"key", self->conf.key}};

    if (!getenv("DLROVER_CRED"))
        return dlr_fail(err, -EINVAL,
                        "DLROVER_CRED is not set: this program is started "
                        "by dlrover's supervisor, not by hand; see --help");
    for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
        if (!*needed[i].value)
            return dlr_fail(err, -EINVAL, "--%s is missing; see --help",
                            needed[i].name);
    if (dlr_format(self->run.job, sizeof(self->run.job), "%s", self->conf.job) < 0 ||
        dlr_format(self->run.run, sizeof(self->run.run), "%s", self->conf.run) < 0)
        return dlr_fail(err, -EINVAL, "--job or --run is too long");
    self->run.gen = self->conf.gen;
    return 0;
}

int dlr_agent_conf_parse(int argc, char **argv, struct dlr_agent_self *self,
                         struct dlr_err *err)
{
    int rc = dlr_opt_defaults(opts, &self->conf, err);

    if (rc < 0)
        return rc;
    dlr_job_config_init(&self->job);
    for (int i = 1; i < argc; i++) {
        const char *word = dlr_after(argv[i], "--");

        if (dlr_streq(word, "help")) {
            help();
            return 1;
        }
        if (dlr_streq(word, "version")) {
            printf("dlrover-agent %s\n", DLR_VERSION);
            return 1;
        }
        if (!word)
            return dlr_fail(err, -EINVAL, "'%s' is no option; see --help", argv[i]);
        rc = set_word(self, word, err);
        if (rc < 0)
            return rc;
    }
    rc = check_needed(self, err);
    return rc < 0 ? rc : default_paths(self, err);
}
