/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/transport,common/local */
/* What the other end of a stream may say once it has proved its key, and the beginning
 * of a call before that. The first byte of an input says how many offers of ours are
 * under way and how the rest is cut; the rest is what comes. Nothing is written beyond
 * what was taken, and every request ends once.
 */
#include <errno.h>

#include "ckpt/transport/tls_address.h"
#include "ckpt/transport/tls_frame.h"
#include "ckpt/transport/tls_key.h"
#include "ckpt/transport/wire.h"
#include "tests/fuzz/fuzz.h"

#define ROOM 4096
#define GUARD 0xa5

static struct dlr_frames *f;
static unsigned begun, ended;
static unsigned char *taken[256];
static unsigned ntaken;

static void on_end(void *arg, int rc)
{
    ended++;
}

static void on_message(void *arg, unsigned kind, const void *data, size_t bytes)
{
    FUZZ_CHECK(bytes <= dlr_wire_most(kind) && kind <= UINT8_MAX);
}

static void on_offered(void *arg, unsigned kind, struct dlr_net_part head,
                       uint64_t bytes, uint32_t seq)
{
    FUZZ_CHECK(head.bytes <= DLR_NET_HEAD_MAX);
    if (bytes > ROOM || ntaken == 256 || (kind & 1))
        return;
    taken[ntaken] = malloc(bytes + 1); /* of this size: a byte beyond is seen */
    FUZZ_CHECK(taken[ntaken]);
    taken[ntaken][bytes] = GUARD;
    FUZZ_CHECK(dlr_frames_take(f, seq, taken[ntaken], bytes, on_end, NULL) == 0);
    ntaken++;
    begun++;
}

static void write_out(size_t most)
{
    const void *from;
    size_t bytes;

    while (most > 0 && dlr_frames_next(f, &from, &bytes)) {
        bytes = bytes < most ? bytes : most;
        dlr_frames_went(f, bytes);
        most -= bytes;
        if (!bytes)
            break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct dlr_frames_ops ops = {on_message, on_offered};
    struct dlr_tls_address address;
    size_t step, left;

    struct dlr_frame frame;

    (void)dlr_tls_is_hello(data, size);
    if (size >= sizeof(frame) && dlr_frame_read(data, &frame) == 0)
        FUZZ_CHECK(frame.head_bytes <= DLR_NET_HEAD_MAX);
    if (dlr_tls_address_read(data, size, &address) == 0) {
        unsigned char text[DLR_TLS_ADDRESS_MAX];

        FUZZ_CHECK(dlr_tls_address_write(&address, text) == size);
        FUZZ_CHECK(memcmp(text, data, size) == 0);
    }
    if (size < 1)
        return 0;
    begun = ended = ntaken = 0;
    f = dlr_frames_new(&ops, NULL);
    FUZZ_CHECK(f);
    step = 1 + data[0] / 8;
    for (unsigned i = 0; i < (data[0] & 7u); i++, begun++)
        FUZZ_CHECK(dlr_frames_offer(f, 1, (struct dlr_net_part){"head", 4},
                                    (struct dlr_net_part){"0123456789", 10}, on_end,
                                    NULL) == 0);
    for (data++, left = size - 1; left > 0;) {
        size_t room;
        void *to;

        write_out(64);
        dlr_frames_room(f, &to, &room);
        FUZZ_CHECK(room > 0);
        room = room < step ? room : step;
        room = room < left ? room : left;
        memcpy(to, data, room);
        data += room;
        left -= room;
        if (dlr_frames_came(f, room) < 0 || dlr_frames_full(f))
            break;
    }
    dlr_frames_cancel(f, -ECANCELED);
    FUZZ_CHECK(begun == ended && dlr_frames_inflight(f) == 0);
    dlr_frames_free(f);
    while (ntaken > 0)
        free(taken[--ntaken]);
    return 0;
}
