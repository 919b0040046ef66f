/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/wire,common/local,common/config */
/* Beats and leases: what is taken is written back to the same bytes. */
#include "mpi_launcher/wire/heartbeat.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char again[DLR_BEAT_BYTES];
    struct dlr_beat beat;

    if (dlr_beat_unpack(data, size, &beat) < 0)
        return 0;
    FUZZ_CHECK(size == DLR_BEAT_BYTES && dlr_beat_is(data, size));
    dlr_beat_pack(&beat, again);
    FUZZ_CHECK(memcmp(data, again, sizeof(again)) == 0);
    return 0;
}
