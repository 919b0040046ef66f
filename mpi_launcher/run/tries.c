/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/run/tries.h"

void dlr_tries_add(struct dlr_tries *t, unsigned code, unsigned times)
{
    unsigned k = 0;

    while (k < DLR_TRIES_KINDS && t->kinds[k].times)
        k++;
    if (k && (k == DLR_TRIES_KINDS || t->kinds[k - 1].code == code))
        k--;
    else
        t->kinds[k].code = code;
    t->kinds[k].times += times;
    t->n += times;
}

unsigned dlr_tries_code(const struct dlr_tries *t, unsigned nth)
{
    unsigned k = 0;

    while (k < DLR_TRIES_KINDS - 1 && nth >= t->kinds[k].times)
        nth -= t->kinds[k++].times;
    return t->kinds[k].code;
}

enum dlr_tries_place dlr_tries_find(const struct dlr_tries_run *run, unsigned nth,
                                    bool has_later)
{
    unsigned before = run->again ? 0 : run->before.n;

    if (nth < before)
        return DLR_TRIES_REPORTED;
    if (nth == before)
        return DLR_TRIES_NEWEST;
    if (has_later || !run->same || (run->ended && run->code == 0))
        return DLR_TRIES_LATER;
    return DLR_TRIES_NEXT;
}
