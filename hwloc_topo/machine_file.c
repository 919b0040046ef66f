/* SPDX-License-Identifier: Apache-2.0 */
/* Struct dlr_machine as a file. Needs no hwloc. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "hwloc_topo/machine.h"

int dlr_machine_save(const struct dlr_machine *m, const char *path, struct dlr_err *err)
{
    const struct iovec part = {(void *)m, sizeof(*m)};

    return dlr_file_replace(AT_FDCWD, path, 0600, &part, 1, err);
}

static bool has_end(const char *text, size_t size)
{
    return text[0] && memchr(text, '\0', size);
}

static bool counts_fit(const struct dlr_machine *m)
{
    return m->numas <= DLR_MACHINE_NUMA && m->cores <= DLR_TOPO_CPUS &&
           m->gpus <= DLR_MACHINE_GPUS && m->nics <= DLR_MACHINE_NICS;
}

static bool cpus_fit(const struct dlr_machine *m)
{
    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++)
        if (m->core[cpu] > m->cores || (m->core[cpu] && m->numa[cpu] >= m->numas))
            return false;
    return true;
}

static bool names_end(const struct dlr_machine *m)
{
    for (unsigned i = 0; i < m->gpus; i++)
        if (!has_end(m->gpu[i].bus, sizeof(m->gpu[i].bus)))
            return false;
    for (unsigned i = 0; i < m->nics; i++)
        if (!has_end(m->nic[i].name, sizeof(m->nic[i].name)))
            return false;
    return true;
}

int dlr_machine_check(const void *bytes, size_t size, struct dlr_err *err)
{
    const struct dlr_machine *m = bytes;

    if (size != sizeof(*m) || m->magic != DLR_MACHINE_MAGIC || m->size != sizeof(*m))
        return dlr_fail(err, -EBADMSG, "not a machine as this build describes it");
    if (!counts_fit(m) || !cpus_fit(m) || !names_end(m))
        return dlr_fail(err, -EBADMSG, "a machine with a number out of range");
    return 0;
}

int dlr_machine_load(const char *path, struct dlr_machine *ret, struct dlr_err *err)
{
    DLR_AUTO_FREE char *bytes = NULL;
    size_t size = 0;
    int rc = dlr_file_load_own(AT_FDCWD, path, sizeof(*ret), &bytes, &size, err);

    if (rc == 0)
        rc = dlr_machine_check(bytes, size, err);
    if (rc == 0)
        memcpy(ret, bytes, sizeof(*ret));
    return rc;
}
