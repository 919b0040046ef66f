/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal/event_fields.h"

#include <stdlib.h>
#include <string.h>

const char *dlr_cli_event_text(const json_t *e, const char *key)
{
    return json_string_value(json_object_get(e, key));
}

int64_t dlr_cli_event_int(const json_t *e, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(e, key);

    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

void dlr_cli_set_text(char **text, const char *value)
{
    free(*text);
    *text = value && value[0] ? strdup(value) : NULL;
}
