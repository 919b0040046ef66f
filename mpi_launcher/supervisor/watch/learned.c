/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/watch/learned.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void dlr_learned_text(const struct dlr_learn *learn, char ret[DLR_LEARNED_TEXT])
{
    unsigned char bytes[DLR_LEARN_BYTES];

    dlr_learn_pack(learn, bytes);
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int dlr_learned_take(const char *text, struct dlr_learn *learn)
{
    unsigned char bytes[DLR_LEARN_BYTES];
    struct dlr_learn read;

    if (strlen(text) != 2 * sizeof(bytes))
        return -EBADMSG;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        const int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return -EBADMSG;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    if (dlr_learn_unpack(bytes, sizeof(bytes), &read) < 0)
        return -EBADMSG;
    *learn = read;
    return 0;
}
