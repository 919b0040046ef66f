/* SPDX-License-Identifier: Apache-2.0 */
/* What srun said before it ended, and of which nodes. Seen on Slurm 22.05.8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "mpi_launcher/slurm/srun_errors.h"

#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
#define LONG FIFTY FIFTY FIFTY FIFTY FIFTY TEN

static const struct {
    const char *name, *text, *nodes; /* "node=why[, gone];" of each */
} launches[] = {
    {"two of a step",
     "srun: error: Task launch for StepId=1.0 failed on node n2: Communication "
     "connection failure\n"
     "slurmstepd-n1: error: *** STEP 1.0 ON n1 CANCELLED ***\n"
     "srun: error: Task launch for StepId=1.0 failed on node gpu-4.x: Zero Bytes were "
     "transmitted or received\nsrun: error: Application launch failed: x\n",
     "n2=Communication connection failure;"
     "gpu-4.x=Zero Bytes were transmitted or received;"},
    {"an agent's words", "Task launch for StepId=1.0 failed on node n2: x\nsrun: ok\n",
     ""},
    {"cut", "srun: error: Task launch for StepId=1.0 failed on node n2", ""},
    {"no name", "srun: error: Task launch for StepId=1.0 failed on node : x\n", ""},
    {"no reason, no line end",
     "srun: error: Task launch for S failed on node n2:", "n2=;"},
    {"a program's line after a short one",
     "srun: \nTask launch for S failed on node n2: x", ""},
    {"a node that slurmctld has given up, while the step was launched",
     "srun: error: Node failure on n4\nsrun: error: Task launch for StepId=11.0 failed "
     "on node n4: Communication connection failure\n",
     "n4=Slurm says that it has failed, gone;n4=Communication connection failure;"},
    {"several at once, none, one that is too long",
     "srun: error: Node failure on n[4-5]\nsrun: error: Node failure on n4,n5\n"
     "srun: error: Node failure on \nsrun: error: Node failure on " LONG "\n",
     ""},
    {"an agent's words of a node", "error: Node failure on n4\n", ""},
    {"nothing", "", ""},
};

static void nodes_that_did_not_start_a_step_are_named(void **state)
{
    char name[DLR_SRUN_NODE], why[DLR_SRUN_WORDS], all[512];
    bool gone;

    for (size_t i = 0; i < sizeof(launches) / sizeof(*launches); i++) {
        const char *at = launches[i].text;
        size_t n = 0;

        print_message("%s\n", launches[i].name);
        all[0] = '\0';
        while ((at = dlr_srun_end_node(at, name, why, &gone)))
            n += snprintf(all + n, sizeof(all) - n, "%s=%s%s;", name, why,
                          gone ? ", gone" : "");
        assert_string_equal(all, launches[i].nodes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_did_not_start_a_step_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
