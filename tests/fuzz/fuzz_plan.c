/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/plan,common/config */
/* Reports, plans and what a rendezvous is told, as JSON. The first byte chooses which.
 * What was read and written once comes out the same the second time; a plan is made of
 * two reports. Reaches dlr_plan_copy_from_json(), dlr_plan_node_from_json(),
 * dlr_plan_read_places(), dlr_plan_read_worlds(), dlr_health_verdict_parse().
 */
#include <jansson.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/plan.h"
#include "tests/fuzz/fuzz.h"

static void same(json_t *once, json_t *twice)
{
    FUZZ_CHECK(once && twice && json_equal(once, twice));
    json_decref(once);
    json_decref(twice);
}

static void try_report(const json_t *j)
{
    struct dlr_plan_report r[2];
    static const unsigned tasks[] = {1, 1};
    struct dlr_plan_want want = {.nplaces = 1, .tasks = tasks};
    unsigned n = 0;

    n += dlr_plan_report_from_json(j, &r[n], NULL) == 0;
    n += dlr_plan_report_from_json(json_object_get(j, "other"), &r[n], NULL) == 0;
    for (unsigned i = 0; i < n; i++) {
        json_t *once = dlr_plan_report_to_json(&r[i]);
        struct dlr_plan_report again;

        FUZZ_CHECK(dlr_plan_report_from_json(once, &again, NULL) == 0);
        same(once, dlr_plan_report_to_json(&again));
        dlr_plan_report_done(&again);
    }
    for (unsigned places = 1; n > 0 && places < 3; places++) {
        struct dlr_plan plan = {0};
        struct dlr_err err = {0};

        want.nplaces = places;
        dlr_plan_make(r, n, &want, &plan, &err);
        dlr_plan_done(&plan);
    }
    for (unsigned i = 0; i < n; i++)
        dlr_plan_report_done(&r[i]);
}

static void try_plan(const json_t *j)
{
    struct dlr_plan plan = {0}, again = {0};
    struct dlr_err err = {0};

    if (dlr_plan_from_json(j, &plan, &err) == 0) {
        json_t *once = dlr_plan_to_json(&plan, NULL);

        FUZZ_CHECK(dlr_plan_from_json(once, &again, &err) == 0);
        same(once, dlr_plan_to_json(&again, NULL));
        dlr_plan_done(&again);
    }
    dlr_plan_done(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlr_plan_input input = {0};
    struct dlr_err err;
    json_t *j;

    if (size == 0)
        return 0;
    j = json_loadb((const char *)data + 1, size - 1, JSON_REJECT_DUPLICATES, NULL);
    if (!j)
        return 0;
    if (data[0] % 3 == 0)
        try_report(j);
    else if (data[0] % 3 == 1)
        try_plan(j);
    else {
        dlr_plan_input_from_json(j, &input, &err);
        dlr_plan_input_done(&input);
    }
    json_decref(j);
    return 0;
}
