/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that connections of this node may come from, for who admits those of a
 * job's nodes only.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_DATA_OWN_HOSTS_H
#define DLR_MPI_LAUNCHER_AGENT_DATA_OWN_HOSTS_H

#include <jansson.h>
#include <stddef.h>

#include "mpi_launcher/wire/peer_list.h"

/* Those of its devices that are up, but the loopback's, with commas between. "": they
 * do not fit, or cannot be told.
 */
void dlr_own_hosts(char *ret, size_t size);

/* Those of all peers; NULL: of one they are not known, there is none yet, or no memory.
 */
json_t *dlr_host_words_of(const struct dlr_peer_list *list);

#endif
