/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/worker_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/base/crc32c.h"

static const struct dlr_ckpt_region region = {.name = "w",
                                              .dtype = "u8",
                                              .item_size = 1,
                                              .ndim = 1,
                                              .global_shape = {5000},
                                              .local_shape = {5000}};

static void close_fds(const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

bool rig_hello(struct rig *rig, struct worker *w, unsigned round, int rank)
{
    struct dlr_slot_owner owner = {dlr_slot_key("c.17.run"), rank, 10};
    struct dlr_err err = {0};
    int fds[DLR_LOCAL_FDS];
    unsigned n;

    memset(w, 0, sizeof(*w));
    w->rank = rank;
    w->round = round;
    w->fd = dlr_rig_connect(rig);
    assert_int_equal(dlr_slot_plan_new(&region, 1, &owner, &w->plan, &err), 0);
    dlr_rig_send(w->fd, DLR_LOCAL_HELLO, round, rank, 0, 2, 0);
    if (!dlr_rig_recv(w->fd, &w->welcome, fds, &n))
        return false;
    assert_int_equal(w->welcome.type, DLR_LOCAL_WELCOME);
    assert_true(n >= 1);
    w->page = mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    assert_ptr_not_equal(w->page, MAP_FAILED);
    assert_int_equal(w->page->magic, DLR_PAGE_MAGIC);
    assert_int_equal(w->page->rank, rank);
    assert_int_equal(ftruncate(fds[0], 0), -1); /* it would end the agent */
    close_fds(fds, n);
    return true;
}

void rig_welcomed(struct rig *rig, struct worker *w, const char *option)
{
    dlr_rig_begin(rig, option, 0, "[4]", "null");
    assert_true(rig_hello(rig, w, 0, 4));
}

void rig_worker_slots(struct worker *w)
{
    struct dlr_local_msg m;
    struct dlr_err err = {0};
    int fds[DLR_LOCAL_FDS];
    unsigned n;

    dlr_rig_send(w->fd, DLR_LOCAL_RESERVE, w->round, w->rank, 0,
                 dlr_slot_plan_bytes(w->plan), 0);
    assert_true(dlr_rig_recv(w->fd, &m, fds, &n));
    assert_int_equal(m.type, DLR_LOCAL_SLOTS);
    assert_int_equal(m.arg[0], w->nslots ? w->nslots : 2);
    assert_int_equal(n, m.arg[0]);
    for (unsigned k = 0; k < n; k++)
        assert_int_equal(dlr_slot_map(fds[k], true, &w->slots[k], &err), 0);
    close_fds(fds, n);
}

unsigned rig_worker_save(struct worker *w, uint64_t step)
{
    struct dlr_slot *slot;
    unsigned k = 0;
    uint64_t bytes = dlr_slot_plan_data(w->plan);
    struct dlr_err err = {0};
    struct dlr_local_msg m;
    void *data;

    while (k < 3 && (!w->slots[k] || !dlr_slot_take(w->slots[k])))
        k++;
    assert_true(k < 3);
    slot = w->slots[k];
    assert_int_equal(dlr_slot_plan_blocks(w->plan), 1);
    assert_int_equal(
        dlr_slot_begin(slot, w->plan, (struct dlr_version){w->round, step}, NULL), 0);
    data = dlr_slot_data(slot, w->plan, 0);
    memset(data, (int)step, bytes);
    dlr_slot_set_crc(slot, w->plan, 0, dlr_crc32c(0, data, bytes));
    dlr_slot_seal(slot, w->plan);
    if (dlr_slot_verify(slot, &err) < 0)
        fail_msg("%s", err.text);
    dlr_local_init(&m, DLR_LOCAL_SEALED);
    m.round = w->round;
    m.rank = w->rank;
    m.step = step;
    m.arg[0] = k;
    m.arg[1] = step;
    m.arg[2] = w->shared;
    assert_int_equal(dlr_local_send(w->fd, &m, NULL, 0), 0);
    return k;
}

void rig_bye(struct worker *w)
{
    for (int k = 0; k < 3; k++)
        dlr_slot_unmap(w->slots[k]);
    dlr_slot_plan_free(w->plan);
    if (w->page)
        munmap(w->page, DLR_PAGE_SIZE);
    close(w->fd);
}
