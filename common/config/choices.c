/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/choices.h"

#include <stddef.h>

const char *const dlr_transport_words[] = {"auto", "stream", "ucx", NULL};
const char *const dlr_bind_words[] = {"off", "numa", "cores", NULL};
const char *const dlr_watch_calls_words[] = {"auto", "all", "off", NULL};
const char *const dlr_rounds_words[] = {"off", "first", "always", NULL};
const char *const dlr_reorder_words[] = {"never", "always", "auto", NULL};
const char *const dlr_hang_words[] = {"act", "name", "off", NULL};
