/* SPDX-License-Identifier: Apache-2.0 */
/* A worker is welcomed to its rank, and says how it has restored. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/parts.h"

/* Each worker gets a page of its own: one of an earlier round may still have the old
 * one. It has no name in the memory directory, so that a rank can work when that is
 * full.
 */
static int make_page(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r)
{
    int rc;

    dlr_agent_rank_close_page(s, r);
    r->page_fd = memfd_create("dlrover-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (r->page_fd < 0)
        return -errno;
    rc = posix_fallocate(r->page_fd, 0, DLR_PAGE_SIZE);
    if (rc > 0)
        return -rc;
    fcntl(r->page_fd, F_ADD_SEALS,
          F_SEAL_SHRINK | F_SEAL_SEAL); /* the program has it */
    r->page =
        mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, r->page_fd, 0);
    if (r->page == MAP_FAILED) {
        r->page = NULL;
        return -errno;
    }
    r->cost = (struct dlr_page_cost){0};
    r->page_ns = dlr_now_ns();
    r->page_bad = false;
    r->page->magic = DLR_PAGE_MAGIC;
    r->page->size = DLR_PAGE_SIZE;
    r->page->rank = r->rank;
    r->page->round = s->round->round;
    r->page->begun_step = DLR_PAGE_NEVER;
    dlr_page_clear_orders(r->page);
    dlr_agent_rank_mates(s, r->page);
    r->page->committed_step = DLR_PAGE_NEVER;
    r->page_kept = dlr_kept_add(dlr_agent_kept(s->base), r->page_fd);
    s->ops->page(s->arg, r->page);
    return 0;
}

void dlr_agent_rank_send_restored(struct dlr_agent_snapshots *s,
                                  struct dlr_agent_rank *r, const char *why)
{
    dlr_agent_send_supervisor(
        s->base,
        json_pack("{s:i, s:s, s:I, s:i, s:I, s:I, s:i, s:b, s:i, s:s}", "v",
                  DLR_MSG_VERSION, "t", "restored", "round",
                  (json_int_t)s->round->round, "rank", r->rank, "vround",
                  (json_int_t)s->round->restore.round, "step",
                  (json_int_t)s->round->restore.step, "rc", r->restored_rc, "differs",
                  r->differs, "corrupt", (int)r->corrupt_of, "why", why));
}

/* The worker gets no welcome then: a rank that began from nothing beside ranks that did
 * not would be wrong, silently.
 */
static void refuse(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r, int rc,
                   const char *why)
{
    r->restored = true;
    r->restored_rc = -rc;
    dlr_agent_rank_send_restored(s, r, why);
}

void dlr_agent_ranks_hello(struct dlr_agent_snapshots *s, struct dlr_agent_conn *c)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, c->rank, false);
    int fds[1 + DLR_STORE_SLOTS_MAX], holding = -1, rc;
    struct dlr_local_msg m;
    unsigned n = 0;

    if (!r || !r->own || r->worker)
        return;
    rc = make_page(s, r);
    if (rc < 0) {
        refuse(s, r, rc, "no room for the progress page");
        return;
    }
    r->worker = c;
    r->opened = true;
    dlr_agent_helpers_advise(s, c->pid, r);
    dlr_local_init(&m, DLR_LOCAL_WELCOME);
    m.round = s->round->round;
    m.rank = r->rank;
    dlr_local_text(&m, "%s", s->self->conf.key);
    fds[n++] = r->page_fd;
    m.arg[3] = s->round->made_by;
    if (s->round->has_restore && s->round->made_by) {
        m.arg[0] = 1;
        m.arg[1] = s->round->restore.round;
        m.step = s->round->restore.step;
    } else if (s->round->has_restore) {
        dlr_agent_rank_open_slots(s, r);
        holding = dlr_agent_rank_holding(r, s->round->restore);
        if (holding < 0) {
            refuse(s, r, -ENOENT, "the version to restore is not on this node");
            return;
        }
        m.arg[0] = 1;
        m.arg[1] = s->round->restore.round;
        m.step = s->round->restore.step;
        for (int k = 0; k < DLR_STORE_SLOTS_MAX; k++) {
            if (k == holding)
                m.arg[2] = n - 1;
            if (r->slot_fds[k] >= 0)
                fds[n++] = r->slot_fds[k];
        }
    }
    dlr_agent_local_send(c, &m, fds, n);
}

void dlr_agent_ranks_restored(struct dlr_agent_snapshots *s,
                              const struct dlr_local_msg *msg)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, msg->rank, false);

    if (!r || r->restored || !s->round->has_restore || msg->arg[1] > INT32_MAX)
        return;
    r->restored = true;
    r->restored_rc = (int)msg->arg[1];
    r->differs = msg->arg[2] == 1;
    r->corrupt_of = msg->arg[3] <= INT32_MAX ? (unsigned)msg->arg[3] : 0;
    if (r->restored_rc && r->corrupt_of)
        dlr_agent_peek_discard_slot(s, (int32_t)(r->corrupt_of - 1));
    dlr_agent_rank_send_restored(s, r, msg->text);
}
