/* SPDX-License-Identifier: Apache-2.0 */
/* What the events of a journal mean: in words, as a state, as a view. Pure but for
 * fixtures.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/status_view.h"
#include "mpi_launcher/journal/event_text.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/run_view.h"
#include "mpi_launcher/journal/text.h"

/* --- words ------------------------------------------------------------------------ */

/* clang-format off */
static const struct {
    const char *event, *words;
} words_rows[] = {
    {"{\"event\":\"start\",\"job\":\"7\",\"run\":\"a-0\",\"generation\":1,\"places\":4,"
     "\"spares\":1,\"world\":8,\"round\":0}",
     "run a-0 of job 7: 4 nodes for 8 ranks, 1 spare"},
    {"{\"event\":\"start\",\"job\":\"7\",\"run\":\"a-0\",\"generation\":2,\"places\":1,"
     "\"spares\":0,\"world\":1,\"round\":3}",
     "a supervisor started again: run a-0 of job 7: 1 node for 1 rank, 0 spare; "
     "begins at round 3"},
    {"{\"event\":\"node_up\",\"node\":\"n1\",\"leaf\":\"leaf0\",\"cpus\":2}",
     "n1 is here on leaf0, 2 CPUs"},
    {"{\"event\":\"node_up\",\"node\":\"n1\",\"leaf\":\"\"}", "n1 is here"},
    {"{\"event\":\"topology\",\"source\":\"Slurm\",\"note\":\"Slurm: odd\"}",
     "the switches are as Slurm has them; Slurm: odd"},
    {"{\"event\":\"topology\",\"source\":null,\"note\":\"\"}",
     "no switches are known: nodes stand in the order of their names"},
    {"{\"event\":\"node_dead\",\"node\":\"n2\",\"why\":\"silent\",\"silent_ms\":1050}",
     "n2 is dead: silent for 1.05 s"},
    {"{\"event\":\"unprotected\",\"node\":\"n2\",\"version\":[0,120]}",
     "with n2 gone, part of step 120 of round 0 is not where it should be: another loss "
     "may cost it"},
    {"{\"event\":\"protected\",\"version\":[1,123],\"took_ms\":2100}",
     "step 123 of round 1 is protected again after 2.10 s"},
    {"{\"event\":\"auth_failures\",\"node\":\"n2\",\"count\":3}",
     "3 connections to n2 could not prove who made them"},
    {"{\"event\":\"name_taken\",\"node\":\"n2\",\"name\":\"/dev/shm/dlrover-1-7\"}",
     "on n2 somebody else has the name '/dev/shm/dlrover-1-7': stepped around"},
    {"{\"event\":\"rendezvous\",\"mpi\":true,\"candidates\":[\"n1\"]}", "1 node meet"},
    {"{\"event\":\"rendezvous\",\"mpi\":false,\"candidates\":[\"n1\",\"n2\"]}",
     "2 nodes meet, without MPI"},
    {"{\"event\":\"rendezvous\",\"mpi\":false,\"met\":true,\"candidates\":[\"n1\"]}",
     "1 node meet, without MPI"},
    {"{\"event\":\"rendezvous_failed\",\"why\":\"too slow\"}",
     "the rendezvous failed: too slow"},
    {"{\"event\":\"check\",\"node\":\"n1\",\"check\":\"disk\",\"verdict\":\"warn\","
     "\"reason\":\"2 GiB\"}", "check 'disk' of n1: warn: 2 GiB"},
    {"{\"event\":\"check\",\"node\":\"n1\",\"check\":\"edac\",\"verdict\":\"drain\","
     "\"reason\":\"7 errors\",\"drain\":\"scontrol update NodeName=n1\"}",
     "check 'edac' of n1: drain: 7 errors; an administrator may run: scontrol update "
     "NodeName=n1"},
    {"{\"event\":\"inject\",\"faults\":\"n2:edac=drain\"}",
     "faults are injected (DLROVER_INJECT): n2:edac=drain"},
    {"{\"event\":\"plan\",\"round\":1,\"places\":[{\"node\":\"n1\",\"first\":0,\"tasks\":2,"
     "\"moved\":false},{\"node\":\"n5\",\"first\":2,\"tasks\":2,\"moved\":true}],"
     "\"spares\":[\"n4\"],\"out\":[{\"node\":\"n3\",\"reason\":\"bad disk\"}],"
     "\"restore\":[0,120],\"notes\":[\"one\"]}",
     "round 1 is planned: 2 nodes, 1 spare; n5 takes ranks 2-3; left out: n3 (bad disk); "
     "resumes from step 120 of round 0; one"},
    {"{\"event\":\"plan\",\"round\":1,\"places\":[{\"node\":\"n5\",\"first\":1,\"tasks\":4,"
     "\"ranks\":[1,4,5,8],\"moved\":true}],\"spares\":[],\"out\":[],\"restore\":null,\"notes\":[]}",
     "round 1 is planned: 1 node; n5 takes ranks 1,4-5,8"},
    {"{\"event\":\"plan\",\"round\":0,\"places\":[{\"node\":\"n1\",\"first\":0,\"tasks\":1,"
     "\"moved\":false}],\"spares\":[],\"out\":[],\"restore\":null,\"notes\":[]}",
     "round 0 is planned: 1 node"},
    {"{\"event\":\"links\",\"round\":0,\"pairs\":6,\"rounds\":3,\"took_ms\":210}",
     "the nodes measured 6 links in 3 rounds and 0.21 s"},
    {"{\"event\":\"plan\",\"round\":0,\"places\":[{\"node\":\"n1\",\"first\":0,\"tasks\":1,"
     "\"moved\":false}],\"order\":{\"apart\":4,\"least\":2,\"split\":1},"
     "\"survives\":\"any one node\"}",
     "round 0 is planned: 1 node; 1 group is not under one leaf switch, 2 neighbours more "
     "than must be on two leaf switches; snapshots survive any one node"},
    {"{\"event\":\"plan\",\"round\":1,\"places\":[],\"reorder\":{\"moves\":4,\"saves\":2,"
     "\"taken\":true,\"gain_s\":90.25,\"cost_s\":3.5}}",
     "round 1 is planned: 0 nodes; 4 nodes change ranks to have 2 neighbours fewer on two "
     "leaf switches (90.2 s gained, 3.5 s lost)"},
    {"{\"event\":\"plan\",\"round\":1,\"places\":[],\"reorder\":{\"moves\":4,\"saves\":2,"
     "\"taken\":false,\"gain_s\":0.5,\"cost_s\":3.5}}",
     "round 1 is planned: 0 nodes; 4 nodes would have to change ranks to have 2 neighbours "
     "fewer on two leaf switches (0.5 s gained, 3.5 s lost)"},
    {"{\"event\":\"plan\",\"round\":0,\"places\":[{\"node\":\"n1\",\"first\":0,\"tasks\":1,"
     "\"moved\":false}],\"order\":{\"apart\":2,\"least\":2,\"split\":0}}",
     "round 0 is planned: 1 node"},
    {"{\"event\":\"copy_failed\",\"rank\":3,\"from\":\"n1\",\"to\":\"n2\",\"why\":\"x\"}",
     "the copy of rank 3 could not go from n1 to n2: x"},
    {"{\"event\":\"prepared\",\"round\":0,\"took_ms\":18,\"copies\":0}",
     "copies are in place in 0.02 s"},
    {"{\"event\":\"launch\",\"round\":2,\"world\":4,\"nodes\":4}",
     "round 2 starts: 4 ranks on 4 nodes"},
    {"{\"event\":\"running\",\"round\":2,\"took_ms\":402}",
     "every task of round 2 has started in 0.40 s"},
    {"{\"event\":\"restored\",\"round\":2,\"version\":[1,44],\"took_ms\":900}",
     "every rank has loaded step 44 of round 1, 0.90 s after the start"},
    {"{\"event\":\"restore_failed\",\"rank\":1,\"version\":[1,44],\"where\":\"n2\","
     "\"why\":\"bad sum\"}", "rank 1 could not load step 44 of round 1 on n2: bad sum"},
    {"{\"event\":\"first_step\",\"round\":2,\"step\":45}", "first step of round 2: 45"},
    {"{\"event\":\"no_memory\",\"node\":\"n2\",\"round\":1,\"rank\":3,\"count\":2,\"why\":\"x\"}",
     "nothing is saved in round 1: n2: x"},
    {"{\"event\":\"save_failed\",\"version\":[0,23],\"why\":\"no free slot\"}",
     "step 23 of round 0 was given up: no free slot"},
    {"{\"event\":\"resized\",\"nodes\":3,\"world\":6,\"of\":4}",
     "going on with 3 of 4 nodes and 6 ranks"},
    {"{\"event\":\"gone_back\",\"version\":[1,40],\"why\":\"exited with code 3\"}",
     "step 40 of round 1 is not restored again, nor a later one: exited with code 3"},
    {"{\"event\":\"marked_bad\",\"version\":[1,40],\"why\":\"rank 0 on n1 said so\"}",
     "step 40 of round 1 and later ones are bad: rank 0 on n1 said so"},
    {"{\"event\":\"saving\",\"round\":2,\"took_ms\":1500,\"node\":\"n1\",\"taken_mb\":80.5,"
     "\"least_mb\":54.0,\"limit_mb\":600}",
     "saves begin, 1.50 s after the start; they take 80.5 of 600 MB on n1, the fullest node, "
     "54 at least"},
    {"{\"event\":\"no_vetted_slot\",\"node\":\"n1\",\"why\":\"it is full\"}",
     "no older version is kept in memory: n1: it is full"},
    {"{\"event\":\"torn\",\"version\":[1,40],\"rank\":2,\"committed\":false,\"count\":1,"
     "\"why\":\"region 'w' changed\"}",
     "step 40 of round 1 is not of one moment and is given up: rank 2: region 'w' changed"},
    {"{\"event\":\"torn\",\"version\":[1,40],\"rank\":2,\"committed\":true,\"count\":1,"
     "\"why\":\"region 'w' changed\"}",
     "step 40 of round 1 is not of one moment: rank 2: region 'w' changed"},
    {"{\"event\":\"copy_bad\",\"version\":[1,40],\"rank\":2,\"node\":\"n1\",\"again\":true,"
     "\"why\":\"block 2 is corrupt in memory\"}",
     "n1 held a copy of rank 2 of step 40 of round 1 that went bad in its memory: block 2 is corrupt in memory"},
    {"{\"event\":\"copy_bad\",\"version\":[1,40],\"rank\":2,\"node\":\"n1\",\"again\":false,"
     "\"why\":\"block 2 is corrupt in memory\"}",
     "n1 held a copy of rank 2 of step 40 of round 1 that went bad in its memory; the next save replaces it: "
     "block 2 is corrupt in memory"},
    {"{\"event\":\"copy_remade\",\"version\":[1,40],\"rank\":2,\"node\":\"n1\"}",
     "n1's copy of rank 2 of step 40 of round 1 is good again"},
    {"{\"event\":\"term\",\"node\":\"n1\",\"round\":0}",
     "SIGTERM came to the steps, says n1: the tasks have their time"},
    {"{\"event\":\"warned\",\"signal\":10,\"round\":0}",
     "signal 10 (User defined signal 1) came to the steps near the job's end: a program that ends for it has ended"},
    {"{\"event\":\"ranks\",\"round\":1,\"turn\":1,\"world\":4,\"restore\":[0,40],\"moved\":true}",
     "the program has 4 ranks; they go on from step 40 of round 0"},
    {"{\"event\":\"ranks\",\"round\":1,\"turn\":1,\"world\":4,\"restore\":null,\"moved\":false}",
     "the program has 4 ranks where they were expected"},
    {"{\"event\":\"ranks_missing\",\"round\":1,\"why\":\"rank 3 of 4 is nowhere\"}",
     "ranks that waited for others got no checkpoint: rank 3 of 4 is nowhere"},
    {"{\"event\":\"saving\",\"round\":2,\"took_ms\":1500}",
     "saves begin, 1.50 s after the start"},
    {"{\"event\":\"cadence\",\"every\":100,\"every_s\":10,\"bound\":\"staleness\",\"cost_ms\":2.5,"
     "\"blocked_ms\":0.25,\"step_ms\":100.0,\"budget\":1,\"stale_s\":10,\"mtbf_h\":923.1}",
     "a save every 100 steps (10.0 s: staleness): it costs 2.5 ms, 0.25 of them in begin and "
     "fence, a step takes 100 ms; 1 % of the time at most, 10.0 s unsaved; a failure each 923 h"},
    {"{\"event\":\"cadence\",\"every\":1,\"every_s\":0.1,\"bound\":\"off\",\"cost_ms\":2.5,"
     "\"blocked_ms\":0.25,\"step_ms\":100.0,\"budget\":0,\"stale_s\":10,\"mtbf_h\":923.1}",
     "a save every 1 step (0.10 s: off): it costs 2.5 ms, 0.25 of them in begin and fence, a "
     "step takes 100 ms, 10.0 s unsaved; a failure each 923 h"},
    {"{\"event\":\"overdue\",\"round\":0,\"since_ms\":21000,\"steps\":420,\"why\":\"n2 has no memory\"}",
     "nothing was saved for 21.0 s and 420 steps: n2 has no memory"},
    {"{\"event\":\"network\",\"node\":\"n1\",\"uses\":\"eth0\",\"mbps\":1000,"
     "\"faster\":\"eth1\",\"cpus\":\"4-7,12\"}",
     "copies of n1 go over eth0 (1000 Mb/s), moved by CPUs 4-7,12; eth1 is up, faster and "
     "not used"},
    {"{\"event\":\"network\",\"node\":\"n1\",\"uses\":\"mlx5_0:1\",\"mbps\":0,"
     "\"transport\":\"ucx\",\"faster\":\"\",\"cpus\":\"\"}", "copies of n1 go over mlx5_0:1 by ucx"},
    {"{\"event\":\"every_step\",\"possible\":true,\"why\":\"it is small\"}",
     "a save in every step is possible: it is small"},
    {"{\"event\":\"every_step\",\"possible\":false,\"why\":\"it is large\"}",
     "a save in every step is not possible: it is large"},
    {"{\"event\":\"progress\",\"step\":9,\"rate\":12.51,\"committed\":[0,8],\"commits\":3,"
     "\"aborts\":0}", "step 9, 12.5 steps/s, committed step 8 of round 0, 3 commits"},
    {"{\"event\":\"worker_exit\",\"rank\":3,\"node\":\"n4\",\"code\":7,"
     "\"stderr\":\"first\\nlast words\\n\\n\"}",
     "rank 3 on n4 exited with code 7; its last line: last words"},
    {"{\"event\":\"worker_exit\",\"rank\":3,\"node\":\"n4\",\"code\":1,"
     "\"stderr\":\"MemoryError\",\"class\":\"memory\"}",
     "rank 3 on n4 exited with code 1 (memory); its last line: MemoryError"},
    {"{\"event\":\"worker_exit\",\"rank\":3,\"node\":\"n4\",\"signal\":9,\"stderr\":[]}",
     "rank 3 on n4 was killed by signal 9 (Killed)"},
    {"{\"event\":\"worker_exit\",\"rank\":0,\"node\":\"n1\",\"code\":1,"
     "\"stderr\":[\"a\",\"b\"]}", "rank 0 on n1 exited with code 1; its last line: b"},
    {"{\"event\":\"still\",\"round\":0,\"ranks\":[5],\"proven\":false,"
     "\"why\":\"rank 5 (n3) is behind the others\"}",
     "rank 5 (n3) is behind the others: it may be at work"},
    {"{\"event\":\"still\",\"round\":0,\"ranks\":[5],\"proven\":true,"
     "\"why\":\"rank 5 (n3) is stopped by a signal\"}",
     "rank 5 (n3) is stopped by a signal"},
    {"{\"event\":\"stacks\",\"round\":0,\"ranks\":\"0-1,5\",\"file\":\"/s/hang-0.log\","
     "\"silent\":0}", "the stacks of ranks 0-1,5 are in /s/hang-0.log"},
    {"{\"event\":\"stacks\",\"round\":0,\"ranks\":\"0-1,5\",\"file\":\"/s/hang-0.log\","
     "\"silent\":2}",
     "the stacks of ranks 0-1,5 are in /s/hang-0.log; 2 of their nodes did not answer"},
    {"{\"event\":\"moves\",\"round\":0,\"stood_ms\":20500}",
     "the program goes on after 20.5 s"},
    {"{\"event\":\"round_end\",\"round\":0,\"cause\":\"node\",\"why\":\"n2 was silent\","
     "\"step\":122,\"committed\":[0,120],\"pending\":null,\"restarts\":0}",
     "round 0 ends: n2 was silent; at step 122; committed step 120 of round 0"},
    {"{\"event\":\"explained\",\"round\":0,\"cause\":\"control\",\"why\":\"n2 was cut off\","
     "\"restarts\":0}",
     "round 0 ended, as is known now: n2 was cut off"},
    {"{\"event\":\"lease_expired\",\"node\":\"n2\",\"round\":0,\"silent_ms\":1003,\"killed\":1}",
     "n2 did not hear the supervisor for 1.00 s and killed 1 task"},
    {"{\"event\":\"suspended\",\"node\":\"n2\"}", "Slurm suspends the job, says n2"},
    {"{\"event\":\"resumed\",\"held_ms\":61500}", "the job goes on after 1 min 1 s"},
    {"{\"event\":\"cleared\",\"round\":0,\"took_ms\":81}",
     "nothing of round 0 is left after 0.08 s"},
    {"{\"event\":\"warm\",\"node\":\"n5\",\"processes\":2,\"mb\":311,\"took_ms\":4100}",
     "n5 is warm for 2 ranks: 311 MB, after 4.10 s"},
    {"{\"event\":\"warm\",\"node\":\"n5\",\"processes\":0,\"ran_ms\":4100}",
     "the command has run ahead on n5 in 4.10 s"},
    {"{\"event\":\"warm\",\"node\":\"n5\",\"processes\":0,"
     "\"why\":\"ended with code 1, 3 times\"}",
     "nothing runs ahead on n5: ended with code 1, 3 times"},
    {"{\"event\":\"persist\",\"version\":[0,48],\"files\":4,\"took_ms\":480,\"why\":\"\"}",
     "survivors wrote step 48 of round 0: 4 files in 0.48 s"},
    {"{\"event\":\"persist\",\"version\":null,\"files\":0,\"why\":\"no room\"}",
     "no checkpoint was written: no room"},
    {"{\"event\":\"persisted\",\"version\":[0,48],\"files\":4,\"bytes\":9,\"took_ms\":480,"
     "\"skipped\":2}",
     "step 48 of round 0 is on the disk: 4 files in 0.48 s; 2 left out so far"},
    {"{\"event\":\"persisted\",\"version\":[0,48],\"files\":1,\"bytes\":9,\"took_ms\":480,"
     "\"skipped\":0,\"bound\":\"young-daly\",\"nodes\":100,\"lost\":2,\"covered\":1,"
     "\"every_s\":3600,\"mtbf_s\":864000}",
     "step 48 of round 0 is on the disk: 1 file in 0.48 s; the next in 1 h 0 min (young-daly: 100 "
     "nodes, 2 lost so far, memory survives 1 of a set, more are lost each 10 d 0 h)"},
    {"{\"event\":\"persisted\",\"version\":[0,48],\"files\":1,\"bytes\":9,\"took_ms\":480,"
     "\"skipped\":0,\"bound\":\"user\",\"nodes\":100,\"lost\":2,\"covered\":1,"
     "\"every_s\":null,\"mtbf_s\":null}",
     "step 48 of round 0 is on the disk: 1 file in 0.48 s"},
    {"{\"event\":\"persisted\",\"version\":null,\"wanted\":[0,48],\"why\":\"no room\"}",
     "step 48 of round 0 was not written: no room"},
    {"{\"event\":\"requeue\",\"why\":\"3 are left\",\"exclude\":[\"n2\",\"n3\"]}",
     "slurmctld is asked to requeue the job without n2, n3: 3 are left"},
    {"{\"event\":\"requeue\",\"why\":\"3 are left\",\"exclude\":[]}",
     "slurmctld is asked to requeue the job: 3 are left"},
    {"{\"event\":\"requeue\",\"why\":\"n1 is silent\",\"exclude\":[\"n1\"],\"by\":\"n2\"}",
     "slurmctld is asked by the agent on n2 to requeue the job without n1: n1 is silent"},
    {"{\"event\":\"requeued\",\"code\":0,\"why\":\"x\",\"wall_s\":3.5,\"rounds\":2}",
     "Slurm has taken the job back: x; 2 rounds in 3.50 s"},
    {"{\"event\":\"requeue_failed\",\"why\":\"x\"}",
     "the job could not be requeued: x"},
    {"{\"event\":\"controller_away\",\"why\":\"slurmctld cannot be reached\"}",
     "slurmctld cannot be reached: waiting for it"},
    {"{\"event\":\"controller_back\",\"took_ms\":61000}",
     "slurmctld answers again after 1 min 1 s"},
    {"{\"event\":\"agent_back\",\"node\":\"n2\",\"round\":2,\"took_ms\":90}",
     "the agent of n2 died, the next one goes on with its tasks, 0.09 s later"},
    {"{\"event\":\"adopted\",\"round\":2,\"took_ms\":90}",
     "round 2 goes on under the new supervisor, found whole in 0.09 s"},
    {"{\"event\":\"renamed\",\"round\":1,\"from\":\"n2\",\"to\":\"n5\"}",
     "where the program's arguments say n2, it is told n5"},
    {"{\"event\":\"takeover\",\"node\":\"n2\",\"from\":\"n1\",\"why\":\"silent\"}",
     "the agent on n2 acts for the supervisor on n1: silent"},
    {"{\"event\":\"deposed\",\"node\":\"n2\"}",
     "the run goes on under a supervisor on n2: this one, which was cut off, does nothing "
     "any more"},
    {"{\"event\":\"end\",\"code\":0,\"why\":null,\"wall_s\":250.2,\"rounds\":1}",
     "the run is over with code 0; 1 round in 4 min 10 s"},
    {"{\"event\":\"news\",\"time\":\"x\",\"a\":1,\"b\":[\"x\",\"y\"],\"c\":{}}",
     "news a=1 b=x, y"},
    {"{\"event\":\"cleared\",\"dropped_lines\":3}",
     "nothing of round ? is left (3 lines lost so far)"},
    {"{\"event\":\"node_dead\",\"node\":\"\\u001b[2J\",\"why\":\"a\\nb\\u009b\"}",
     "?[2J is dead: a b??"},
};
/* clang-format on */

static void events_are_said_in_plain_words(void **state)
{
    char words[DLR_JOURNAL_EVENT_TEXT];

    for (size_t i = 0; i < sizeof(words_rows) / sizeof(*words_rows); i++) {
        json_t *e = json_loads(words_rows[i].event, 0, NULL);

        assert_non_null(e);
        dlr_journal_event_text(e, words, sizeof(words));
        if (!dlr_streq(words, words_rows[i].words))
            print_error("%s\n", words_rows[i].event);
        assert_string_equal(words, words_rows[i].words);
        json_decref(e);
    }
}

static void events_of_former_releases_are_read(void **state)
{
    static const struct {
        const char *former, *name;
    } rows[] = {
        {.former = "lapsed", .name = "lease_expired"},
        {.former = "strangers", .name = "auth_failures"},
        {.former = "unvetted", .name = "no_vetted_slot"},
        {.former = "from_the_future", .name = "from_the_future"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char line[128];
        json_t *e;

        snprintf(line, sizeof(line),
                 "{\"time\":\"2026-11-21T03:00:01.000Z\",\"event\":\"%s\"}",
                 rows[i].former);
        e = dlr_cli_event_parse(line, strlen(line));
        assert_string_equal(json_string_value(json_object_get(e, "event")),
                            rows[i].name);
        json_decref(e);
    }
}

static void every_event_in_the_table_has_a_row_here(void **state)
{
    char key[64];

    for (size_t i = 0; dlr_cli_event_name(i); i++) {
        bool found = false;

        snprintf(key, sizeof(key), "\"event\":\"%s\"", dlr_cli_event_name(i));
        for (size_t r = 0; r < sizeof(words_rows) / sizeof(*words_rows); r++)
            found = found || strstr(words_rows[r].event, key);
        if (!found)
            print_error("%s\n", dlr_cli_event_name(i));
        assert_true(found);
    }
}

/* Names in the first column of the table of docs/journal.md. */
static void every_documented_event_is_known(void **state)
{
    FILE *f = fopen("docs/journal.md", "re");
    char line[1024], name[64];
    unsigned known = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        bool found = false;

        if (sscanf(line, "| %63[a-z_] |", name) != 1 || dlr_streq(name, "event"))
            continue;
        for (size_t i = 0; dlr_cli_event_name(i) && !found; i++)
            found = dlr_streq(dlr_cli_event_name(i), name);
        if (!found)
            print_error("%s\n", name);
        assert_true(found);
        known++;
    }
    fclose(f);
    assert_true(known > 15);
}

static void a_line_is_cut_where_the_buffer_ends(void **state)
{
    json_t *e =
        json_pack("{s:s,s:s}", "event", "rendezvous_failed", "why", "0123456789");
    char small[26];

    dlr_journal_event_text(e, small, sizeof(small));
    assert_string_equal(small, "the rendezvous failed: 01");
    json_decref(e);
}

/* --- times ------------------------------------------------------------------------ */

static void spans_are_short(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {{-5, "0.00 s"},          {840, "0.84 s"},
                {12300, "12.3 s"},       {252000, "4 min 12 s"},
                {11100000, "3 h 5 min"}, {187200000, "2 d 4 h"}};
    char span[32];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dlr_cli_span(rows[i].ms, span, sizeof(span));
        assert_string_equal(span, rows[i].text);
    }
}

static void times_are_read_as_people_write_them(void **state)
{
    static const struct {
        const char *text;
        int rc;
        int64_t ms;
    } rows[] = {
        {"10m", 0, 1795000000000 - 600000},
        {"2026-11-18T06:26:40.250Z", 0, 1794983200250},
        {"2026-11-18T06:26:40", 0, 1794983200000},
        {"2026-11-18 06:26", 0, 1794983160000},
        {"2026-11-18", 0, 1794960000000},
        {"01:00", 0, 1794963600000},
        {"yesterday", -EINVAL, 0},
        {"", -EINVAL, 0},
        {"2026-11-18T06:26:40.2Z", -EINVAL, 0},
        {"2026-11-18T06:26:40 and more", -EINVAL, 0},
        {"6026-11-18T06:26:40.250Z", -EINVAL, 0}, /* its nanoseconds do not fit */
        {"1026-11-18", -EINVAL, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        int64_t ms = 0;
        int rc = dlr_cli_since_parse(rows[i].text, 1795000000000, &ms);

        if (rc != rows[i].rc || ms != rows[i].ms)
            print_error("%s: %d %lld\n", rows[i].text, rc, (long long)ms);
        assert_int_equal(rc, rows[i].rc);
        assert_true(ms == rows[i].ms);
    }
}

/* --- what was meant --------------------------------------------------------------- */

static void slips_find_the_word_that_was_meant(void **state)
{
    static const char *const names[] = {"status", "events", "check", "version", "help"};
    static const struct {
        const char *word, *meant;
    } rows[] = {{"statsu", "status"}, {"evnts", "events"}, {"chekc", "check"},
                {"ver", "version"},   {"launch", NULL},    {"x", NULL},
                {"", NULL},           {"STATUS", NULL}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *near = dlr_nearest(rows[i].word, names, 5);

        if (rows[i].meant)
            assert_string_equal(near, rows[i].meant);
        else
            assert_null(near);
    }
}

/* --- state ------------------------------------------------------------------------ */

static void load(struct dlr_cli_state *s, const char *path)
{
    struct dlr_cli_reader r;
    struct dlr_err err;
    size_t size;
    char *line;

    dlr_cli_state_init(s);
    dlr_cli_reader_init(&r, path);
    while (dlr_cli_reader_next(&r, &line, &size, &err) > 0)
        dlr_cli_state_line(s, line, size);
    dlr_cli_state_settle(s);
    dlr_cli_reader_done(&r);
}

static const struct dlr_cli_node *node(const struct dlr_cli_state *s, const char *name)
{
    for (size_t i = 0; i < s->nnodes; i++)
        if (dlr_streq(s->nodes[i].name, name))
            return &s->nodes[i];
    fail_msg("no node %s", name);
    return NULL;
}

static void a_gap_in_protection_has_a_beginning_and_an_end(void **state)
{
    static const char gap[] =
        "{\"time\":\"2026-11-21T03:00:12.000Z\",\"event\":\"unprotected\","
        "\"node\":\"n2\",\"version\":[0,120]}";
    static const char end[] =
        "{\"time\":\"2026-11-21T03:00:14.000Z\",\"event\":\"protected\","
        "\"version\":[1,123],\"took_ms\":2000}";
    static const char start[] = "{\"time\":\"2026-11-21T03:00:13.000Z\","
                                "\"event\":\"start\",\"generation\":2}";
    struct dlr_cli_state s;

    dlr_cli_state_init(&s);
    dlr_cli_state_line(&s, gap, sizeof(gap) - 1);
    assert_true(s.degraded_since_ms > 0 && s.degraded_since_ms == s.last_ms);
    assert_string_equal(s.degraded_node, "n2");
    dlr_cli_state_line(&s, start, sizeof(start) - 1); /* another supervisor */
    assert_true(s.degraded_since_ms > 0);
    dlr_cli_state_line(&s, end, sizeof(end) - 1);
    assert_int_equal(s.degraded_since_ms, 0);
    dlr_cli_state_done(&s);
}

/* The journal says it when it changes. */
static void what_snapshots_survive_is_known_until_it_changes(void **state)
{
    static const char first[] =
        "{\"time\":\"2026-11-21T03:00:12.000Z\",\"event\":\"plan\",\"round\":0,"
        "\"places\":[],\"survives\":\"any one node, any one leaf switch\"}";
    static const char next[] = "{\"time\":\"2026-11-21T03:00:13.000Z\","
                               "\"event\":\"plan\",\"round\":1,\"places\":[]}";
    static const char reseated[] =
        "{\"time\":\"2026-11-21T03:00:14.000Z\",\"event\":\"ranks\",\"round\":1,"
        "\"places\":[],\"survives\":\"any one node\"}";
    struct dlr_cli_look look = {0};
    struct dlr_cli_run run = {.job = "7", .run = "r", .journal = "j"};
    struct dlr_cli_state s;
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0;

    dlr_cli_state_init(&s);
    dlr_cli_state_line(&s, first, sizeof(first) - 1);
    dlr_cli_state_line(&s, next, sizeof(next) - 1);
    look.out = open_memstream(&text, &size);
    dlr_cli_view(&look, &s, &run, s.last_ms);
    fclose(look.out);
    assert_non_null(strstr(text, "survives"));
    assert_non_null(strstr(text, "any one node, any one leaf switch\n"));
    dlr_cli_state_line(&s, reseated, sizeof(reseated) - 1);
    assert_string_equal(s.survives, "any one node");
    dlr_cli_state_done(&s);
}

static void a_lost_node_shows_beside_the_one_that_took_over(void **state)
{
    struct dlr_cli_state s;

    load(&s, "tests/journals/node-loss.jsonl");
    assert_int_equal(s.round, 1);
    assert_int_equal(s.step, 221);
    assert_int_equal(s.committed.round, 1);
    assert_int_equal(s.committed.step, 218);
    assert_int_equal(s.commit_ms, s.last_ms - 240);
    assert_int_equal(s.restarts, 0);
    assert_int_equal(node(&s, "n2")->role, DLR_CLI_DEAD);
    assert_string_equal(node(&s, "n2")->reason, "silent for 1.05 s, 03:00:12");
    assert_int_equal(node(&s, "n5")->role, DLR_CLI_TRAINING);
    assert_int_equal(node(&s, "n5")->first, 1);
    assert_true(node(&s, "n5")->moved);
    assert_int_equal(dlr_cli_state_count(&s, DLR_CLI_TRAINING), 4);
    assert_int_equal(dlr_cli_state_condition(&s, s.last_ms + 1000), DLR_CLI_RUNNING);
    assert_int_equal(dlr_cli_state_condition(&s, s.last_ms + 11000), DLR_CLI_STALLED);
    dlr_cli_state_done(&s);
}

static void ends_are_told_apart(void **state)
{
    static const struct {
        const char *path;
        enum dlr_run_condition condition;
        int64_t code, restarts;
        unsigned released, dead;
    } rows[] = {
        {"tests/journals/done.jsonl", DLR_CLI_DONE, 0, 0, 5, 0},
        {"tests/journals/crash-loop.jsonl", DLR_CLI_FAILED, 7, 2, 5, 0},
        {"tests/journals/requeue.jsonl", DLR_CLI_REQUEUED, 0, 0, 3, 2},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_cli_state s;

        load(&s, rows[i].path);
        assert_int_equal(dlr_cli_state_condition(&s, s.last_ms), rows[i].condition);
        assert_int_equal(s.code, rows[i].code);
        assert_int_equal(s.restarts, rows[i].restarts);
        assert_int_equal(dlr_cli_state_count(&s, DLR_CLI_RELEASED), rows[i].released);
        assert_int_equal(dlr_cli_state_count(&s, DLR_CLI_DEAD), rows[i].dead);
        assert_int_equal(s.bad_lines, 0);
        dlr_cli_state_done(&s);
    }
}

/* The phase and condition after each event of a life. */
static void phases_follow_the_events(void **state)
{
    static const struct {
        const char *event, *more;
        enum dlr_cli_phase phase;
        enum dlr_run_condition condition;
    } rows[] = {
        {"start", "\"nodes\":[\"a\",\"b\"]", DLR_CLI_AGENTS, DLR_CLI_STARTING},
        {"node_up", "\"node\":\"a\"", DLR_CLI_AGENTS, DLR_CLI_STARTING},
        {"rendezvous", "\"mpi\":true", DLR_CLI_RENDEZVOUS, DLR_CLI_STARTING},
        {"check", "\"node\":\"a\"", DLR_CLI_RENDEZVOUS, DLR_CLI_STARTING},
        {"plan", "\"round\":0,\"restore\":null", DLR_CLI_PREPARE, DLR_CLI_STARTING},
        {"launch", "\"round\":0", DLR_CLI_LAUNCH, DLR_CLI_STARTING},
        {"running", "\"round\":0", DLR_CLI_RUN, DLR_CLI_RUNNING},
        {"first_step", "\"round\":0,\"step\":1", DLR_CLI_TRAIN, DLR_CLI_RUNNING},
        {"worker_exit", "\"rank\":1", DLR_CLI_TRAIN, DLR_CLI_RUNNING},
        {"round_end", "\"cause\":\"program\"", DLR_CLI_ENDING, DLR_CLI_RECOVERING},
        {"cleared", "\"round\":0", DLR_CLI_CLEARED, DLR_CLI_RECOVERING},
        {"plan", "\"round\":1,\"restore\":[0,1]", DLR_CLI_PREPARE, DLR_CLI_RECOVERING},
        {"running", "\"round\":1", DLR_CLI_LOAD, DLR_CLI_RECOVERING},
        {"restored", "\"round\":1", DLR_CLI_RUN, DLR_CLI_RUNNING},
        {"progress", "\"step\":9,\"rate\":0.01", DLR_CLI_TRAIN, DLR_CLI_RUNNING},
        {"suspended", "\"node\":\"a\"", DLR_CLI_TRAIN, DLR_CLI_SUSPENDED},
        {"resumed", "\"held_ms\":61500", DLR_CLI_TRAIN, DLR_CLI_RUNNING},
        {"still", "\"why\":\"rank 1 has not come\"", DLR_CLI_TRAIN, DLR_CLI_STALLED},
        {"start", "\"generation\":2", DLR_CLI_AGENTS, DLR_CLI_RECOVERING},
        {"adopted", "\"round\":1,\"places\":[{\"node\":\"a\"}]", DLR_CLI_RUN,
         DLR_CLI_RUNNING},
        {"takeover", "\"node\":\"a\",\"from\":\"b\"", DLR_CLI_PERSIST,
         DLR_CLI_RECOVERING},
        {"requeue", "\"why\":\"x\"", DLR_CLI_REQUEUE, DLR_CLI_REQUEUED},
        {"requeued", "\"why\":\"x\"", DLR_CLI_REQUEUE, DLR_CLI_REQUEUED},
        {"start", "\"incarnation\":1", DLR_CLI_AGENTS, DLR_CLI_RECOVERING},
        {"end", "\"code\":130", DLR_CLI_FINISHED, DLR_CLI_FAILED},
    };
    struct dlr_cli_state s;
    char line[256];

    dlr_cli_state_init(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        snprintf(line, sizeof(line),
                 "{\"time\":\"2026-11-21T03:00:%02zu.000Z\",\"event\":\"%s\",%s}", i,
                 rows[i].event, rows[i].more);
        dlr_cli_state_line(&s, line, strlen(line));
        dlr_cli_state_settle(&s);
        if (s.phase != rows[i].phase ||
            dlr_cli_state_condition(&s, s.last_ms) != rows[i].condition)
            print_error("row %zu: %s\n", i, rows[i].event);
        assert_int_equal(s.phase, rows[i].phase);
        assert_int_equal(dlr_cli_state_condition(&s, s.last_ms), rows[i].condition);
    }
    dlr_cli_state_done(&s);
}

static void an_explained_end_costs_no_restart(void **state)
{
    static const char *const lines[] = {
        "{\"event\":\"start\",\"max_restarts\":3}",
        "{\"event\":\"round_end\",\"cause\":\"program\",\"why\":\"rank 1 was killed\","
        "\"restarts\":0}",
        "{\"event\":\"explained\",\"cause\":\"node\",\"why\":\"n2 was silent\","
        "\"restarts\":0}"};
    struct dlr_cli_state s;
    char line[256];

    dlr_cli_state_init(&s);
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        snprintf(line, sizeof(line), "{\"time\":\"2026-11-21T03:00:00.000Z\",%s",
                 lines[i] + 1);
        dlr_cli_state_line(&s, line, strlen(line));
        assert_int_equal(s.restarts, i == 1);
    }
    assert_string_equal(s.why, "n2 was silent");
    dlr_cli_state_done(&s);
}

static void hostile_lines_are_counted_and_passed_over(void **state)
{
    struct dlr_cli_state s;

    load(&s, "tests/journals/hostile.jsonl");
    assert_int_equal(s.bad_lines, 4);
    assert_int_equal(s.dropped_lines, 5);
    assert_false(s.over); /* the last line is only half written */
    assert_int_equal(s.phase,
                     DLR_CLI_RENDEZVOUS); /* from behind the half line before it */
    dlr_cli_state_done(&s);
}

/* A small terminal: the view fits, what is out of the ordinary is still there. */
static void a_small_terminal_shows_the_dead_first(void **state)
{
    struct dlr_cli_look look = {.width = 40, .height = 18};
    struct dlr_cli_run where = {.job = "41", .run = "r"};
    struct dlr_cli_state s;
    size_t size, lines = 0;
    char *text = NULL;

    load(&s, "tests/journals/node-loss.jsonl");
    look.out = open_memstream(&text, &size);
    dlr_cli_view(&look, &s, &where, s.last_ms);
    fclose(look.out);
    assert_non_null(strstr(text, "       n2    dead"));
    assert_non_null(strstr(text, "... and 2 more\n"));
    for (char *line = text, *nl; (nl = strchr(line, '\n')); line = nl + 1, lines++)
        assert_true(nl - line <= 40);
    assert_true(lines < 18);
    free(text);
    dlr_cli_state_done(&s);
}

static void the_newest_write_to_the_disk_is_shown(void **state)
{
    static const char line[] =
        "{\"time\":\"2026-11-21T03:00:12.000Z\",\"event\":\"persisted\","
        "\"version\":[0,120],\"files\":2,\"took_ms\":480,\"bound\":\"duty\",\"nodes\":"
        "2,"
        "\"lost\":1,\"covered\":1,\"every_s\":690,\"mtbf_s\":86400}";
    struct dlr_cli_look look = {.width = 200};
    struct dlr_cli_run where = {.job = "41", .run = "r"};
    struct dlr_cli_state s;
    char *text = NULL;
    json_t *j;
    size_t size;

    dlr_cli_state_init(&s);
    dlr_cli_state_line(&s, line, sizeof(line) - 1);
    look.out = open_memstream(&text, &size);
    dlr_cli_view(&look, &s, &where, s.last_ms);
    fclose(look.out);
    assert_non_null(
        strstr(text, "\ndisk       step 120 of round 0 is on the disk: 2 files"));
    assert_non_null(strstr(text, "the next in 11 min 30 s (duty: 2 nodes, 1 lost"));
    j = dlr_cli_view_json(&s, &where, s.last_ms);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(j, "persisted"), "every_s")),
        690);
    json_decref(j);
    free(text);
    dlr_cli_state_done(&s);
}

static int use_utc(void **state)
{
    setenv("TZ", "UTC", 1);
    tzset();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_said_in_plain_words),
        cmocka_unit_test(events_of_former_releases_are_read),
        cmocka_unit_test(every_event_in_the_table_has_a_row_here),
        cmocka_unit_test(every_documented_event_is_known),
        cmocka_unit_test(a_line_is_cut_where_the_buffer_ends),
        cmocka_unit_test(spans_are_short),
        cmocka_unit_test(times_are_read_as_people_write_them),
        cmocka_unit_test(slips_find_the_word_that_was_meant),
        cmocka_unit_test(what_snapshots_survive_is_known_until_it_changes),
        cmocka_unit_test(a_gap_in_protection_has_a_beginning_and_an_end),
        cmocka_unit_test(a_lost_node_shows_beside_the_one_that_took_over),
        cmocka_unit_test(ends_are_told_apart),
        cmocka_unit_test(phases_follow_the_events),
        cmocka_unit_test(an_explained_end_costs_no_restart),
        cmocka_unit_test(hostile_lines_are_counted_and_passed_over),
        cmocka_unit_test(the_newest_write_to_the_disk_is_shown),
        cmocka_unit_test(a_small_terminal_shows_the_dead_first),
    };

    return cmocka_run_group_tests(tests, use_utc, NULL);
}
