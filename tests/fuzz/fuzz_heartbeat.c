/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/wire,common/local,common/config */
/* Beats and leases: what is taken is written back to the same bytes. */
#include "mpi_launcher/wire/heartbeat.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char again[DLR_HEARTBEAT_BYTES];
    struct dlr_heartbeat beat;

    if (dlr_heartbeat_unpack(data, size, &beat) < 0)
        return 0;
    FUZZ_CHECK(size == DLR_HEARTBEAT_BYTES && dlr_heartbeat_is(data, size));
    dlr_heartbeat_pack(&beat, again);
    FUZZ_CHECK(memcmp(data, again, sizeof(again)) == 0);
    return 0;
}
