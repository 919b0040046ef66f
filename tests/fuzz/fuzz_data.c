/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/stream */
/* The receiver of another node's snapshots without its network. An input is a list of
 * records: what happens (1 byte), how many bytes follow (1), those. Messages are raw,
 * or our own with bytes changed and sums put right; they come sealed, or are proved by
 * tags, or are not. Whatever comes, a slot that counts as whole is whole, no transfer
 * is left once its round is over, nothing is fetched beyond its place, and nothing that
 * is neither sealed nor proved opens a transfer. Reaches dlr_wire_read_begin(),
 * dlr_wire_read_block().
 */
#include <errno.h>
#include <setjmp.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/slot/write.h"
#include "ckpt/stream/recv.h"
#include "ckpt/stream/state.h"
#include "common/base/clock.h"
#include "tests/fuzz/snapshot.h"

#define RANK 1
#define ROUND 3
#define DATA (DLR_SLOT_BLOCK + UINT64_C(4096)) /* two blocks */
#define ADDRESS 8
#define TAKES 64 /* at once, more than blocks */

struct dlr_net_peer {
    unsigned users;
};

struct take {
    dlr_net_done_fn done;
    void *arg;
};

static struct dlr_data d;
static struct dlr_net_peer peer;
static struct dlr_slot *source;
static struct take takes[TAKES];
static unsigned ntakes;
static uint64_t answered; /* the receiver's id of its last answer */
static bool take_now, sealed, proved;
static struct dlr_mac mac; /* of the last transfer that was begun */
static jmp_buf stuck;

/* --- what the receiver uses ------------------------------------------------------- */

int dlr_net_sender(struct dlr_net_in *in, const void *addr, size_t bytes,
                   struct dlr_net_peer **ret, struct dlr_err *err)
{
    const unsigned char *at = addr;

    FUZZ_CHECK(bytes > 0 && bytes <= DLR_WIRE_ADDRESS_MAX);
    if (at[0] == 0xff || at[bytes - 1] == 0xff)
        return -EHOSTUNREACH;
    peer.users++;
    *ret = &peer;
    return 0;
}

void dlr_net_peer_put(struct dlr_net_peer *p)
{
    FUZZ_CHECK(!p || p->users-- > 0);
}

static int hear(struct dlr_net_part data)
{
    struct dlr_wire_answer answer;

    FUZZ_CHECK(dlr_wire_read_answer(data.at, data.bytes, &answer) == 0);
    answered = answer.peer_id;
    return 0;
}

int dlr_net_tell(struct dlr_net_peer *p, unsigned kind, struct dlr_net_part data)
{
    FUZZ_CHECK(p->users > 0);
    return hear(data);
}

void dlr_net_reply(struct dlr_net_in *in, unsigned kind, struct dlr_net_part data)
{
    hear(data);
}

int dlr_net_take(struct dlr_net_in *in, void *buf, dlr_net_done_fn done, void *arg)
{
    const struct dlr_recv *r = d.recvs;

    while (r && r->id != ((const struct dlr_wire_block *)in->head)->id)
        r = r->next;
    FUZZ_CHECK(r && r->mac.on != in->sealed);
    if (ntakes == TAKES)
        return -ENOMEM;
    memcpy(buf, in->desc, in->bytes);
    if (take_now)
        return 1;
    takes[ntakes++] = (struct take){done, arg};
    return 0;
}

static void finish_takes(int rc)
{
    while (ntakes > 0) {
        struct take t = takes[--ntakes];

        t.done(t.arg, rc);
    }
}

void dlr_net_drop(struct dlr_net_peer *p)
{
}

void dlr_data_stuck(void)
{
    longjmp(stuck, 1);
}

void dlr_work_add(struct dlr_work *work, struct dlr_job *job)
{
    job->rc = job->run(job, &job->err);
    job->done(job);
}

void dlr_stream_send_agent(struct dlr_data *data, const struct dlr_local_msg *msg,
                           const int *fds, unsigned nfds)
{
    struct dlr_version v = {(uint32_t)msg->arg[0], msg->step};

    FUZZ_CHECK(msg->type == DLR_LOCAL_D_COPIED);
    FUZZ_CHECK(dlr_slot_table_version(&data->held, msg->rank, v));
}

void dlr_data_done(struct dlr_data *data, int32_t rank, struct dlr_version v,
                   uint64_t id, int rc, const char *why)
{
}

void dlr_data_send_answer(struct dlr_data *data, const struct dlr_net_in *in,
                          const struct dlr_wire_answer *answer)
{
}

/* --- what happens ----------------------------------------------------------------- */

static void begin(const uint8_t *edits, size_t n, bool ours)
{
    unsigned char msg[sizeof(struct dlr_wire_begin) + ADDRESS + 4096 + DLR_WIRE_TAG];
    unsigned char *exact;
    struct dlr_wire_begin head = {.magic = DLR_WIRE_MAGIC,
                                  .version = DLR_WIRE_VERSION,
                                  .address_bytes = ADDRESS,
                                  .round = ROUND,
                                  .rank = RANK,
                                  .vround = ROUND,
                                  .step = 7,
                                  .data_bytes = DATA,
                                  .id = 9};
    struct dlr_net_in in = {.sealed = sealed};
    unsigned before = d.nrecvs;
    const void *meta;
    size_t bytes = 0;

    dlr_slot_meta(source, &meta, &bytes);
    FUZZ_CHECK(bytes > 0 && bytes <= 4096);
    head.meta_bytes = (uint32_t)bytes;
    memset(msg, 0, sizeof(msg));
    memcpy(msg, &head, sizeof(head));
    memcpy(msg + sizeof(head) + ADDRESS, meta, bytes);
    in.bytes = sizeof(head) + ADDRESS + bytes + DLR_WIRE_TAG;
    for (; ours && n >= 3; n -= 3, edits += 3)
        msg[(edits[0] | edits[1] << 8) % in.bytes] ^= edits[2];
    if (ours)
        fuzz_seal_meta(msg + sizeof(head) + ADDRESS, bytes);
    else
        in.bytes = n;
    memcpy(head.salt, msg + offsetof(struct dlr_wire_begin, salt), sizeof(head.salt));
    FUZZ_CHECK(dlr_mac_join(&mac, d.mac_key, head.salt) == 0);
    mac.on = !sealed;
    if (ours && proved)
        FUZZ_CHECK(dlr_mac_sign(&mac, msg, in.bytes) == 0);
    exact = malloc(in.bytes ? in.bytes : 1); /* so that one byte beyond is seen */
    FUZZ_CHECK(exact);
    memcpy(exact, ours ? msg : edits, in.bytes);
    in.data = exact;
    dlr_data_dispatch(&d, DLR_WIRE_BEGIN, &in);
    FUZZ_CHECK(sealed || (ours && proved) || d.nrecvs <= before);
    free(exact);
}

/* A block of the snapshot, damaged or not; the transfer is the one last answered. */
static void block(const uint8_t *args, size_t n, bool ours)
{
    struct dlr_wire_block head = {
        .magic = DLR_WIRE_MAGIC, .version = DLR_WIRE_VERSION, .id = answered};
    struct dlr_net_in in = {
        .offered = true, .head = &head, .head_bytes = sizeof(head), .sealed = sealed};
    static unsigned char bytes[DLR_SLOT_BLOCK + 128];
    uint32_t crc;
    void *data;

    head.index = n > 0 ? args[0] : 0;
    if (dlr_slot_block(source, head.index & 1, &data, &in.bytes, &crc) < 0)
        return;
    memcpy(bytes, data, in.bytes);
    if (n > 2)
        bytes[args[1]] ^= args[2];
    if (n > 3)
        in.bytes += (size_t)(int8_t)args[3];
    if (n > 4)
        head.id += args[4];
    if (proved)
        FUZZ_CHECK(dlr_mac_sign_block(&mac, &head, bytes, in.bytes) == 0);
    in.desc = bytes;
    if (!ours) {
        in.head = args;
        in.head_bytes = n;
    }
    dlr_data_dispatch(&d, DLR_WIRE_BLOCK, &in);
}

static void other(const uint8_t *args, size_t n, unsigned kind)
{
    struct dlr_net_in in = {
        .data = args, .bytes = n, .offered = kind & 8, .sealed = sealed};

    dlr_data_dispatch(&d, kind, &in);
}

static void new_round(uint32_t round)
{
    d.round = round;
    dlr_data_recv_round(&d);
}

static void happen(unsigned what, const uint8_t *args, size_t n)
{
    unsigned arg = n > 0 ? args[0] : 0;
    struct dlr_version v = {ROUND, arg};

    take_now = what & 16;
    sealed = !(what & 64);
    proved = !(what & 128);
    switch (what % 12) {
    case 0:
    case 1:
        begin(args, n, what % 12 == 1);
        break;
    case 2:
    case 3:
        block(args, n, what % 12 == 3);
        break;
    case 4:
        other(args, n, what / 12);
        break;
    case 5:
        finish_takes(arg & 1 ? -EIO : 0);
        break;
    case 6:
        new_round(arg % 8);
        break;
    case 7:
        dlr_data_recv_down(&d, &peer, -ECONNRESET);
        break;
    case 8:
        dlr_slot_table_commit(&d.held, v, NULL);
        dlr_slot_table_freed(&d.held);
        break;
    case 9:
        dlr_slot_table_abort(&d.held, v);
        dlr_slot_table_freed(&d.held);
        break;
    case 10:
        dlr_slot_table_drop(&d.held, arg & 1 ? &v : NULL);
        break;
    default:
        dlr_data_recv_tick(&d, dlr_now_ms() + (int64_t)arg * 1000);
    }
}

/* --- one input -------------------------------------------------------------------- */

static void make_source(void)
{
    static const struct dlr_ckpt_region region = {
        "w", DLR_CKPT_SHARD, "u8", 1, 1, {DATA}, {0}, {DATA}, {0}, NULL};
    const struct dlr_slot_owner owner = {1, RANK, 4};
    struct dlr_slot_plan *plan;

    FUZZ_CHECK(dlr_slot_plan_new(&region, 1, &owner, &plan, NULL) == 0);
    FUZZ_CHECK(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &source, NULL) == 0);
    FUZZ_CHECK(dlr_slot_begin(source, plan, (struct dlr_version){ROUND, 7}, NULL) == 0);
    memset(dlr_slot_data(source, plan, 0), 0x5a, DATA);
    for (uint32_t i = 0; i < dlr_slot_plan_blocks(plan); i++) {
        uint64_t from = (uint64_t)i * DLR_SLOT_BLOCK;
        size_t bytes = DATA - from < DLR_SLOT_BLOCK ? DATA - from : DLR_SLOT_BLOCK;

        dlr_slot_set_crc(source, plan, i,
                         dlr_crc32c(0, dlr_slot_data(source, plan, from), bytes));
    }
    dlr_slot_seal(source, plan);
    dlr_slot_plan_free(plan);
}

static void on_free(void *arg)
{
    dlr_data_recv_retry(&d);
}

static void setup(void)
{
    static int32_t rank = RANK;
    struct dlr_slot *slot;

    if (!source)
        make_source();
    for (uint32_t k = 0; k < 2 && !dlr_slot_table_find(&d.held, RANK, k); k++) {
        FUZZ_CHECK(dlr_slot_anonymous(dlr_slot_bytes(source), &slot, NULL) == 0);
        FUZZ_CHECK(dlr_slot_table_add(&d.held, RANK, k, slot) == 0);
    }
    for (struct dlr_slot_table_slot *held = d.held.first; held; held = held->next)
        dlr_slot_set_state(held->slot, DLR_SLOT_FREE);
    d.held = (struct dlr_slot_table){.first = d.held.first, .on_free = on_free};
    d.conf = (struct dlr_data_conf){.transfer_timeout_ms = 60000,
                                    .answer_timeout_ms = 60000};
    d.configured = true;
    d.key = 1;
    d.round = ROUND;
    d.naccept = 1;
    d.accept = &rank;
    answered = 0;
    mac = (struct dlr_mac){0};
}

static void check_end(void)
{
    struct dlr_err err;

    new_round(UINT32_MAX);
    finish_takes(-ECANCELED);
    FUZZ_CHECK(!d.recvs && !d.nrecvs && peer.users == 0);
    for (struct dlr_slot_table_slot *held = d.held.first; held; held = held->next) {
        enum dlr_slot_state state = dlr_slot_state(held->slot);

        FUZZ_CHECK(!held->writing && !held->readers && state != DLR_SLOT_OPEN);
        if (state == DLR_SLOT_SEALED || state == DLR_SLOT_COMMITTED)
            FUZZ_CHECK(dlr_slot_verify(held->slot, &err) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *volatile at = data;
    volatile size_t left = size;

    setup();
    while (left >= 2) {
        unsigned what = at[0];
        size_t n = at[1] < left - 2 ? at[1] : left - 2;
        const uint8_t *args = at + 2;

        at += 2 + n;
        left -= 2 + n;
        if (setjmp(stuck) == 0)
            happen(what, args, n);
        else
            break; /* the process would be gone */
    }
    check_end();
    return 0;
}
