/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/keeper/takeover_state.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"

#define HEAD_AT 8192 /* after the pages of the key pair and of child_exits.h */
#define TEXT_AT 12288

/* One write turns from the former text to the new one: a supervisor may be killed at
 * any moment.
 */
struct head {
    uint32_t length; /* 0: none was saved */
    uint32_t area;   /* 0 or 1 */
};

static off_t text_at(uint32_t area)
{
    return TEXT_AT + (off_t)area * DLR_TAKEOVER_STATE_MAX;
}

static bool read_head(int fd, struct head *ret)
{
    return pread(fd, ret, sizeof(*ret), HEAD_AT) == sizeof(*ret) && ret->length;
}

int dlr_takeover_state_load(int fd, json_t **ret, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_JSON json_t *state = NULL;
    struct head head;
    json_error_t jerr;

    if (!read_head(fd, &head))
        return dlr_fail(err, -ENOENT, "no state of a former supervisor");
    if (head.length > DLR_TAKEOVER_STATE_MAX || head.area > 1)
        return dlr_fail(err, -EBADMSG, "a state of %u bytes in area %u is malformed",
                        head.length, head.area);
    text = malloc(head.length);
    if (!text)
        return dlr_fail(err, -ENOMEM, "no memory for the state");
    if (pread(fd, text, head.length, text_at(head.area)) != (ssize_t)head.length)
        return dlr_fail(err, -EBADMSG, "the state is cut short");
    state = json_loadb(text, head.length, JSON_REJECT_DUPLICATES, &jerr);
    if (!json_is_object(state))
        return dlr_fail(err, -EBADMSG, "bad state: %s",
                        state ? "no object" : jerr.text);
    *ret = DLR_STEAL(state);
    return 0;
}

int dlr_takeover_state_save(int fd, const json_t *state, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = json_dumps(state, JSON_COMPACT);
    struct head head, now = {0};

    if (!text)
        return dlr_fail(err, -ENOMEM, "no memory for the state");
    if (strlen(text) > DLR_TAKEOVER_STATE_MAX)
        return dlr_fail(err, -EMSGSIZE, "a state of %zu bytes is too long",
                        strlen(text));
    now.length = (uint32_t)strlen(text);
    now.area = read_head(fd, &head) && head.area == 0;
    if (pwrite(fd, text, now.length, text_at(now.area)) != (ssize_t)now.length ||
        pwrite(fd, &now, sizeof(now), HEAD_AT) != sizeof(now))
        return dlr_fail(err, -EIO, "cannot keep the state: %s", strerror(errno));
    return 0;
}
