/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/keepstate.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

#define LENGTH_AT 8192 /* after the pages of the key pair and of exits.h */
#define TEXT_AT (LENGTH_AT + sizeof(uint32_t))

int dlr_keepstate_load(int fd, json_t **ret, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    uint32_t length = 0;
    json_error_t jerr;
    json_t *state;

    if (pread(fd, &length, sizeof(length), LENGTH_AT) != sizeof(length) || !length)
        return dlr_fail(err, -ENOENT, "no state of a former supervisor");
    if (length > DLR_KEEPSTATE_MAX)
        return dlr_fail(err, -EBADMSG, "a state of %u bytes is too long", length);
    text = malloc(length);
    if (!text)
        return dlr_fail(err, -ENOMEM, "no memory for the state");
    if (pread(fd, text, length, TEXT_AT) != (ssize_t)length)
        return dlr_fail(err, -EBADMSG, "the state is cut short");
    state = json_loadb(text, length, JSON_REJECT_DUPLICATES, &jerr);
    if (!state)
        return dlr_fail(err, -EBADMSG, "bad state: %s", jerr.text);
    *ret = state;
    return 0;
}

int dlr_keepstate_save(int fd, const json_t *state, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = json_dumps(state, JSON_COMPACT);
    uint32_t length, none = 0;

    if (!text)
        return dlr_fail(err, -ENOMEM, "no memory for the state");
    length = strlen(text);
    if (length > DLR_KEEPSTATE_MAX)
        return dlr_fail(err, -EMSGSIZE, "a state of %u bytes is too long", length);
    if (pwrite(fd, &none, sizeof(none), LENGTH_AT) != sizeof(none) ||
        pwrite(fd, text, length, TEXT_AT) != (ssize_t)length ||
        pwrite(fd, &length, sizeof(length), LENGTH_AT) != sizeof(length))
        return dlr_fail(err, -EIO, "cannot keep the state: %s", strerror(errno));
    return 0;
}
