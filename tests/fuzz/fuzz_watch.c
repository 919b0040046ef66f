/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=watch,common/base */
/* A watch page and a ring that a program has overwritten: what leaves the reader is
 * within its bounds, and is valid text. The input is laid over an empty page: 2 bytes
 * where, 1 how many, and so many bytes, until it ends.
 */
#include "tests/fuzz/fuzz.h"
#include "watch/read.h"

#define NOW UINT64_C(1000000000000)

static void overlay(unsigned char *bytes, size_t room, const uint8_t *data, size_t size)
{
    while (size > 3) {
        const size_t at = (data[0] | data[1] << 8) % room;
        size_t n = data[2];

        data += 3;
        size -= 3;
        n = n < size ? n : size;
        for (size_t i = 0; i < n; i++)
            bytes[(at + i) % room] = data[i];
        data += n;
        size -= n;
    }
}

static void check(const struct dlr_look *look)
{
    FUZZ_CHECK(look->rank == 3 && look->round == 2);
    FUZZ_CHECK(look->ncomms <= DLR_LOOK_COMMS && look->ncalls <= DLR_LOOK_CALLS);
    FUZZ_CHECK(strnlen(look->phase, DLR_LOOK_NAME) < DLR_LOOK_NAME);
    FUZZ_CHECK(look->moved_ns <= NOW && look->step_ns <= NOW);
    FUZZ_CHECK((look->garbage + look->torn > 0) == (look->data == DLR_LOOK_TORN));
    for (const char *p = look->phase; *p; p++)
        FUZZ_CHECK((unsigned char)*p >= ' ' && *p != 0x7f);
    for (unsigned i = 0; i < look->ncomms; i++) {
        const struct dlr_look_comm *comm = &look->comms[i];

        FUZZ_CHECK(comm->id && comm->my_rank < comm->size && comm->op < 4096);
        FUZZ_CHECK(comm->entered >= comm->left);
        FUZZ_CHECK(comm->entered_ns <= NOW && comm->left_ns <= NOW);
        for (unsigned k = 0; k < i; k++)
            FUZZ_CHECK(look->comms[k].id != comm->id);
    }
    for (unsigned i = 0; i < look->ncalls; i++)
        FUZZ_CHECK(look->in[i].peer >= DLR_LOOK_NOBODY && look->in[i].tid);
}

static void of_a_ring(const uint8_t *data, size_t size)
{
    static _Alignas(4096) unsigned char bytes[DLR_RING_BYTES(4)];
    struct dlr_watch_ring *ring = (struct dlr_watch_ring *)bytes;
    struct dlr_ring_entry entry;

    memset(bytes, 0, sizeof(bytes));
    dlr_watch_ring_init(ring, 4);
    overlay(bytes, sizeof(bytes), data, size);
    for (uint64_t i = 0; i < 8; i++)
        if (dlr_ring_read(ring, 4, i, &entry))
            FUZZ_CHECK(entry.comm < DLR_WATCH_COMMS || entry.comm == DLR_RING_NO_COMM);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dlr_watch_page page;
    struct dlr_look look;

    memset(&page, 0, sizeof(page));
    dlr_watch_page_init(&page, 3, 2, 77, 0, NOW);
    overlay((unsigned char *)&page, sizeof(page), data, size);
    dlr_watch_read(&page, 3, 2, NOW, &look);
    check(&look);
    dlr_watch_read_steps(&page, 3, 2, NOW, &look);
    check(&look);
    of_a_ring(data, size);
    return 0;
}
