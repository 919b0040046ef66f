/* SPDX-License-Identifier: Apache-2.0 */
/* Which node has which place, and who keeps the copies: partners lie a leaf switch
 * apart, members of a set as far apart as they can.
 */
#include "mpi_launcher/simulator/state.h"

static bool usable(const struct dlr_sim *s, unsigned node)
{
    return !s->nodes[node].down && !s->nodes[node].gone;
}

/* A free node, of the same leaf switch if there is one; *at: none before it is free.
 * n: there is none.
 */
static unsigned take_spare(const struct dlr_sim *s, unsigned lost, unsigned *at)
{
    unsigned leaf = (unsigned)s->conf->leaf_nodes, first = lost / leaf * leaf;

    for (unsigned i = first; i < first + leaf && i < s->n; i++)
        if (usable(s, i) && !s->nodes[i].member)
            return i;
    while (*at < s->n && (!usable(s, *at) || s->nodes[*at].member))
        ++*at;
    return *at;
}

bool dlr_sim_place(struct dlr_sim *s, unsigned char *member)
{
    unsigned at = 0, places = s->now_places;
    bool anew = s->fresh || s->places != places;

    s->moved = anew;
    for (unsigned i = 0; i < s->n; i++)
        s->nodes[i].member = false;
    for (unsigned p = 0; p < places && !anew; p++)
        s->nodes[s->node_of[p]].member = usable(s, s->node_of[p]);
    for (unsigned p = 0; p < places; p++) {
        unsigned node = anew ? s->n : s->node_of[p];

        if (anew || !usable(s, node)) {
            node = take_spare(s, anew ? at : node, &at);
            if (node == s->n)
                return false;
            s->nodes[node].member = true;
            s->moved = true;
        }
        s->next_of[p] = node;
    }
    for (unsigned i = 0; i < s->n; i++)
        member[i] = s->nodes[i].member;
    return true;
}

void dlr_sim_placed(struct dlr_sim *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        s->place_of[i] = s->n;
        s->nodes[i].wiped = false;
    }
    for (unsigned p = 0; p < s->now_places; p++) {
        s->node_of[p] = s->next_of[p];
        s->place_of[s->next_of[p]] = p;
    }
}

static bool wiped(const struct dlr_sim *s, unsigned place)
{
    return s->nodes[s->node_of[place]].wiped;
}

/* A whole copy on each of the next nodes of a circle, a leaf switch apart. */
static bool partners_lost(const struct dlr_sim *s, unsigned place)
{
    unsigned leaf = (unsigned)s->conf->leaf_nodes, apart;

    apart = leaf < s->places ? leaf : 1;

    for (unsigned k = 1; k <= (unsigned)s->conf->copies; k++)
        if (!wiped(s, (place + k * apart) % s->places))
            return false;
    return true;
}

static bool set_lost(const struct dlr_sim *s, unsigned place)
{
    unsigned sets = s->places / (unsigned)s->conf->members, lost = 0;

    for (unsigned p = place % (sets ? sets : 1); p < s->places; p += sets ? sets : 1)
        lost += wiped(s, p);
    return lost > (unsigned)s->conf->copies;
}

bool dlr_sim_copies_lost(const struct dlr_sim *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (!s->nodes[i].wiped || s->place_of[i] == s->n)
            continue;
        if (s->conf->members > 0 ? set_lost(s, s->place_of[i])
                                 : partners_lost(s, s->place_of[i]))
            return true;
    }
    return false;
}
