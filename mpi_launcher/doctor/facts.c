/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked once, before the checks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/str.h"
#include "mpi_launcher/doctor/doctor.h"

/* where slurmd keeps what it was sent */
#define CONFLESS "/run/slurm/conf/plugstack.conf"

struct config {
    int status;
    char text[DLR_DOCTOR_CONFIG];
};

static void ask_config(const struct dlr_doctor *d, void *ret)
{
    static const char *const argv[] = {"scontrol", "show", "config", NULL};
    struct config *c = ret;

    c->status = dlr_doctor_capture(argv, c->text, sizeof(c->text));
}

struct release {
    char text[256];
};

static void ask_release(const struct dlr_doctor *d, void *ret)
{
    static const char *const argv[] = {"srun", "--version", NULL};
    struct release *r = ret;

    if (dlr_doctor_capture(argv, r->text, sizeof(r->text)) != 0)
        r->text[0] = '\0';
}

/* "slurm-wlm 22.05.8" -> "22.05.8"; before that line srun may say what plugins complain
 * of.
 */
static void take_release(struct dlr_doctor *d, const char *text)
{
    const char *line = text;

    while (line && !dlr_after(line, "slurm")) {
        line = strchr(line, '\n');
        line += line != NULL;
    }
    if (!line)
        return;
    line += strcspn(line, " \n");
    line += *line == ' ';
    dlr_format(d->release, sizeof(d->release), "%.*s", (int)strspn(line, "0123456789."),
               line);
}

bool dlr_doctor_config(const struct dlr_doctor *d, const char *key, char *buf,
                       size_t size)
{
    size_t len = strlen(key);

    for (const char *at = d->config; at && *at;) {
        const char *end = strchrnul(at, '\n');

        if (strncmp(at, key, len) == 0 && (at[len] == ' ' || at[len] == '=')) {
            const char *value = at + len;

            value += strspn(value, " ");
            if (*value++ != '=')
                return false;
            value += strspn(value, " ");
            if (value >= end || dlr_after(value, "(null"))
                return false;
            return dlr_format(buf, size, "%.*s", (int)(end - value), value) == 0;
        }
        at = *end ? end + 1 : end;
    }
    return false;
}

static void find_state_dir(struct dlr_doctor *d)
{
    const char *dir = getenv("DLROVER_STATE_DIR"), *home = getenv("HOME");

    if (d->state_dir[0])
        return;
    if (dir && dir[0])
        dlr_format(d->state_dir, sizeof(d->state_dir), "%s", dir);
    else if (home && home[0])
        dlr_format(d->state_dir, sizeof(d->state_dir), "%s/.dlrover", home);
}

/* PlugStackConfig, else beside slurm.conf. */
static void find_plugstack(struct dlr_doctor *d)
{
    const char *conf = getenv("SLURM_CONF");
    char file[PATH_MAX];

    if (dlr_doctor_config(d, "PluginDir", d->plugin_dirs, sizeof(d->plugin_dirs)) &&
        dlr_doctor_config(d, "PlugStackConfig", d->plugstack, sizeof(d->plugstack)))
        return;
    if (!dlr_doctor_config(d, "SLURM_CONF", file, sizeof(file)) || access(file, F_OK))
        dlr_format(file, sizeof(file), "%s", conf && *conf ? conf : "/etc/slurm/x");
    if (strrchr(file, '/'))
        strrchr(file, '/')[0] = '\0';
    dlr_format(d->plugstack, sizeof(d->plugstack), "%.4000s/plugstack.conf", file);
    if (access(d->plugstack, F_OK) < 0 && access(CONFLESS, F_OK) == 0)
        dlr_format(d->plugstack, sizeof(d->plugstack), "%s", CONFLESS);
}

void dlr_doctor_look(struct dlr_doctor *d)
{
    struct config *c = calloc(1, sizeof(*c));
    struct release r = {0};
    ssize_t n = readlink("/proc/self/exe", d->self, sizeof(d->self) - 1);

    d->self[n > 0 ? n : 0] = '\0';
    if (dlr_doctor_bounded(ask_release, d, &r, sizeof(r), d->limit_ms,
                           "srun --version") == 0)
        take_release(d, r.text);
    d->config_rc =
        c ? dlr_doctor_bounded(ask_config, d, c, sizeof(*c), d->limit_ms, "slurmctld")
          : -ENOMEM;
    if (d->config_rc == 0)
        d->config_rc = c->status < 0 ? c->status : c->status ? -EIO : 0;
    d->config = d->config_rc == 0 ? strdup(c->text) : NULL;
    free(c);
    find_plugstack(d);
    find_state_dir(d);
}

void dlr_doctor_done(struct dlr_doctor *d)
{
    free(d->config);
    free(d->nodes);
    d->config = d->nodes = NULL;
}
