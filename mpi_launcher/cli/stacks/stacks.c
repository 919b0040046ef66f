/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover stacks: where every thread of a job is. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "common/base/cleanup.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/stacks/ask_nodes.h"
#include "mpi_launcher/doctor/doctor.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/run_view.h"

#define RANKS_TEXT 8192

struct stacks {
    struct dlr_cli_where where;
    const char *ranks_text;
    struct dlr_rank_set ranks;
    bool json;
    struct dlr_cli_run run;
    struct dlr_cli_state state;
    const char **nodes;
    size_t n;
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"ranks", "LIST", "these ranks alone, as 0-4,6 (default: all)"},
    {"json", NULL, "one JSON object"},
    {"run", "NAME", "the run, when the job has several (default: the newest)"},
    {"state-dir", "DIR", "the job's --dlrover-state-dir (default: DLROVER_STATE_DIR, "
                         "else ~/.dlrover)"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd stacks_cmd = {
    "stacks", "[JOB]",
    "Shows where every thread of a job is: its frames, merged over all ranks, and what "
    "it waits in.",
    opts,
    "JOB is the job's id; without it the job this shell is in, else the newest. The "
    "job\n"
    "goes on unharmed: a thread stops only while its registers and the end of its "
    "stack\n"
    "are copied. A step of Slurm's runs on each node for it.\n"};

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct stacks *s = arg;
    int rc;

    if (dlr_cli_where_set(&s->where, name, value, &rc, err))
        return rc;
    if (dlr_streq(name, "json"))
        s->json = true;
    else {
        s->ranks_text = value;
        dlr_rank_set_done(&s->ranks);
        return dlr_rank_set_parse(value, &s->ranks, err);
    }
    return 0;
}

/* --- which nodes ------------------------------------------------------------------ */

static int read_journal(struct stacks *s, struct dlr_err *err)
{
    struct dlr_cli_reader reader;
    size_t size;
    char *line;
    int rc;

    dlr_cli_reader_init(&reader, s->run.journal);
    while ((rc = dlr_cli_reader_next(&reader, &line, &size, err)) > 0)
        dlr_cli_state_line(&s->state, line, size);
    dlr_cli_reader_done(&reader);
    dlr_cli_state_settle(&s->state);
    return rc;
}

static bool has_wanted(const struct stacks *s, const struct dlr_cli_node *node)
{
    const json_t *rank;
    size_t i;

    if (!s->ranks_text)
        return true;
    json_array_foreach(
        node->ranks, i,
        rank) if (dlr_rank_set_has(&s->ranks,
                                   (uint32_t)json_integer_value(rank))) return true;
    for (int64_t r = node->first; !node->ranks && r < node->first + node->tasks; r++)
        if (dlr_rank_set_has(&s->ranks, (uint32_t)r))
            return true;
    return false;
}

static int choose_nodes(struct stacks *s, struct dlr_err *err)
{
    s->nodes = calloc(s->state.nnodes + 1, sizeof(*s->nodes));
    if (!s->nodes)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < s->state.nnodes; i++) {
        const struct dlr_cli_node *node = &s->state.nodes[i];

        if (node->tasks > 0 && node->role == DLR_CLI_TRAINING && has_wanted(s, node))
            s->nodes[s->n++] = node->name;
    }
    if (s->state.over)
        return dlr_fail(err, -ENOENT, "run %.100s of job %.100s is over", s->run.run,
                        s->run.job);
    if (s->n == 0)
        return dlr_fail(err, -ENOENT, "no node of job %.100s runs %s now", s->run.job,
                        s->ranks_text ? "one of these ranks" : "ranks");
    return 0;
}

/* --- the answer ------------------------------------------------------------------- */

/* What was read of how many: a line for each node that has said nothing, and notes. */
static json_t *notes_of(const struct stacks *s, const struct dlr_stacks_answer *a)
{
    json_t *notes = json_array(), *note;
    size_t answered = 0, i;
    char text[600];

    for (size_t t = 0; t < a->n; t++) {
        const struct dlr_stack_reader *r = &a->readers[t];

        answered += r->ended;
        json_array_foreach(r->notes, i, note)
        {
            snprintf(text, sizeof(text), "%s: %.300s", r->node[0] ? r->node : "?",
                     json_string_value(note));
            json_array_append_new(notes, json_string(text));
        }
    }
    if (answered < a->n) {
        snprintf(text, sizeof(text), "%zu of %zu nodes have answered%s%s%s", answered,
                 a->n, a->status == -1 ? " in time" : "",
                 a->said[0] ? "; srun says: " : "", a->said);
        json_array_append_new(notes, json_string(text));
        for (size_t n = 0; n < s->n && answered; n++) {
            bool there = false;

            for (size_t t = 0; t < a->n; t++)
                there |= dlr_streq(a->readers[t].node, s->nodes[n]);
            if (!there) {
                snprintf(text, sizeof(text), "%.200s has not answered", s->nodes[n]);
                json_array_append_new(notes, json_string(text));
            }
        }
    }
    return notes;
}

static json_t *tree_json(const struct dlr_stack_tree *tree)
{
    json_t *list = json_array();
    char *text = malloc(RANKS_TEXT);

    for (size_t i = 0; text && i < dlr_stack_tree_count(tree); i++) {
        const struct dlr_stack_node *node = dlr_stack_tree_node(tree, i);

        dlr_rank_set_text(&node->ranks, text, RANKS_TEXT);
        json_array_append_new(list,
                              json_pack("{s:i,s:s,s:s,s:I}", "parent", node->parent,
                                        "frame", node->frame, "ranks", text, "threads",
                                        (json_int_t)node->threads));
    }
    free(text);
    return list;
}

static int print(const struct stacks *s, const struct dlr_stacks_answer *a,
                 struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *notes = notes_of(s, a);
    DLR_AUTO_JSON json_t *j = NULL;
    json_t *note;
    size_t i;
    int rc = 0;

    if (s->json) {
        j = json_pack("{s:s,s:s,s:I,s:o,s:O}", "job", s->run.job, "run", s->run.run,
                      "round", (json_int_t)s->state.round, "tree", tree_json(a->tree),
                      "notes", notes);
        json_dumpf(j, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
        putchar('\n');
    } else {
        printf("job %s, run %s, round %lld: %zu node%s\n", s->run.job, s->run.run,
               (long long)s->state.round, s->n, s->n == 1 ? "" : "s");
        rc = dlr_stack_tree_print(a->tree, stdout);
        json_array_foreach(notes, i, note) printf("%s\n", json_string_value(note));
    }
    if (rc < 0 || fflush(stdout))
        return dlr_fail(err, -EIO, "cannot print it");
    for (size_t t = 0; t < a->n; t++)
        if (!a->readers[t].ended)
            return dlr_fail(err, -ENODATA, "not all nodes have answered");
    return 0;
}

static int ask(struct stacks *s, struct dlr_err *err)
{
    struct dlr_stacks_question q = {.ranks = s->ranks_text,
                                    .limit_ms = DLR_STACKS_ASK_MS};
    struct dlr_stacks_answer answer = {0};
    char tool[PATH_MAX];
    int rc = dlr_cli_find(&s->where, &s->run, err);

    if (rc == 0)
        rc = read_journal(s, err);
    if (rc == 0)
        rc = choose_nodes(s, err);
    if (rc < 0)
        return rc;
    q.job = s->run.job;
    q.nodes = s->nodes;
    q.n = s->n;
    q.tool = DLR_LIBEXECDIR "/dlrover-stacks";
    if (dlr_install_path_sibling("../libexec/dlrover/dlrover-stacks", tool,
                                 sizeof(tool)) == 0 &&
        access(tool, X_OK) == 0)
        q.tool = tool;
    dlr_doctor_scrub_environment();
    rc = dlr_stacks_ask(&q, &answer, err);
    if (rc == 0)
        rc = print(s, &answer, err);
    dlr_stacks_answer_done(&answer);
    return rc;
}

int dlr_cli_stacks(int argc, char **argv)
{
    struct stacks s = {0};
    struct dlr_err err = {0};
    int code, rc;

    if (!dlr_cli_parse(&stacks_cmd, argc, argv, set, &s, &code)) {
        dlr_rank_set_done(&s.ranks);
        return code;
    }
    dlr_cli_state_init(&s.state);
    rc = ask(&s, &err);
    if (rc < 0)
        fprintf(stderr, "dlrover: %s\n", err.text);
    free(s.nodes);
    dlr_rank_set_done(&s.ranks);
    dlr_cli_state_done(&s.state);
    return rc < 0 ? DLR_CLI_FAIL : DLR_CLI_OK;
}
