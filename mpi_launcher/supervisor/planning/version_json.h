/* SPDX-License-Identifier: Apache-2.0 */
/* Versions as the journal and the run's state have them. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_VERSION_JSON_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_VERSION_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "ckpt/base/version.h"

/* [round, step]; null when v is NULL. */
json_t *dlr_sup_version(const struct dlr_version *v);
/* False: it is none. It may have more items. */
bool dlr_sup_version_take(const json_t *list, struct dlr_version *ret);

#endif
