/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks and saves of an agent that died, in the next one: the workers have the same
 * pages and slots. What the data process was doing has failed with it; the supervisor
 * gives up what was undecided. What is read here this agent's predecessor has written.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/snapshots/parts.h"

#define RANK                                                                           \
    "{s:i, s:i, s:I, s:I, s:i, s:i, s:i, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b}"
#define RANK_MEMBERS(rank, page, page_ns, bytes, left, rc, corrupt, spare, write, own, \
                     opened, reserving, asked, restored, differs)                      \
    "rank", rank, "page", page, "page_ns", page_ns, "bytes", bytes, "left", left,      \
        "rc", rc, "corrupt", corrupt, "spare_slot", spare, "write_slot", write, "own", \
        own, "opened", opened, "reserving", reserving, "asked", asked, "restored",     \
        restored, "differs", differs

/* --- what the next one must know -------------------------------------------------- */

static const char *find_obstacle(const struct dlr_agent_snapshots *s)
{
    if (s->fetches)
        return "copies were fetched here for the restore";
    if (s->rebuilds)
        return "a copy was being made for a successor";
    for (unsigned i = 0; i < s->nranks; i++) {
        if (s->ranks[i]->page && !s->ranks[i]->page_kept)
            return "not all pages could be kept";
        for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++)
            if (s->ranks[i]->corrupt[k])
                return "a copy had turned out to be bad";
    }
    return NULL;
}

static json_t *note_rank(const struct dlr_agent_rank *r)
{
    return json_pack(
        RANK, RANK_MEMBERS((int)r->rank, (int)r->page_kept, (json_int_t)r->page_ns,
                           (json_int_t)r->bytes, r->left, r->restored_rc,
                           (int)r->corrupt_of, r->spare_slot, r->write_slot, r->own,
                           r->opened, r->reserving, r->asked, r->restored, r->differs));
}

static json_t *note_version(bool known, struct dlr_version v)
{
    return known ? json_pack("[I, I]", (json_int_t)v.round, (json_int_t)v.step)
                 : json_null();
}

static json_t *note_marked(bool known, int32_t rank, struct dlr_version v,
                           const char *why)
{
    return known ? json_pack("[i, I, I, s]", (int)rank, (json_int_t)v.round,
                             (json_int_t)v.step, why)
                 : json_null();
}

static json_t *note_steps(const uint64_t *steps, unsigned n)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < n; i++)
        if (steps[i])
            json_array_append_new(list, json_integer((json_int_t)steps[i]));
    return list;
}

json_t *dlr_agent_snapshots_note(const struct dlr_agent_snapshots *s,
                                 const char **ret_why)
{
    json_t *ranks;

    *ret_why = find_obstacle(s);
    if (*ret_why)
        return NULL;
    *ret_why = "out of memory";
    ranks = json_array();
    for (unsigned i = 0; i < s->nranks; i++)
        json_array_append_new(ranks, note_rank(s->ranks[i]));
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "ordered",
        (json_int_t)s->save_step, "open", note_steps(s->open, s->nopen), "aborted",
        note_steps(s->aborted, DLR_AGENT_ABORTS), "committed",
        note_version(s->has_committed, s->committed), "vetted",
        note_version(s->has_vetted, s->vetted), "bad",
        note_marked(s->bad.known, s->bad.rank, s->bad.version, ""), "torn",
        note_marked(s->torn.known, s->torn.rank, s->torn.version, s->torn.why), "go",
        s->go_known ? (json_int_t)s->go_round : -1, "no_vetted",
        s->no_vetted_known ? (json_int_t)s->no_vetted_round : -1, "ranks", ranks);
}

/* --- in the next one -------------------------------------------------------------- */

/* Its totals so far the supervisor knows. */
static int adopt_page(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r)
{
    struct dlr_page *page;

    r->page_fd = dlr_kept_claim(dlr_agent_kept(s->base), r->page_kept);
    if (r->page_fd < 0)
        return -EBADMSG;
    page = mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, r->page_fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    r->page = page;
    if (page->magic != DLR_PAGE_MAGIC || page->rank != r->rank ||
        page->round != s->round->round)
        return -EBADMSG;
    memcpy(r->helpers.bits, page->helper_cpus, sizeof(page->helper_cpus));
    dlr_page_cost_get(page, &r->cost, dlr_now_ns() - r->page_ns, &r->cost);
    return 0;
}

static int adopt_rank(struct dlr_agent_snapshots *s, const json_t *note)
{
    int rank, page, left, rc, corrupt, spare, write, own, opened, reserving, asked,
        restored, differs;
    json_int_t page_ns, bytes;
    struct dlr_agent_rank *r;

    if (json_unpack((json_t *)note, RANK,
                    RANK_MEMBERS(&rank, &page, &page_ns, &bytes, &left, &rc, &corrupt,
                                 &spare, &write, &own, &opened, &reserving, &asked,
                                 &restored, &differs)) < 0)
        return -EBADMSG;
    r = dlr_agent_rank(s, rank, true);
    if (!r)
        return -ENOMEM;
    r->page_kept = (unsigned)page;
    r->page_ns = page_ns;
    r->bytes = (uint64_t)bytes;
    r->left = left;
    r->restored_rc = rc;
    r->corrupt_of = (unsigned)corrupt;
    r->spare_slot = spare;
    r->write_slot = write;
    r->own = own;
    r->opened = opened;
    r->reserving = reserving;
    r->asked = asked;
    r->restored = restored;
    r->differs = differs;
    if (r->own)
        dlr_agent_rank_open_slots(s, r);
    return r->page_kept ? adopt_page(s, r) : 0;
}

static bool adopt_version(const json_t *note, struct dlr_version *ret)
{
    if (!json_is_array(note))
        return false;
    ret->round = (uint32_t)json_integer_value(json_array_get(note, 0));
    ret->step = (uint64_t)json_integer_value(json_array_get(note, 1));
    return true;
}

static bool adopt_marked(const json_t *note, int32_t *ret_rank, struct dlr_version *ret,
                         const char **ret_why)
{
    json_int_t round, step;
    int rank;

    if (json_unpack((json_t *)note, "[i, I, I, s]", &rank, &round, &step, ret_why) < 0)
        return false;
    *ret_rank = rank;
    *ret = (struct dlr_version){(uint32_t)round, (uint64_t)step};
    return true;
}

static unsigned adopt_steps(const json_t *note, uint64_t *steps, unsigned most)
{
    unsigned n = 0;

    for (; n < most && n < json_array_size(note); n++)
        steps[n] = (uint64_t)json_integer_value(json_array_get(note, n));
    return n;
}

static void adopt_saves(struct dlr_agent_snapshots *s, const json_t *note)
{
    uint64_t aborted[DLR_AGENT_ABORTS];
    const char *why = "";
    unsigned n;

    s->nopen = adopt_steps(json_object_get(note, "open"), s->open, DLR_AGENT_OPEN);
    n = adopt_steps(json_object_get(note, "aborted"), aborted, DLR_AGENT_ABORTS);
    memcpy(s->aborted + DLR_AGENT_ABORTS - n, aborted, n * sizeof(*aborted));
    s->has_committed = adopt_version(json_object_get(note, "committed"), &s->committed);
    s->has_vetted = adopt_version(json_object_get(note, "vetted"), &s->vetted);
    s->bad.known =
        adopt_marked(json_object_get(note, "bad"), &s->bad.rank, &s->bad.version, &why);
    s->torn.known = adopt_marked(json_object_get(note, "torn"), &s->torn.rank,
                                 &s->torn.version, &why);
    dlr_format(s->torn.why, sizeof(s->torn.why), "%s", s->torn.known ? why : "");
}

int dlr_agent_snapshots_adopt(struct dlr_agent_snapshots *s, const json_t *note)
{
    const json_t *ranks = json_object_get(note, "ranks"), *item;
    json_int_t ordered, go, no_vetted;
    size_t i;
    int rc = 0;

    if (json_unpack((json_t *)note, "{s:I, s:I, s:I}", "ordered", &ordered, "go", &go,
                    "no_vetted", &no_vetted) < 0)
        return -EBADMSG;
    s->save_step = (uint64_t)ordered;
    s->go_known = go >= 0;
    s->go_round = s->go_known ? (uint32_t)go : 0;
    s->no_vetted_known = no_vetted >= 0;
    s->no_vetted_round = s->no_vetted_known ? (uint32_t)no_vetted : 0;
    adopt_saves(s, note);
    json_array_foreach(ranks, i, item)
    {
        rc = rc < 0 ? rc : adopt_rank(s, item);
    }
    return rc;
}

bool dlr_agent_ranks_adopt(struct dlr_agent_snapshots *s,
                           const struct dlr_agent_conn *c)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, c->rank, false);

    if (!r || !r->own || !r->page || r->worker)
        return false;
    r->worker = c;
    return true;
}
