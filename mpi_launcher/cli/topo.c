/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover topo: the switches above a cluster's nodes, or a job's. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "hwloc_topo/networks.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/topo_tree.h"
#include "mpi_launcher/doctor/doctor.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/run_view.h"
#include "mpi_launcher/journal/text.h"

#define TEXT_MAX (64u << 20)   /* bytes of a description */
#define ANSWER_MAX (16u << 20) /* of scontrol's */
#define SCONTROL_MS 20000
#define RANKS 64
#define LINKS_MAX (256u << 20) /* bytes of links.jsonl */
#define JOURNAL "events.jsonl"

struct topo {
    struct dlr_cli_where where;
    const char *word;
    bool json, svg, dot;
    char title[512], note[DLR_TOPO_NOTE], source[512];
    struct dlr_topo_node *nodes;
    struct dlr_cli_seat *seats;
    char (*ranks)[RANKS];
    struct dlr_cli_links *links;
    struct dlr_cli_run run;
    struct dlr_cli_state state;
    size_t n;
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"svg", NULL, "a picture"},
    {"dot", NULL, "a graph for Graphviz"},
    {"json", NULL, "one JSON object"},
    {"run", "NAME", "the run, when the job has several (default: the newest)"},
    {"state-dir", "DIR", "the job's --dlrover-state-dir (default: DLROVER_STATE_DIR, "
                         "else ~/.dlrover)"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd topo_cmd = {
    "topo", "[JOB|FILE]",
    "Shows the switches above nodes: of a job with ranks, spares and partners, else of "
    "the cluster.",
    opts,
    "JOB is a job's id. FILE (with a '/' in its name) describes a network: lines of\n"
    "topology.conf, or the output of ibnetdiscover. Without either Slurm is asked.\n"};

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct topo *t = arg;

    if (!name && t->word)
        return dlr_fail(err, -EINVAL, "one job or file: '%.64s' is one too many",
                        value);
    if (!name)
        t->word = value;
    else if (dlr_streq(name, "run"))
        t->where.run = value;
    else if (dlr_streq(name, "state-dir"))
        t->where.state_dir = value;
    else if (dlr_streq(name, "svg"))
        t->svg = true;
    else if (dlr_streq(name, "dot"))
        t->dot = true;
    else
        t->json = true;
    if (t->svg + t->dot + t->json > 1)
        return dlr_fail(err, -EINVAL, "--svg, --dot and --json exclude each other");
    return 0;
}

/* --- a cluster -------------------------------------------------------------------- */

struct answer {
    int status;
    char text[ANSWER_MAX];
};

static void ask(const struct dlr_doctor *d, void *ret)
{
    static const char *const argv[] = {"sh", "-c",
                                       "exec scontrol show topology 2>/dev/null", NULL};
    struct answer *answer = ret;

    unsetenv("SLURM_TOPO_LEN"); /* it makes scontrol cut its lines */
    answer->status = dlr_doctor_capture(argv, answer->text, sizeof(answer->text));
}

static int ask_slurm(char **ret_text, struct dlr_err *err)
{
    DLR_AUTO_FREE struct answer *answer = calloc(1, sizeof(*answer));
    int rc = answer ? dlr_doctor_bounded(ask, NULL, answer, sizeof(*answer),
                                         SCONTROL_MS, "scontrol")
                    : -ENOMEM;

    if (rc < 0)
        return dlr_fail(err, rc, "scontrol has not answered within %d s",
                        SCONTROL_MS / 1000);
    *ret_text = strdup(answer->text);
    return *ret_text ? 0 : dlr_fail(err, -ENOMEM, "out of memory");
}

static int load_cluster(struct topo *t, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_err why = {0};
    int rc = t->word ? dlr_file_load(AT_FDCWD, t->word, TEXT_MAX, &text, NULL, err)
                     : ask_slurm(&text, err);

    if (rc < 0)
        return rc;
    snprintf(t->source, sizeof(t->source), "%.400s", t->word ? t->word : "Slurm");
    snprintf(t->title, sizeof(t->title), "network of %.400s",
             t->word ? t->word : "the cluster");
    rc = dlr_topo_nodes_from_text(text, &t->nodes, &t->n, t->note, &why);
    if (rc < 0 && t->word)
        return dlr_fail(err, rc, "'%.200s': %.250s", t->word, why.text);
    if (rc < 0)
        return dlr_fail(err, rc,
                        "'scontrol show topology' %s: give a file that describes the "
                        "network, or a job",
                        text && text[0] ? "shows no switches" : "says nothing");
    return 0;
}

/* --- a job ------------------------------------------------------------------------ */

static int read_journal(struct topo *t, const char *journal, struct dlr_err *err)
{
    struct dlr_cli_reader reader;
    size_t size;
    char *line;
    int rc;

    dlr_cli_reader_init(&reader, journal);
    while ((rc = dlr_cli_reader_next(&reader, &line, &size, err)) > 0)
        dlr_cli_state_line(&t->state, line, size);
    dlr_cli_reader_done(&reader);
    dlr_cli_state_settle(&t->state);
    return rc;
}

static void take_node(struct topo *t, size_t i)
{
    const struct dlr_cli_node *n = &t->state.nodes[i];
    struct dlr_topo_node *node = &t->nodes[i];
    const char *tail = n->path ? strrchr(n->path, '.') : NULL;

    dlr_format(node->name, sizeof(node->name), "%.*s", DLR_TOPO_NAME - 1, n->name);
    dlr_format(node->path, sizeof(node->path), "%s", node->name);
    if (tail && strlen(n->path) > strlen(node->name) &&
        dlr_streq(n->path + strlen(n->path) - strlen(node->name), node->name))
        dlr_format(node->path, sizeof(node->path), "%s", n->path);
    else if (n->leaf && n->leaf[0])
        dlr_format(node->path, sizeof(node->path), "%s.%s", n->leaf, node->name);
    if (n->tasks > 0)
        dlr_cli_ranks(n->ranks, n->first, n->tasks, t->ranks[i], RANKS);
    t->seats[i] = (struct dlr_cli_seat){
        .role = dlr_cli_role_name(dlr_cli_state_role(&t->state, n)),
        .ranks = t->ranks[i],
        .partner = n->partner && !n->parity ? n->partner : "",
        .reason = n->reason ? n->reason : "",
    };
}

static void take_text(char *buf, size_t size, const struct dlr_cli_state *s,
                      const char *key)
{
    const char *text = json_string_value(json_object_get(s->topology, key));

    if (text)
        snprintf(buf, size, "%s", text);
}

static int load_job(struct topo *t, struct dlr_err *err)
{
    int rc;

    t->where.job = t->word;
    rc = dlr_cli_find(&t->where, &t->run, err);
    if (rc == 0)
        rc = read_journal(t, t->run.journal, err);
    if (rc < 0)
        return rc;
    t->n = t->state.nnodes;
    t->nodes = calloc(t->n + 1, sizeof(*t->nodes));
    t->seats = calloc(t->n + 1, sizeof(*t->seats));
    t->ranks = calloc(t->n + 1, sizeof(*t->ranks));
    t->links = calloc(t->n + 1, sizeof(*t->links));
    if (!t->nodes || !t->seats || !t->ranks || !t->links)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < t->n; i++)
        take_node(t, i);
    snprintf(t->title, sizeof(t->title), "run %.200s of job %.200s, round %lld",
             t->run.run, t->run.job, (long long)t->state.round);
    take_text(t->source, sizeof(t->source), &t->state, "source");
    take_text(t->note, sizeof(t->note), &t->state, "note");
    return 0;
}

/* --- links: what the network's last measurement said, in links.jsonl beside the journal --- */

/* The last line of the file, which may be cut short by a death, as JSON; NULL. */
static json_t *last_line(const char *journal)
{
    size_t dir = strlen(journal) - strlen(JOURNAL), size;
    DLR_AUTO_FREE char *path = dlr_format_new("%.*slinks.jsonl", (int)dir, journal);
    DLR_AUTO_FREE char *text = NULL;
    json_t *j = NULL;

    if (!path || dlr_file_load_own(AT_FDCWD, path, LINKS_MAX, &text, &size, NULL) < 0)
        return NULL;
    while (!j && size > 0) {
        char *line = memrchr(text, '\n', size);

        size = line ? (size_t)(line - text) : 0;
        j = json_loads(line ? line + 1 : text, JSON_REJECT_DUPLICATES, NULL);
        text[size] = '\0';
    }
    return j;
}

static long find_node(const struct dlr_cli_topo *t, const char *name)
{
    for (size_t i = 0; name && i < t->n; i++)
        if (dlr_streq(t->nodes[i].name, name))
            return (long)i;
    return -1;
}

/* Of the link to peer, the slower of its two directions. */
static void add_link(struct dlr_cli_links *l, double mbps, const char *peer)
{
    if (l->n == 0 || mbps > l->most)
        l->most = mbps;
    if (l->n == 0 || mbps < l->least) {
        l->least = mbps;
        dlr_format(l->peer, sizeof(l->peer), "%s", peer);
    }
    l->n++;
}

static double number(const json_t *link, size_t i)
{
    return json_number_value(json_array_get(link, i));
}

static void take_links(struct dlr_cli_topo *t, const char *journal,
                       struct dlr_cli_links *ret)
{
    DLR_AUTO_JSON json_t *j = last_line(journal);
    const json_t *nodes = json_object_get(j, "nodes"), *link;
    size_t n = json_array_size(nodes), i;
    DLR_AUTO_FREE long *at = calloc(n + 1, sizeof(*at));

    for (i = 0; at && i < n; i++)
        at[i] = find_node(t, json_string_value(json_array_get(nodes, i)));
    json_array_foreach(json_object_get(j, "links"), i, link)
    {
        double a = number(link, 0), b = number(link, 1);
        double there = number(link, 3), back = number(link, 4);
        double mbps = there < back ? there : back;

        if (!at || !(a >= 0 && a < (double)n && b >= 0 && b < (double)n) || mbps <= 0)
            continue; /* 0: no data */
        if (at[(size_t)a] < 0 || at[(size_t)b] < 0)
            continue;
        add_link(&ret[at[(size_t)a]], mbps, t->nodes[at[(size_t)b]].name);
        add_link(&ret[at[(size_t)b]], mbps, t->nodes[at[(size_t)a]].name);
    }
    t->links = ret;
}

/* --- both ------------------------------------------------------------------------- */

static int show(struct topo *t)
{
    struct dlr_cli_topo tree = {.nodes = t->nodes,
                                .seats = t->seats,
                                .n = t->n,
                                .title = t->title,
                                .source = t->source,
                                .note = t->note};
    json_t *j;

    if (dlr_cli_topo_make(&tree) < 0)
        return -ENOMEM;
    if (t->links)
        take_links(&tree, t->run.journal, t->links);
    if (t->json && (j = dlr_cli_topo_json(&tree))) {
        json_dumpf(j, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
        putchar('\n');
        json_decref(j);
    } else if (t->svg) {
        dlr_cli_topo_svg(&tree, stdout);
    } else if (t->dot) {
        dlr_cli_topo_dot(&tree, stdout);
    } else {
        dlr_cli_topo_text(&tree, stdout);
    }
    dlr_cli_topo_done(&tree);
    return fflush(stdout) ? -errno : 0;
}

int dlr_cli_topo(int argc, char **argv)
{
    struct topo t = {0};
    struct dlr_err err = {0};
    int code, rc;

    if (!dlr_cli_parse(&topo_cmd, argc, argv, set, &t, &code))
        return code;
    dlr_cli_state_init(&t.state);
    if (t.word && !strchr(t.word, '/'))
        rc = load_job(&t, &err);
    else
        rc = load_cluster(&t, &err);
    if (rc >= 0 && show(&t) < 0)
        rc = dlr_fail(&err, -EIO, "cannot print it");
    if (rc < 0)
        fprintf(stderr, "dlrover: %s\n", err.text);
    free(t.nodes);
    free(t.seats);
    free(t.ranks);
    free(t.links);
    dlr_cli_state_done(&t.state);
    return rc < 0 ? DLR_CLI_FAIL : DLR_CLI_OK;
}
