/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/report_of.h"

#include <errno.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/journal/reader.h"

int dlr_cli_report_of(const struct dlr_cli_run *run, bool traced,
                      struct dlr_report **ret, struct dlr_err *err)
{
    struct dlr_report *r = dlr_report_new();
    struct dlr_cli_reader reader;
    size_t size;
    char *line;
    int rc = r ? 1 : dlr_fail(err, -ENOMEM, "no memory for a report");

    if (rc > 0 && traced)
        dlr_report_traced(r);
    dlr_cli_reader_init(&reader, run->journal);
    while (rc > 0 && (rc = dlr_cli_reader_next(&reader, &line, &size, err)) > 0)
        dlr_report_line(r, line, size);
    if (rc == 0) {
        dlr_report_finish(r, reader.skipped);
        *ret = DLR_STEAL(r);
    }
    dlr_cli_reader_done(&reader);
    dlr_report_free(r);
    return rc;
}
