/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that were lost and may take a step again. slurmctld notices a death minutes
 * later, so what it calls a good node is asked itself.
 */
#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/slurm/compat.h"

#define CONNECT_S 1 /* for slurmd to take a connect */

static bool takes_connects(const char *host, unsigned port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval limit = {.tv_sec = CONNECT_S};
    struct addrinfo *found = NULL;
    DLR_AUTO_CLOSE int fd = -1;
    char service[16];
    bool yes;

    snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return false;
    fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0);
    yes = fd >= 0 &&
          setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
          connect(fd, found->ai_addr, found->ai_addrlen) == 0;
    freeaddrinfo(found);
    return yes;
}

static bool is_alive(const char *name)
{
    node_info_msg_t *msg = NULL;
    bool yes = false;

    if (slurm_load_node_single(&msg, (char *)name, SHOW_ALL) != SLURM_SUCCESS)
        return false;
    if (msg->record_count) {
        const node_info_t *node = &msg->node_array[0];

        yes = (node->node_state & NODE_STATE_BASE) != NODE_STATE_DOWN &&
              !(node->node_state & NODE_STATE_NO_RESPOND) && node->node_addr &&
              takes_connects(node->node_addr, node->port);
    }
    slurm_free_node_info_msg(msg);
    return yes;
}

int dlr_slurm_alive(uint32_t job_id, const char *list, FILE *out, struct dlr_err *err)
{
    struct dlr_slurm_job job;
    char **names = NULL;
    unsigned n = 0;
    int rc = dlr_slurm_load_job(job_id, &job, err);

    if (rc == 0)
        rc = dlr_slurm_expand(list, &names, &n, err);
    for (unsigned i = 0; rc == 0 && i < n; i++) {
        if (job.nodes[0] && !dlr_slurm_is_listed(job.nodes, names[i]))
            fprintf(out, "-%s\n", names[i]);
        else if (is_alive(names[i]))
            fprintf(out, "%s\n", names[i]);
    }
    dlr_slurm_free_names(names, n);
    return rc;
}
