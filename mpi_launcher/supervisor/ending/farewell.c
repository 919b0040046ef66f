/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/ending/ending_state.h"
#include "mpi_launcher/supervisor/nodes/send.h"

/* So Slurm ends what it takes back. A job that is cancelled looks the same. */
void dlr_sup_say_bye(struct dlr_sup_ending *ending)
{
    json_t *msg = dlr_msg_new("shutdown");

    json_object_set_new(msg, "keep_memory",
                        json_boolean(ending->wanted_signal == SIGTERM));
    dlr_sup_send_all(ending->env.nodes, msg);
}
