/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task/bind.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/str.h"
#include "hwloc_topo/bind.h"

_Static_assert(CPU_SETSIZE == DLR_TOPO_CPUS, "one set of CPUs in two places");

#define TEXT 1024 /* of a variable; what is longer is left out */

/* --- which GPUs ------------------------------------------------------------------- */

/* "0,3": how many numbers; -1 when it is not such a list, or a longer one. */
static int read_numbers(const char *text, unsigned ret[DLR_MACHINE_GPUS])
{
    int n = 0;

    while (*text) {
        size_t len = strcspn(text, ",");
        char word[16];

        if (n == DLR_MACHINE_GPUS ||
            dlr_format(word, sizeof(word), "%.*s", (int)len, text) < 0 ||
            dlr_parse_uint(word, UINT16_MAX, &ret[n++]) < 0)
            return -1;
        text += len + (text[len] == ',');
    }
    return n;
}

static int find_minor(const struct dlr_machine *m, unsigned minor)
{
    for (unsigned i = 0; i < m->gpus; i++)
        if (m->gpu[i].minor == minor)
            return (int)i;
    return -1;
}

/* Slurm's numbers of GPUs, which are those of /dev/nvidiaN, made indices. */
static bool find_minors(const struct dlr_machine *m, unsigned *gpus, int n)
{
    for (int i = 0; i < n; i++) {
        int at = find_minor(m, gpus[i]);

        if (at < 0)
            return false;
        gpus[i] = (unsigned)at;
    }
    return true;
}

static int by_number(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return (x > y) - (x < y);
}

static bool are_ascending(const unsigned *numbers, int n)
{
    for (int i = 1; i < n; i++)
        if (numbers[i] <= numbers[i - 1])
            return false;
    return true;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Slurm has given the step these GPUs, and shows all of them to each task, in CUDA's
 * order, or to each task its share of them, in Slurm's own. In a cgroup for devices
 * CUDA's numbers begin at 0 whatever the GPUs are, so only SLURM_STEP_GPUS says which.
 */
static int find_slurms(const struct dlr_machine *m, const unsigned *cuda, int ncuda,
                       const char *step, unsigned n, unsigned *gpus)
{
    int count = read_numbers(step, gpus);

    if (count <= 0 || !find_minors(m, gpus, count) || !are_ascending(cuda, ncuda))
        return -1;
    if ((unsigned)count == n * (unsigned)ncuda)
        return count;
    if (count != ncuda)
        return -1;
    qsort(gpus, (size_t)count, sizeof(*gpus), by_number);
    return (int)least((unsigned)count, n);
}

/* The user's own list, or one of a Slurm that does not tell the step's GPUs. */
static int find_users(const struct dlr_machine *m, const unsigned *cuda, int ncuda,
                      unsigned n, unsigned *gpus)
{
    for (int i = 0; i < ncuda; i++) {
        if (cuda[i] >= m->gpus)
            return -1;
        gpus[i] = cuda[i];
    }
    return (int)least((unsigned)ncuda, n);
}

/* Nobody has said anything: all of the node's. */
static int find_all(const struct dlr_machine *m, bool order, unsigned n, unsigned *gpus)
{
    for (unsigned i = 0; i < m->gpus; i++)
        gpus[i] = i;
    return (int)(order ? m->gpus : least(m->gpus, n));
}

static int find_gpus(const struct dlr_machine *m, char *const env[], unsigned n,
                     unsigned *gpus, bool order)
{
    const char *text = dlr_env_get(env, "CUDA_VISIBLE_DEVICES");
    const char *step = dlr_env_get(env, "SLURM_STEP_GPUS");
    unsigned cuda[DLR_MACHINE_GPUS];
    int ncuda;

    if (!text)
        return step ? -1 : find_all(m, order, n, gpus);
    if (!*text || dlr_streq(text, "NoDevFiles")) /* as Slurm says that there is none */
        return 0;
    ncuda = read_numbers(text, cuda);
    if (ncuda <= 0)
        return -1;
    return step ? find_slurms(m, cuda, ncuda, step, n, gpus)
                : find_users(m, cuda, ncuda, n, gpus);
}

int dlr_task_bind_gpus(const struct dlr_machine *m, char *const env[], unsigned n,
                       unsigned gpus[DLR_MACHINE_GPUS], bool *order,
                       struct dlr_err *err)
{
    const char *said = dlr_env_get(env, "CUDA_DEVICE_ORDER");
    bool may = *order && !dlr_env_get(env, "CUDA_VISIBLE_DEVICES") &&
               (!said || dlr_streq(said, "PCI_BUS_ID"));
    int count = m->gpus > 0 ? find_gpus(m, env, n, gpus, may) : 0;

    if (count < 0)
        return dlr_fail(err, -ENODATA, "cannot tell which of the node's %u GPUs it has",
                        m->gpus);
    *order = may && count > 0;
    return count;
}

/* --- CPUs ------------------------------------------------------------------------- */

static void to_cpus(const cpu_set_t *set, struct dlr_topo_cpus *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++)
        if (CPU_ISSET(cpu, set))
            ret->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

static int bind_to(const struct dlr_topo_cpus *cpus, struct dlr_err *err)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++)
        if (cpus->bits[cpu / 64] >> cpu % 64 & 1)
            CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        return dlr_fail(err, -errno, "sched_setaffinity: %s", strerror(errno));
    return 0;
}

/* All that the step's cgroup lets the task use, when nobody has bound it to less. The
 * kernel cuts a wish for all CPUs down to that.
 */
static int find_usable(struct dlr_topo_cpus *ret, struct dlr_err *err)
{
    cpu_set_t now, all, most;

    memset(&all, 0xff, sizeof(all));
    if (sched_getaffinity(0, sizeof(now), &now) < 0 ||
        sched_setaffinity(0, sizeof(all), &all) < 0 ||
        sched_getaffinity(0, sizeof(most), &most) < 0)
        return dlr_fail(err, -errno, "cannot read its CPUs: %s", strerror(errno));
    if (!CPU_EQUAL(&now, &most)) {
        sched_setaffinity(0, sizeof(now), &now);
        return dlr_fail(err, -EALREADY, "Slurm has bound it");
    }
    to_cpus(&now, ret);
    return 0;
}

/* --- variables -------------------------------------------------------------------- */

/* Unless it is set; a variable that finds no memory is left out. */
static void add(struct dlr_task_env *vars, char *const env[], const char *name,
                const char *value)
{
    struct dlr_task_var *var = &vars->vars[vars->count];

    if (!*value || dlr_env_get(env, name))
        return;
    var->name = name;
    var->value = strdup(value);
    if (var->value)
        vars->count++;
}

static void list_gpus(const struct dlr_bind_rank *ranks, unsigned n, char *text)
{
    unsigned order[DLR_MACHINE_GPUS], count = dlr_bind_gpu_order(ranks, n, order);
    size_t at = 0;

    *text = '\0';
    for (unsigned i = 0; i < count && at < TEXT; i++)
        at += (size_t)snprintf(text + at, TEXT - at, "%s%u", i ? "," : "", order[i]);
}

static void list_nics(const struct dlr_machine *m, const struct dlr_bind_rank *rank,
                      char *text)
{
    size_t at = 0;

    *text = '\0';
    for (unsigned i = 0; i < rank->nnics && at < TEXT; i++) {
        const struct dlr_machine_nic *nic = &m->nic[rank->nics[i]];

        at += (size_t)snprintf(text + at, TEXT - at, "%s%s:%u", i ? "," : "", nic->name,
                               nic->port);
    }
    if (at >= TEXT)
        *text = '\0';
}

static void tell(const struct dlr_machine *m, const struct dlr_bind_rank *ranks,
                 unsigned local, unsigned n, bool order_gpus, char *const env[],
                 struct dlr_task_env *vars)
{
    const struct dlr_bind_rank *rank = &ranks[local];
    char text[TEXT + 1];

    snprintf(text, sizeof(text), "%u", rank->cores);
    add(vars, env, "OMP_NUM_THREADS", text);
    if (order_gpus) {
        list_gpus(ranks, n, text);
        add(vars, env, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        add(vars, env, "CUDA_VISIBLE_DEVICES", text);
    }
    list_nics(m, rank, text + 1);
    add(vars, env, "UCX_NET_DEVICES", text + 1);
    text[0] = '='; /* exactly these: else mlx5_1 is mlx5_10, too */
    add(vars, env, "NCCL_IB_HCA", text[1] ? text : "");
}

/* --- the whole -------------------------------------------------------------------- */

static int place(const struct dlr_machine *m, bool cores, unsigned local, unsigned n,
                 char *const env[], struct dlr_task_env *vars, struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_bind_rank *ranks = calloc(n, sizeof(*ranks));
    unsigned gpus[DLR_MACHINE_GPUS];
    struct dlr_topo_cpus usable;
    const struct dlr_topo_cpus *mine;
    char text[TEXT];
    bool order_gpus = cores;
    int ngpus, rc;

    if (!ranks)
        return dlr_fail(err, -ENOMEM, "out of memory");
    ngpus = dlr_task_bind_gpus(m, env, n, gpus, &order_gpus, err);
    if (ngpus < 0)
        return ngpus;
    rc = find_usable(&usable, err);
    if (rc == 0)
        rc = dlr_bind_plan(m, &usable, n, gpus, (unsigned)ngpus, ranks, err);
    mine = cores ? &ranks[local].own : &ranks[local].near;
    if (rc == 0)
        rc = bind_to(mine, err);
    if (rc < 0)
        return rc;
    if (dlr_topo_cpus_text(mine, text, sizeof(text)) > 0)
        add(vars, env, "DLROVER_BOUND", text);
    if (cores)
        tell(m, ranks, local, n, order_gpus, env, vars);
    return 0;
}

int dlr_task_bind(const char *socket, unsigned local, unsigned n, char *const env[],
                  struct dlr_task_env *vars, struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_machine *m = NULL;
    const char *mode = dlr_env_get(env, "DLROVER_BIND");
    const char *end = socket ? strrchr(socket, '/') : NULL;
    char path[512];
    int rc;

    if (!mode || n < 2 || local >= n)
        return 0;
    m = malloc(sizeof(*m));
    if (!m || !end ||
        dlr_format(path, sizeof(path), "%.*s/" DLR_TASK_BIND_FILE, (int)(end - socket),
                   socket) < 0)
        return dlr_fail(err, -EINVAL, "no place for a description of the node");
    rc = dlr_machine_load(path, m, err);
    return rc < 0 ? rc : place(m, dlr_streq(mode, "cores"), local, n, env, vars, err);
}
