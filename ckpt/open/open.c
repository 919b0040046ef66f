/* SPDX-License-Identifier: Apache-2.0 */
/* Which back end a handle has: under a job the one that its agent serves, else files.
 */
#include <stdlib.h>

#include "ckpt/client/client.h"
#include "ckpt/standalone/standalone.h"
#include "ckpt/supervised/supervised.h"

int dlr_ckpt_open(const struct dlr_ckpt_conf *conf, struct dlr_ckpt **ret_ck)
{
    const char *socket = getenv("DLROVER_AGENT_SOCKET"),
               *round = getenv("DLROVER_ROUND");
    bool supervised = socket && *socket && round && *round;

    return dlr_client_open(
        conf, supervised ? &dlr_backend_supervised : &dlr_backend_standalone, ret_ck);
}
