/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/simulator */
/* What sacct and sacctmgr say of a site. Rates that come out can be simulated.
 * Reaches dlr_site_sacct_parse(), dlr_site_events_parse().
 */
#include "mpi_launcher/simulator/site.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct dlr_site site = {0};
    struct dlr_sim_conf conf;
    struct dlr_err err;

    dlr_sim_conf_init(&conf);
    if (dlr_site_sacct_parse(text, &site, &err) == 0)
        FUZZ_CHECK(site.jobs && site.node_days > 0 && site.node_fail <= site.jobs);
    if (dlr_site_events_parse(text, &site, &err) == 0)
        FUZZ_CHECK(site.downs + site.groups > 0);
    dlr_site_apply(&site, &conf);
    FUZZ_CHECK(conf.node_rate >= 0 && conf.leaf_rate >= 0 && conf.down > 0);
    FUZZ_CHECK(conf.queue >= 0);
    free(text);
    return 0;
}
