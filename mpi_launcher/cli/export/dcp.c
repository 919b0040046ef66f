/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/export/export.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/install_path.h"
#include "common/base/str.h"

/* beside bin/, as `make install` has it */
#define PACKAGES "../lib/python3/dist-packages"

/* `python -m` looks into the current directory first, whosever that is, and so does -c
 * until the path says otherwise: only sys is there already.
 */
#define RUN                                                                            \
    "import sys; sys.path[:1] = sys.path[:1] if sys.path[0] else []; import runpy; "   \
    "runpy.run_module('dlrover.export', run_name='__main__', alter_sys=True)"

/* The package of this suite comes after what the user names. */
static int add_packages(void)
{
    const char *own = getenv("PYTHONPATH");
    char packages[PATH_MAX], path[2 * PATH_MAX];
    int rc = dlr_install_path_sibling(PACKAGES, packages, sizeof(packages));

    if (rc == 0)
        rc = dlr_format(path, sizeof(path), "%s%s%s", own ? own : "",
                        own && *own ? ":" : "", packages);
    if (rc == 0 && setenv("PYTHONPATH", path, 1) < 0)
        rc = -errno;
    return rc;
}

int dlr_cli_dcp(const char *dir, const char *step, const char *output,
                struct dlr_err *err)
{
    const char *chosen = getenv("DLROVER_PYTHON");
    const char *python = chosen && *chosen ? chosen : "python3";
    const char *argv[] = {python, "-c", RUN, "--output", output, dir, NULL, NULL, NULL};
    int rc = add_packages();

    if (rc < 0)
        return dlr_fail(err, rc, "cannot say where the Python package is: %s",
                        strerror(-rc));
    if (step) {
        argv[6] = "--step";
        argv[7] = step;
    }
    fflush(NULL);
    execvp(python, (char *const *)argv);
    return dlr_fail(err, -errno, "cannot run '%s': %s", python, strerror(errno));
}
