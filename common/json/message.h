/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages: JSON objects with "v" and "t", size-limited, every field checked.
 */
#ifndef DLR_COMMON_JSON_MESSAGE_H
#define DLR_COMMON_JSON_MESSAGE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/cleanup.h"
#include "common/base/err.h"

#define DLR_MSG_VERSION 2
#define DLR_MSG_MAX (4u << 20) /* bytes */

static inline void dlr_cleanup_json(json_t **j)
{
    json_decref(*j);
}
#define DLR_AUTO_JSON DLR_CLEANUP(dlr_cleanup_json)

/* A new object {"v":2,"t":type}; owned by the caller. NULL when out of memory. */
json_t *dlr_msg_new(const char *type);

/* Parses size bytes: an object of our version with a string "t", no duplicate keys.
 * *ret_msg is the caller's. -EBADMSG, -EPROTONOSUPPORT.
 * Foreign bytes: fuzz target host.
 */
int dlr_msg_parse(const void *buf, size_t size, json_t **ret_msg, struct dlr_err *err);

/* Its type; never NULL for a message from dlr_msg_parse(). */
const char *dlr_msg_type(const json_t *msg);

/* Compact text on the heap, owned by the caller; NULL when out of memory. */
char *dlr_msg_text(const json_t *msg);

/* Fields: 0, -ENOENT when absent, -EBADMSG when of another type or out of [0, max].
 * Returned strings belong to msg.
 */
int dlr_msg_uint(const json_t *msg, const char *key, uint64_t max, uint64_t *ret_value);
int dlr_msg_int(const json_t *msg, const char *key, int64_t *ret_value);
int dlr_msg_str(const json_t *msg, const char *key, const char **ret_value);

#endif
