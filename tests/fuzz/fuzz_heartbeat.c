/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/wire,common/local,common/config */
/* Beats and leases, of a node and of a group: what is taken is written back to the same
 * bytes.
 */
#include "mpi_launcher/wire/group_beats.h"
#include "mpi_launcher/wire/heartbeat.h"
#include "tests/fuzz/fuzz.h"

static void of_a_group(const uint8_t *data, size_t size)
{
    unsigned char again[DLR_GROUP_BEATS_BYTES];
    struct dlr_group_leases leases;
    struct dlr_group_beats beats;

    if (dlr_group_beats_unpack(data, size, &beats) == 0) {
        FUZZ_CHECK(dlr_group_beats_pack(&beats, again) == size);
        FUZZ_CHECK(memcmp(data, again, size) == 0);
    }
    if (dlr_group_leases_unpack(data, size, &leases) == 0) {
        dlr_group_leases_pack(&leases, again);
        FUZZ_CHECK(memcmp(data, again, DLR_GROUP_LEASES_BYTES) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char again[DLR_HEARTBEAT_BYTES];
    struct dlr_heartbeat beat;

    of_a_group(data, size);
    if (dlr_heartbeat_unpack(data, size, &beat) < 0)
        return 0;
    FUZZ_CHECK(size == DLR_HEARTBEAT_BYTES && dlr_heartbeat_is(data, size));
    dlr_heartbeat_pack(&beat, again);
    FUZZ_CHECK(memcmp(data, again, sizeof(again)) == 0);
    return 0;
}
