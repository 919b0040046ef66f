/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap. */
#include "mpi_launcher/simulator/agenda.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static bool sooner(const struct dlr_agenda_item *a, const struct dlr_agenda_item *b)
{
    return a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->order < b->order);
}

int dlr_agenda_add(struct dlr_agenda *a, struct dlr_agenda_item item)
{
    size_t at = a->n;

    if (a->n == a->room) {
        size_t room = a->room ? a->room * 2 : 64;
        void *more = realloc(a->items, room * sizeof(*a->items));

        if (!more)
            return -ENOMEM;
        a->items = more;
        a->room = room;
    }
    item.order = a->order++;
    for (a->n++; at > 0 && sooner(&item, &a->items[(at - 1) / 2]); at = (at - 1) / 2)
        a->items[at] = a->items[(at - 1) / 2];
    a->items[at] = item;
    return 0;
}

int64_t dlr_agenda_next_ms(const struct dlr_agenda *a)
{
    return a->n ? a->items[0].at_ms : INT64_MAX;
}

struct dlr_agenda_item dlr_agenda_take(struct dlr_agenda *a)
{
    struct dlr_agenda_item first = a->items[0], last = a->items[--a->n];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < a->n) {
        if (child + 1 < a->n && sooner(&a->items[child + 1], &a->items[child]))
            child++;
        if (!sooner(&a->items[child], &last))
            break;
        a->items[at] = a->items[child];
        at = child;
    }
    a->items[at] = last;
    return first;
}

void dlr_agenda_done(struct dlr_agenda *a)
{
    free(a->items);
    *a = (struct dlr_agenda){0};
}
