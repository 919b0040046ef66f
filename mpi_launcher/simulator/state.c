/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulator's files share. Calls none of them but the agenda. */
#include "mpi_launcher/simulator/state.h"

void dlr_sim_after(struct dlr_sim *s, double wait_s, enum sim_event what, unsigned node)
{
    struct dlr_agenda_item item = {.at_ms = s->now_ms + (int64_t)(wait_s * 1000 + 0.5),
                                   .what = what,
                                   .node = node,
                                   .epoch = s->epoch};

    if (what <= SIM_BACK)
        item.epoch = s->incarnation;
    s->failed |= dlr_agenda_add(&s->agenda, item) < 0;
}
