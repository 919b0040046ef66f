/* SPDX-License-Identifier: Apache-2.0 */
/* The other agents as an agent knows them, sorted by name, and what a message "peers"
 * makes of them.
 */
#ifndef DLR_MPI_LAUNCHER_WIRE_PEER_LIST_H
#define DLR_MPI_LAUNCHER_WIRE_PEER_LIST_H

#include <jansson.h>

#include "mpi_launcher/wire/endpoint.h"

#define DLR_PEER_HOSTS 128

struct dlr_agent_peer {
    char node[256];
    char addr[280]; /* "host:port" */
    char key[DLR_KEY_TEXT];
    char hosts[DLR_PEER_HOSTS]; /* addresses that it may call from; "": not told */
    struct dlr_client *client;  /* made when it is first spoken to */
};

struct dlr_peer_list {
    struct dlr_agent_peer *all;
    unsigned n;
    char **gone; /* names that have left and not come back, in their order */
    unsigned ngone;
};

/* The list after msg: with "whole" it is what msg says, else rows of msg come in or
 * replace others, and names of "gone" leave. A peer that stays as it was keeps its
 * client; forget() is called for each client that does not stay. -EBADMSG, -ENOMEM: the
 * list is as before. Foreign bytes: fuzz target msg_agent.
 */
int dlr_peer_list_take(struct dlr_peer_list *list, const json_t *msg,
                       void (*forget)(void *arg, struct dlr_client *client), void *arg);

/* Everything but the clients. */
void dlr_peer_list_done(struct dlr_peer_list *list);

/* NULL: there is none. */
struct dlr_agent_peer *dlr_peer_list_find(const struct dlr_peer_list *list,
                                          const char *node);

#endif
