/* SPDX-License-Identifier: Apache-2.0 */
/* What srun said before it ended, and whose fault that was. Seen on Slurm 22.05.8 where a row
 * does not say otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "mpi_launcher/srun_end.h"

#define EXIT(code) ((code) << 8)

static const struct {
    const char *name;
    int status;
    bool started;
    const char *text, *end, *words;
} rows[] = {
    {"code 0", EXIT(0), false, "srun: error: Unable to create step for job 1: x\n",
     "ok", ""},
    {"tasks failed", EXIT(1), true,
     "srun: error: n1: task 0: Exited with exit code 1\n", "program", ""},
    {"a task that plays srun", EXIT(1), true,
     "srun: error: Unable to contact slurm controller (connect failure)\n", "program",
     ""},
    {"silence", EXIT(1), false, "", "program", ""},
    {"no text", SIGKILL, false, NULL, "program", ""},
    {"others' words", EXIT(1), false,
     "0: srun: error: Requested nodes are busy\nKilled\n", "program", ""},
    {"controller frozen", EXIT(1), false,
     "srun: error: Unable to confirm allocation for job 2: Socket timed out on "
     "send/recv "
     "operation\nsrun: Check SLURM_JOB_ID environment variable. Expired or invalid job "
     "2\n",
     "control",
     "Unable to confirm allocation for job 2: Socket timed out on send/recv operation"},
    {"controller down", EXIT(1), false,
     "srun: error: Unable to confirm allocation for job 2: Unable to contact slurm "
     "controller (connect failure)\nsrun: Check SLURM_JOB_ID environment variable. "
     "Expired "
     "or invalid job 2\n",
     "control",
     "Unable to confirm allocation for job 2: Unable to contact slurm controller "
     "(connect "
     "failure)"},
    {"gone while it waited", EXIT(1), false,
     "srun: Job 2 step creation temporarily disabled, retrying (Requested nodes are "
     "busy)\n"
     "srun: error: Unable to create step for job 2: Zero Bytes were transmitted or "
     "received\n",
     "control",
     "Unable to create step for job 2: Zero Bytes were transmitted or received"},
    {"no munge", EXIT(1), false,
     "srun: error: If munged is up, restart with --num-threads=10\n"
     "srun: error: Munge encode failed: Failed to access "
     "\"/run/munge/munge.socket.2\": No "
     "such file or directory\nsrun: error: slurm_send_node_msg: auth_g_create: "
     "REQUEST_JOB_STEP_CREATE has authentication error\n",
     "control",
     "Munge encode failed: Failed to access \"/run/munge/munge.socket.2\": No such "
     "file or "
     "directory"},
    {"configless (source)", EXIT(1), false,
     "srun: error: fetch_config: DNS SRV lookup failed\n"
     "srun: fatal: Could not establish a configuration source\n",
     "control", "fatal: Could not establish a configuration source"},
    {"waits and is killed", SIGKILL, false,
     "srun: Job 2 step creation temporarily disabled, retrying (Requested nodes are "
     "busy)\n",
     "busy",
     "Job 2 step creation temporarily disabled, retrying (Requested nodes are busy)"},
    {"--immediate", EXIT(1), false,
     "srun: error: Unable to create step for job 2: Requested nodes are busy\n", "busy",
     "Unable to create step for job 2: Requested nodes are busy"},
    {"waited, then went on", EXIT(1), false,
     "srun: Job 2 step creation temporarily disabled, retrying (Requested nodes are "
     "busy)\n"
     "srun: Step created for job 2\n",
     "program", ""},
    {"too many", EXIT(1), false,
     "srun: error: Unable to create step for job 1: More processors requested than "
     "permitted\n",
     "refused",
     "Unable to create step for job 1: More processors requested than permitted"},
    {"gres", EXIT(1), false,
     "srun: error: Invalid generic resource (gres) specification\n", "refused",
     "Invalid generic resource (gres) specification"},
    {"first error is the reason", EXIT(1), false,
     "srun: error: Couldn't find the specified plugin name for mpi/nope looking at all "
     "files\n"
     "srun: error: Invalid MPI type 'nope', --mpi=list for acceptable types\n",
     "refused",
     "Couldn't find the specified plugin name for mpi/nope looking at all files"},
    {"bad option", EXIT(255), false,
     "srun: unrecognized option '--bogus'\nTry \"srun --help\" for more information\n",
     "refused", "unrecognized option '--bogus'"},
    {"a node", EXIT(1), false,
     "srun: error: Task launch for StepId=5.0 failed on node n2: Socket timed out on "
     "send/recv operation\nsrun: error: Application launch failed: Socket timed out on "
     "send/recv operation\nsrun: Job step aborted\n",
     "node", "Application launch failed: Socket timed out on send/recv operation"},
    {"job over", EXIT(1), false,
     "srun: error: Unable to create step for job 1: Job/step already completing or "
     "completed\n",
     "gone",
     "Unable to create step for job 1: Job/step already completing or completed"},
    {"last line is cut", EXIT(1), false, "srun: error: Requested nodes are busy",
     "busy", "Requested nodes are busy"},
};

static void words_of_srun_tell_whose_fault_its_end_is(void **state)
{
    char words[DLR_SRUN_WORDS];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        enum dlr_srun_end end =
            dlr_srun_end_of(rows[i].status, rows[i].started, rows[i].text, words);

        print_message("%s\n", rows[i].name);
        assert_string_equal(dlr_srun_end_name(end), rows[i].end);
        assert_string_equal(words, rows[i].words);
    }
}

static void words_too_long_are_cut(void **state)
{
    char text[1000], words[DLR_SRUN_WORDS];

    memset(text, 'x', sizeof(text));
    memcpy(text, "srun: error: ", 13);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(dlr_srun_end_of(EXIT(1), false, text, words),
                     DLR_SRUN_END_REFUSED);
    assert_int_equal(strlen(words), DLR_SRUN_WORDS - 1);
}

static const struct {
    const char *name, *text, *nodes; /* "node=why;" of each */
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
    {"nothing", "", ""},
};

static void nodes_that_did_not_start_a_step_are_named(void **state)
{
    char name[DLR_SRUN_NODE], why[DLR_SRUN_WORDS], all[512];

    for (size_t i = 0; i < sizeof(launches) / sizeof(*launches); i++) {
        const char *at = launches[i].text;
        size_t n = 0;

        print_message("%s\n", launches[i].name);
        all[0] = '\0';
        while ((at = dlr_srun_end_node(at, name, why)))
            n += snprintf(all + n, sizeof(all) - n, "%s=%s;", name, why);
        assert_string_equal(all, launches[i].nodes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_srun_tell_whose_fault_its_end_is),
        cmocka_unit_test(words_too_long_are_cut),
        cmocka_unit_test(nodes_that_did_not_start_a_step_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
