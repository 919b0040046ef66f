/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/watch/learned.h"

#include <errno.h>
#include <stdio.h>

#include "common/base/hex.h"

void dlr_learned_text(const struct dlr_learn *learn, char ret[DLR_LEARNED_TEXT])
{
    unsigned char bytes[DLR_LEARN_BYTES];

    dlr_learn_pack(learn, bytes);
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

int dlr_learned_take(const char *text, struct dlr_learn *learn)
{
    unsigned char bytes[DLR_LEARN_BYTES];
    struct dlr_learn read;
    size_t n;

    if (dlr_hex_read(text, bytes, sizeof(bytes), &n) < 0 || n != sizeof(bytes) ||
        dlr_learn_unpack(bytes, n, &read) < 0)
        return -EBADMSG;
    *learn = read;
    return 0;
}
