/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/copies/requests.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"

uint64_t dlr_sup_ids(struct dlr_sup_copies *copies, unsigned n)
{
    uint64_t generation = *copies->env.generation & INT32_MAX;
    uint64_t first = generation << 32 | (copies->last_id + 1);

    copies->last_id += n;
    return first;
}

static struct dlr_sup_request *add(struct dlr_sup_copies *copies)
{
    struct dlr_sup_request *more = copies->requests;
    unsigned room = copies->room ? 2 * copies->room : 16;

    if (copies->nrequests == copies->room) {
        more = realloc(more, room * sizeof(*more));
        if (!more)
            return NULL;
        copies->requests = more;
        copies->room = room;
    }
    return more + copies->nrequests++;
}

uint64_t dlr_sup_request(struct dlr_sup_copies *copies, unsigned n,
                         dlr_sup_done_fn done, void *arg)
{
    struct dlr_sup_request *r = add(copies);
    uint64_t first = dlr_sup_ids(copies, n);

    if (r)
        *r = (struct dlr_sup_request){first, n, done, arg};
    return first;
}

static struct dlr_sup_request *find(const struct dlr_sup_copies *copies, uint64_t id)
{
    struct dlr_sup_request *r = copies->requests;

    for (unsigned i = 0; i < copies->nrequests; i++, r++)
        if (id >= r->first && id - r->first < r->n)
            return r;
    return NULL;
}

void dlr_sup_request_drop(struct dlr_sup_copies *copies, uint64_t id)
{
    struct dlr_sup_request *r = find(copies, id);

    if (!r)
        return;
    copies->nrequests--;
    memmove(r, r + 1, (size_t)(copies->requests + copies->nrequests - r) * sizeof(*r));
}

void dlr_sup_requests_drop(struct dlr_sup_copies *copies, dlr_sup_done_fn done)
{
    unsigned n = 0;

    for (unsigned i = 0; i < copies->nrequests; i++)
        if (copies->requests[i].done != done)
            copies->requests[n++] = copies->requests[i];
    copies->nrequests = n;
}

/* What a node says became of its request. */
static int done_rc(int64_t said)
{
    return said >= 0 && said <= INT_MAX ? -(int)said : -EIO;
}

int dlr_sup_copy_rc(int rc)
{
    return rc == 0 || dlr_err_is_network(rc) ? rc : -EIO;
}

void dlr_sup_on_done(struct dlr_sup_copies *copies, unsigned node, const json_t *msg)
{
    const struct dlr_sup_request *r;
    const char *why = "";
    uint64_t id;
    int64_t said;

    if (dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 ||
        dlr_msg_int(msg, "rc", &said) < 0)
        return;
    dlr_msg_str(msg, "why", &why);
    r = find(copies, id);
    if (r)
        r->done(r->arg, node, id, done_rc(said), why);
}
