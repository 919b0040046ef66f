/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/spank/fake_spank.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"

struct fake_spank fake;

void fake_reset(spank_context_t context)
{
    memset(&fake, 0, sizeof(fake));
    fake.context = context;
}

int fake_option(const char *name, const char *value, int remote)
{
    for (unsigned i = 0; i < fake.noptions; i++)
        if (dlr_streq(fake.options[i].name, name))
            return fake.options[i].cb(fake.options[i].val, value, remote);
    return -2;
}

const char *fake_var(const char *name)
{
    for (unsigned i = 0; i < fake.nvars; i++)
        if (dlr_streq(fake.vars[i].name, name))
            return fake.vars[i].value;
    return NULL;
}

spank_context_t spank_context(void)
{
    return fake.context;
}

spank_err_t spank_option_register(spank_t sp, struct spank_option *opt)
{
    unsigned at = fake.noptions++;

    dlr_format(fake.options[at].name, sizeof(fake.options[at].name), "%s", opt->name);
    dlr_format(fake.options[at].arginfo, sizeof(fake.options[at].arginfo), "%s",
               opt->arginfo);
    dlr_format(fake.options[at].usage, sizeof(fake.options[at].usage), "%s",
               opt->usage);
    fake.options[at].val = opt->val;
    fake.options[at].cb = opt->cb;
    return opt->has_arg == 1 ? ESPANK_SUCCESS : ESPANK_BAD_ARG;
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
    spank_err_t rc = ESPANK_SUCCESS;
    va_list ap;

    va_start(ap, item);
    switch (item) {
    case S_JOB_ENV:
        *va_arg(ap, char ***) = fake.job_env;
        break;
    case S_JOB_ID:
        *va_arg(ap, uint32_t *) = fake.job;
        break;
    case S_JOB_STEPID:
        *va_arg(ap, uint32_t *) = fake.step;
        break;
    case S_JOB_UID:
        *va_arg(ap, uid_t *) = fake.uid;
        break;
    case S_JOB_GID:
        *va_arg(ap, gid_t *) = fake.gid;
        break;
    case S_JOB_ALLOC_MEM:
        *va_arg(ap, uint64_t *) = fake.mem_mb;
        break;
    case S_JOB_TOTAL_TASK_COUNT:
        *va_arg(ap, uint32_t *) = fake.world;
        break;
    case S_TASK_GLOBAL_ID:
        *va_arg(ap, uint32_t *) = fake.rank;
        break;
    case S_TASK_PID:
        *va_arg(ap, pid_t *) = fake.pid;
        break;
    case S_TASK_EXIT_STATUS:
        *va_arg(ap, int *) = fake.status;
        break;
    default:
        rc = ESPANK_BAD_ARG;
    }
    va_end(ap);
    return rc;
}

static spank_err_t note(const char *name, const char *value)
{
    unsigned at = fake.nvars++;

    dlr_format(fake.vars[at].name, sizeof(fake.vars[at].name), "%s", name);
    dlr_format(fake.vars[at].value, sizeof(fake.vars[at].value), "%s", value);
    return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t sp, const char *name, const char *value, int overwrite)
{
    return overwrite ? note(name, value) : ESPANK_ENV_EXISTS;
}

spank_err_t spank_unsetenv(spank_t sp, const char *name)
{
    return note(name, "-");
}

spank_err_t spank_job_control_setenv(spank_t sp, const char *name, const char *value,
                                     int overwrite)
{
    dlr_format(fake.kept_name, sizeof(fake.kept_name), "%s", name);
    dlr_format(fake.kept, sizeof(fake.kept), "%s", value);
    return ESPANK_SUCCESS;
}

__attribute__((format(printf, 2, 0))) static void log_line(const char *level,
                                                           const char *fmt, va_list ap)
{
    size_t used = strlen(fake.log);
    char text[1024];

    vsnprintf(text, sizeof(text), fmt, ap);
    snprintf(fake.log + used, sizeof(fake.log) - used, "%s: %s\n", level, text);
}

#define LOG(fn, level)                                                                 \
    void fn(const char *fmt, ...)                                                      \
    {                                                                                  \
        va_list ap;                                                                    \
                                                                                       \
        va_start(ap, fmt);                                                             \
        log_line(level, fmt, ap);                                                      \
        va_end(ap);                                                                    \
    }

LOG(slurm_error, "error")
LOG(slurm_info, "info")
LOG(slurm_debug, "debug")
