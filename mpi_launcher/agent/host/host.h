/* SPDX-License-Identifier: Apache-2.0 */
/* One process per node and job: it holds the place in Slurm's step, and starts an agent
 * for each run of the job. Orders come on its standard input, one JSON object a line;
 * srun passes what it reads to all nodes. They hold no secret: keys travel in MUNGE
 * credentials.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_HOST_HOST_H
#define DLR_MPI_LAUNCHER_AGENT_HOST_HOST_H

#include <jansson.h>

#include "common/base/err.h"

#define DLR_HOST_LINE (32u << 10) /* bytes of an order, its newline included */
#define DLR_HOST_WORDS 64         /* words of an agent */
#define DLR_HOST_END 1 /* the value of a SIGTERM that is our order; Slurm's has none */

/* An order as text with its newline; the caller frees it. NULL: no memory, or too long.
 * words: an agent's arguments, n of them; NULL orders the run's agent to end.
 */
char *dlr_host_order(const char *run, const char *cred, char *const *words, unsigned n);

/* Takes a line apart. *ret_words (NULL-terminated) is the caller's array of strings
 * that belong to msg, or NULL for the order to end. -EBADMSG with text.
 * Foreign bytes: fuzz target host.
 */
int dlr_host_parse(const json_t *msg, const char **ret_run, const char **ret_cred,
                   const char ***ret_words, struct dlr_err *err);

/* The whole process: argv is the first run's agent, DLROVER_CRED in the environment its
 * credential. Its exit status, once it was told to end or its input is over, and all
 * agents are gone.
 */
int dlr_host_main(char **argv);

#endif
