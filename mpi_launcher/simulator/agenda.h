/* SPDX-License-Identifier: Apache-2.0 */
/* What comes, ordered by time; of two of one time the one that was put in first. */
#ifndef DLR_MPI_LAUNCHER_SIMULATOR_AGENDA_H
#define DLR_MPI_LAUNCHER_SIMULATOR_AGENDA_H

#include <stddef.h>
#include <stdint.h>

struct dlr_agenda_item {
    int64_t at_ms;
    uint64_t order; /* set by dlr_agenda_add() */
    int what;
    unsigned node, epoch;
};

struct dlr_agenda {
    struct dlr_agenda_item *items;
    size_t n, room;
    uint64_t order;
};

/* 0 or -ENOMEM. */
int dlr_agenda_add(struct dlr_agenda *a, struct dlr_agenda_item item);
/* When the next is due; INT64_MAX: there is none. */
int64_t dlr_agenda_next_ms(const struct dlr_agenda *a);
/* Takes it out; there must be one. */
struct dlr_agenda_item dlr_agenda_take(struct dlr_agenda *a);
void dlr_agenda_done(struct dlr_agenda *a);

#endif
