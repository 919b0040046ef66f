/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/played_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "ckpt/slot/store.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"

int played_receive(struct played_agent *a)
{
    struct pollfd p = {a->conn, POLLIN, 0};
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;

    if (poll(&p, 1, PLAYED_WAIT_MS) != 1)
        return -ETIMEDOUT;
    return dlr_local_recv(a->conn, &a->msg, fds, &nfds);
}

static void *welcome(void *arg)
{
    struct played_agent *a = arg;
    int fds[3] = {a->page_fd, -1, -1};
    struct dlr_local_msg msg;

    a->conn = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);
    played_receive(a);
    dlr_local_init(&msg, DLR_LOCAL_WELCOME);
    dlr_local_text(&msg, "%s", a->key);
    if (a->offer) {
        msg.arg[0] = 1;
        msg.arg[1] = a->version.round;
        msg.arg[2] = a->offer_slot;
        msg.step = a->version.step;
        fds[1] = dlr_slot_fd(a->slots[0]);
        fds[2] = dlr_slot_fd(a->slots[1]);
    }
    dlr_local_send(a->conn, &msg, fds, a->offer ? 3 : 1);
    if (!a->offer)
        return NULL;
    played_receive(a);
    a->restored = a->msg;
    if (a->hang_up) {
        close(a->conn);
        a->conn = -1;
    } else if (!a->no_go) {
        dlr_local_init(&msg, DLR_LOCAL_GO);
        dlr_local_send(a->conn, &msg, NULL, 0);
    }
    return NULL;
}

static void make_page(struct played_agent *a)
{
    a->page_fd = memfd_create("page", MFD_CLOEXEC);
    assert_int_equal(ftruncate(a->page_fd, DLR_PAGE_SIZE), 0);
    a->page =
        mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a->page_fd, 0);
    a->page->magic = DLR_PAGE_MAGIC;
    a->page->size = DLR_PAGE_SIZE;
    a->page->rank = 2;
    a->page->round = PLAYED_ROUND;
    atomic_store(&a->page->begun_step, DLR_PAGE_NEVER);
    dlr_page_clear_orders(a->page);
    atomic_store(&a->page->committed_step, DLR_PAGE_NEVER);
}

static void keep_warning(void *arg, enum dlr_log_level level, const char *text)
{
    struct played *f = arg;

    dlr_format(f->warned, sizeof(f->warned), "%s", text);
    atomic_store(&f->was_warned, true);
}

int played_setup(void **state)
{
    struct played *f = calloc(1, sizeof(*f));
    struct played_agent *a = &f->agent;

    dlr_format(a->dir, sizeof(a->dir), "/dev/shm/dlr-test-client-XXXXXX");
    assert_non_null(mkdtemp(a->dir));
    dlr_format(a->path, sizeof(a->path), "%s/agent.sock", a->dir);
    a->dirfd = open(a->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(dlr_local_listen(a->path, &a->listener, NULL), 0);
    make_page(a);
    a->conn = -1;
    a->key = PLAYED_KEY;
    f->weights = malloc(PLAYED_BYTES);
    setenv("DLROVER_AGENT_SOCKET", a->path, 1);
    setenv("DLROVER_ROUND", "4", 1);
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("DLROVER_RESTORE_MS", "30000", 1);
    setenv("DLROVER_CKPT_FENCE_MS", "30000", 1);
    dlr_log_to(keep_warning, f, DLR_LOG_WARN);
    *state = f;
    return 0;
}

int played_teardown(void **state)
{
    struct played *f = *state;
    struct played_agent *a = &f->agent;

    dlr_log_to(NULL, NULL, DLR_LOG_WARN);
    for (unsigned i = 0; i < 2; i++)
        dlr_slot_unmap(a->slots[i]);
    munmap(a->page, DLR_PAGE_SIZE);
    close(a->page_fd);
    close(a->listener);
    if (a->conn >= 0)
        close(a->conn);
    close(a->dirfd);
    free(f->weights);
    assert_int_equal(dlr_store_remove(a->dir, NULL), 0);
    free(f);
    return 0;
}

void played_start(struct played *f)
{
    assert_int_equal(pthread_create(&f->agent.thread, NULL, welcome, &f->agent), 0);
}

void played_regions(struct played *f)
{
    assert_int_equal(dlr_ckpt_add_array(f->ck, "weights", DLR_CKPT_SHARD, "u8", 1,
                                        f->weights, PLAYED_BYTES),
                     0);
    assert_int_equal(dlr_ckpt_add_array(f->ck, "again", DLR_CKPT_REPLICATED, "u8", 1,
                                        f->weights, PLAYED_BYTES),
                     0);
    assert_int_equal(
        dlr_ckpt_add_array(f->ck, "count", DLR_CKPT_BLOB, "u64", 8, &f->count, 1), 0);
}

void played_join(struct played *f)
{
    played_start(f);
    assert_int_equal(dlr_ckpt_open(NULL, &f->ck), 0);
    played_regions(f);
    if (f->agent.offer)
        return;
    pthread_join(f->agent.thread, NULL);
    assert_int_equal(f->agent.msg.type, DLR_LOCAL_HELLO);
}

void played_fill(struct played *f, uint64_t step)
{
    for (unsigned i = 0; i < PLAYED_BYTES; i++)
        f->weights[i] = (unsigned char)(i * 31 + i / 256 + step);
    f->count = step * 1000;
}

void played_filled(struct played *f, uint64_t step)
{
    for (unsigned i = 0; i < PLAYED_BYTES; i++)
        if (f->weights[i] != (unsigned char)(i * 31 + i / 256 + step))
            fail_msg("byte %u is wrong", i);
    assert_int_equal(f->count, step * 1000);
}

void played_give(struct played *f, uint64_t bytes)
{
    struct played_agent *a = &f->agent;
    struct dlr_local_msg msg;
    int fds[2];

    for (unsigned i = 0; i < 2; i++) {
        char name[32];

        dlr_store_name(2, i, name, sizeof(name));
        if (a->slots[i] && dlr_slot_bytes(a->slots[i]) < bytes)
            a->slots[i] = dlr_slot_unmap(a->slots[i]);
        if (!a->slots[i])
            assert_int_equal(dlr_slot_create(a->dirfd, name,
                                             dlr_align_up(bytes, DLR_SLOT_PAGE),
                                             &a->slots[i], NULL),
                             0);
        fds[i] = dlr_slot_fd(a->slots[i]);
    }
    dlr_local_init(&msg, DLR_LOCAL_SLOTS);
    msg.arg[0] = 2;
    assert_int_equal(dlr_local_send(a->conn, &msg, fds, 2), 0);
}

void played_slots(struct played *f)
{
    assert_int_equal(played_receive(&f->agent), 1);
    assert_int_equal(f->agent.msg.type, DLR_LOCAL_RESERVE);
    played_give(f, f->agent.msg.arg[0]);
}

void played_order(struct played *f, uint64_t step, uint64_t slot)
{
    struct dlr_slot *const *slots = f->agent.slots;

    /* The worker takes the one that is free. */
    if (slots[!slot] && dlr_slot_take(slots[!slot]))
        dlr_slot_set_state(slots[!slot], DLR_SLOT_COMMITTED);
    if (slots[slot])
        dlr_slot_set_state(slots[slot], DLR_SLOT_FREE);
    atomic_store(dlr_page_order(f->agent.page, step), step);
}

uint64_t played_save_from(struct played *f, uint64_t step, uint64_t slot)
{
    int64_t limit = dlr_now_ms() + PLAYED_WAIT_MS;

    for (; dlr_now_ms() < limit; step++) {
        int rc;

        played_order(f, step, slot);
        played_fill(f, step);
        rc = dlr_ckpt_begin(f->ck, step, NULL);
        if (rc == 1)
            return step;
        assert_true(rc == -ENODEV || rc == 0); /* none is here yet, or no larger one */
        assert_int_equal(played_receive(&f->agent), 1);
        assert_int_equal(f->agent.msg.type, DLR_LOCAL_DEAD);
        assert_int_equal(f->agent.msg.step, step);
    }
    fail_msg("the slots never came");
    return 0;
}

void played_expect(struct played *f, enum dlr_local_type type)
{
    assert_int_equal(played_receive(&f->agent), 1);
    assert_int_equal(f->agent.msg.type, type);
    assert_int_equal(f->agent.msg.round, PLAYED_ROUND);
    assert_int_equal(f->agent.msg.rank, 2);
}

void played_former_life(struct played *f, uint64_t step, uint64_t k)
{
    played_join(f);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
    played_slots(f);
    played_save_from(f, 2, k); /* until the slots are there */
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    assert_int_equal(played_save_from(f, step, k), step);
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    dlr_ckpt_close(f->ck);
    close(f->agent.conn);
    memset(f->weights, 0, PLAYED_BYTES);
    f->count = 0;
    atomic_store(&f->agent.page->begun_step, DLR_PAGE_NEVER);
    dlr_page_clear_orders(f->agent.page);
}

void played_offer(struct played *f, uint64_t step, uint64_t k)
{
    f->agent.offer = true;
    f->agent.version = (struct dlr_version){PLAYED_ROUND, step};
    f->agent.offer_slot = k;
}
