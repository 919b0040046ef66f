/* SPDX-License-Identifier: Apache-2.0 */
#include "common/json/message.h"

#include <errno.h>

#include "common/base/str.h"

json_t *dlr_msg_new(const char *type)
{
    return json_pack("{s:i, s:s}", "v", DLR_MSG_VERSION, "t", type);
}

static int check_head(const json_t *msg, struct dlr_err *err)
{
    const char *type;
    uint64_t version;

    if (!json_is_object(msg))
        return dlr_fail(err, -EBADMSG, "a message is not a JSON object");
    if (dlr_msg_uint(msg, "v", INT64_MAX, &version) < 0)
        return dlr_fail(err, -EBADMSG, "a message without a version");
    if (version != DLR_MSG_VERSION)
        return dlr_fail(err, -EPROTONOSUPPORT, "a message of version %llu, not %d",
                        (unsigned long long)version, DLR_MSG_VERSION);
    if (dlr_msg_str(msg, "t", &type) < 0 || !*type)
        return dlr_fail(err, -EBADMSG, "a message without a type");
    return 0;
}

int dlr_msg_parse(const void *buf, size_t size, json_t **ret_msg, struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *msg = NULL;
    json_error_t why;
    int rc;

    if (size > DLR_MSG_MAX)
        return dlr_fail(err, -EBADMSG, "a message of %zu bytes, more than %u", size,
                        DLR_MSG_MAX);
    msg = json_loadb(buf, size, JSON_REJECT_DUPLICATES, &why);
    if (!msg)
        return dlr_fail(err, -EBADMSG, "a message is not JSON: byte %d: %s",
                        why.position, why.text);
    rc = check_head(msg, err);
    if (rc < 0)
        return rc;
    *ret_msg = DLR_STEAL(msg);
    return 0;
}

const char *dlr_msg_type(const json_t *msg)
{
    return json_string_value(json_object_get(msg, "t"));
}

char *dlr_msg_text(const json_t *msg)
{
    return json_dumps(msg, JSON_COMPACT);
}

int dlr_msg_int(const json_t *msg, const char *key, int64_t *ret_value)
{
    const json_t *field = json_object_get(msg, key);

    if (!field)
        return -ENOENT;
    if (!json_is_integer(field))
        return -EBADMSG;
    *ret_value = json_integer_value(field);
    return 0;
}

int dlr_msg_uint(const json_t *msg, const char *key, uint64_t max, uint64_t *ret_value)
{
    int64_t value;
    int rc = dlr_msg_int(msg, key, &value);

    if (rc < 0)
        return rc;
    if (value < 0 || (uint64_t)value > max)
        return -EBADMSG;
    *ret_value = (uint64_t)value;
    return 0;
}

int dlr_msg_str(const json_t *msg, const char *key, const char **ret_value)
{
    const json_t *field = json_object_get(msg, key);

    if (!field)
        return -ENOENT;
    if (!json_is_string(field))
        return -EBADMSG;
    *ret_value = json_string_value(field);
    return 0;
}
