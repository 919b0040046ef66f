/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/planning/version_json.h"

json_t *dlr_sup_version(const struct dlr_version *v)
{
    if (!v)
        return json_null();
    return json_pack("[I,I]", (json_int_t)v->round, (json_int_t)v->step);
}

bool dlr_sup_version_take(const json_t *list, struct dlr_version *ret)
{
    const json_t *round = json_array_get(list, 0), *step = json_array_get(list, 1);

    if (!json_is_integer(round) || !json_is_integer(step) ||
        json_integer_value(round) < 0 || json_integer_value(round) > UINT32_MAX ||
        json_integer_value(step) < 0)
        return false;
    *ret = (struct dlr_version){(uint32_t)json_integer_value(round),
                                (uint64_t)json_integer_value(step)};
    return true;
}
