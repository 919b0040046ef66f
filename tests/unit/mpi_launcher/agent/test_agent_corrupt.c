/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-agent */
/* A worker has found a copy of the version to restore corrupt: its slot is not offered
 * again, and a good copy may come to where it lay.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/store.h"
#include "ckpt/slot/write.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "tests/support/worker_rig.h"

#define STEP 10
#define OWN 4
#define MATE 6
#define AWAY 11 /* of another node */

static struct rig rig;
static struct worker w; /* of rank OWN */

/* Ranks OWN and MATE have a committed version, and are to restore it in the next round.
 */
static void begin(void)
{
    struct worker all[2];

    dlr_rig_begin(&rig, NULL, 0, "[4, 6]", "null");
    for (int i = 0; i < 2; i++) {
        assert_true(rig_hello(&rig, &all[i], 0, i ? MATE : OWN));
        rig_worker_slots(&all[i]);
        dlr_rig_await(&rig, "ready");
    }
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 0, "step", STEP);
    dlr_rig_sync(&rig);
    for (int i = 0; i < 2; i++) {
        rig_worker_save(&all[i], STEP);
        dlr_rig_await(&rig, "sealed");
    }
    dlr_rig_say(&rig, "commit", "s:i, s:i", "round", 0, "step", STEP);
    dlr_rig_sync(&rig);
    rig_bye(&all[0]);
    rig_bye(&all[1]);
    dlr_rig_round(&rig, 1, "[4, 6]", "{\"vround\":0,\"step\":10}");
    dlr_rig_sync(&rig);
    assert_true(rig_hello(&rig, &w, 1, OWN));
}

static void end(void)
{
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static struct dlr_slot *map(int rank, unsigned k)
{
    struct dlr_slot *slot = NULL;
    struct dlr_err err;
    char path[256];
    int fd;

    dlr_format(path, sizeof(path), "%s/r%d.s%u", rig.memory, rank, k);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    assert_int_equal(dlr_slot_map(fd, false, &slot, &err), 0);
    close(fd);
    return slot;
}

/* The rank's slot that holds the version; unmap. */
static struct dlr_slot *copy_of(int rank)
{
    for (unsigned k = 0; k <= DLR_STORE_FETCHED; k++) {
        struct dlr_slot *slot = map(rank, k);

        if (slot && dlr_slot_state(slot) >= DLR_SLOT_SEALED &&
            dlr_slot_state(slot) != DLR_SLOT_DEAD)
            return slot;
        dlr_slot_unmap(slot);
    }
    fail_msg("rank %d has no copy here", rank);
    return NULL;
}

/* A copy from another node has come, for a worker to read. */
static void fetch(void)
{
    struct dlr_slot_owner owner = {dlr_slot_key("c.17.run"), AWAY, 12};
    struct dlr_ckpt_region region = {.name = "w",
                                     .dtype = "u8",
                                     .item_size = 1,
                                     .ndim = 1,
                                     .global_shape = {5000},
                                     .local_shape = {5000}};
    int dir = open(rig.memory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    struct dlr_err err;
    char name[64];

    dlr_store_name(AWAY, DLR_STORE_FETCHED, name, sizeof(name));
    assert_int_equal(dlr_slot_plan_new(&region, 1, &owner, &plan, &err), 0);
    assert_int_equal(dlr_slot_create(dir, name, dlr_slot_plan_bytes(plan), &slot, &err),
                     0);
    assert_true(dlr_slot_take(slot));
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){0, STEP}, NULL),
                     0);
    dlr_slot_seal(slot, plan);
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
    close(dir);
}

/* Returns when the agent has told the supervisor, and so has done what it does. */
static void report_corrupt(int rank)
{
    struct dlr_local_msg m;
    json_t *msg;

    dlr_local_init(&m, DLR_LOCAL_RESTORED);
    m.round = 1;
    m.rank = OWN;
    m.step = STEP;
    m.arg[1] = EBADMSG;
    m.arg[3] = (uint64_t)rank + 1;
    assert_int_equal(dlr_local_send(w.fd, &m, NULL, 0), 0);
    msg = dlr_rig_expect(&rig, "restored");
    assert_int_equal(dlr_rig_int(msg, "corrupt"), rank + 1);
    json_decref(msg);
}

static void the_slot_is_dead_at_once(void **state)
{
    static const struct {
        const char *name;
        int rank;
    } rows[] = {
        {"its own", OWN},
        {"of a mate that has not said hello", MATE},
        {"brought from another node", AWAY},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_slot *slot, *other;

        print_message("%s\n", rows[i].name);
        begin();
        fetch();
        slot = copy_of(rows[i].rank);
        other = copy_of(rows[i].rank == OWN ? MATE : OWN);
        report_corrupt(rows[i].rank);
        assert_int_equal(dlr_slot_state(slot), DLR_SLOT_DEAD);
        assert_int_equal(dlr_slot_state(other), DLR_SLOT_COMMITTED);
        dlr_slot_unmap(slot);
        dlr_slot_unmap(other);
        end();
    }
}

static void persist(int id, const char *path)
{
    dlr_rig_say(&rig, "persist", "s:i, s:i, s:i, s:i, s:i, s:s", "id", id, "round", 1,
                "rank", OWN, "vround", 0, "step", STEP, "path", path);
}

/* The slot would be given to the next save while it is written to a file. */
static void a_slot_that_is_read_is_dead_when_that_has_ended(void **state)
{
    for (unsigned round_ends = 0; round_ends < 2; round_ends++) {
        struct dlr_slot *slot;

        print_message("%s\n", round_ends ? "the round ends" : "the write ends");
        begin();
        slot = copy_of(OWN);
        persist(9, "/hold");
        assert_true(dlr_rig_noted(&rig, "save 4 0/10 /hold\n"));
        report_corrupt(OWN);
        assert_int_equal(dlr_slot_state(slot), DLR_SLOT_COMMITTED);
        if (round_ends)
            dlr_rig_round(&rig, 2, "[4, 6]", "null");
        else
            persist(10, "/let-go");
        for (int64_t until = dlr_now_ms() + RIG_WAIT_MS;
             dlr_now_ms() < until && dlr_slot_state(slot) != DLR_SLOT_DEAD;)
            dlr_rig_sync(&rig);
        assert_int_equal(dlr_slot_state(slot), DLR_SLOT_DEAD);
        dlr_slot_unmap(slot);
        end();
    }
}

RIG_MAIN(RIG_TEST(the_slot_is_dead_at_once),
         RIG_TEST(a_slot_that_is_read_is_dead_when_that_has_ended))
