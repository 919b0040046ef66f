/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the driver about the node's GPUs, in a process of its own: its calls may block
 * for ever, and its library is not ours. Whoever has started it reads lines
 * (device/gpu_facts.h) and waits as long as it likes.
 *
 *   dlrover-gpu [speed]
 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/str.h"
#include "device/gpu_speed.h"
#include "device/nvml.h"

#define LIFE_S 120 /* longer than anybody waits for it */

int main(int argc, char **argv)
{
    int rc;

    if (argc > 2 || (argc == 2 && !dlr_streq(argv[1], "speed"))) {
        fputs("usage: dlrover-gpu [speed]\n", stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(LIFE_S); /* and if it has died already */
    setvbuf(stdout, NULL, _IOLBF, 0);
    rc = argc == 2 ? dlr_gpu_speed_tell(stdout) : dlr_nvml_tell(stdout);
    if (rc == 0)
        puts("end");
    fflush(stdout);
    _exit(rc < 0 ? 1 : 0); /* a library's destructors may wait for the driver, too */
}
