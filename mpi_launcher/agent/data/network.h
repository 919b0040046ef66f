/* SPDX-License-Identifier: Apache-2.0 */
/* The network that copies take when the one UCX has chosen does not lead to the other
 * nodes: that of the control plane, which all nodes of a run have in common. All change
 * together, since an address of UCX's names every device of its node. Not where
 * --dlrover-set=net says which.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_DATA_NETWORK_H
#define DLR_MPI_LAUNCHER_AGENT_DATA_NETWORK_H

#include <stdbool.h>
#include <stddef.h>

#include "ckpt/base/version.h"

struct dlr_agent_net {
    bool chosen;             /* --dlrover-set=net: never another one */
    char device[32];         /* the control plane's, once copies go over it */
    bool reached;            /* a copy has come through */
    unsigned failed;         /* in a row, while none has */
    struct dlr_version save; /* the last save among them, {0} none */
};

/* A send has ended, for the save of a version or (NULL) for a round's start. True,
 * once: the first ones have found no way. A save counts once: the sends of one fail
 * together, when the data process at their other end dies.
 */
bool dlr_agent_net_sent(struct dlr_agent_net *net, const struct dlr_version *save,
                        int rc);

/* The device that has the address of "host:port", into net. -ENODEV. */
int dlr_agent_net_find(struct dlr_agent_net *net, const char *address);

#endif
