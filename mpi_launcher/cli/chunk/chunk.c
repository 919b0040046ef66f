/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover chunk plan: whether a model that is larger than its GPUs fits into a job. */
#include "mpi_launcher/cli/chunk/chunk.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "chunk/capacity.h"
#include "common/base/str.h"
#include "common/config/opt.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"

#define GIB ((double)(UINT64_C(1) << 30))
#define MIB (UINT64_C(1) << 20)
#define NOT_FULL "for chunks that are not full, 1/%d"
#define LIMIT 96 /* bytes of what limits a save on each step */

/* What may be said, by the names of the options. */
struct words {
    unsigned nodes, gpus, layers, spare;
    uint64_t gpu_mem, mem, program_mem, net;
    int64_t step_ms;
    struct dlr_redundancy_conf redundancy;
};

struct plan {
    struct words words;
    struct dlr_chunk_job job;
    struct dlr_chunk_capacity c;
    const char *redundancy; /* as it was written */
    bool verb, json;
};

#define FIELD(f) offsetof(struct words, f)
/* clang-format off */
static const struct dlr_opt fields[] = {
    {"nodes",       DLR_OPT_UINT,     FIELD(nodes),       "1"},
    {"gpus",        DLR_OPT_UINT,     FIELD(gpus),        "0"},
    {"gpu-mem",     DLR_OPT_SIZE,     FIELD(gpu_mem),     "0"},
    {"layers",      DLR_OPT_UINT,     FIELD(layers),      "32"},
    {"mem",         DLR_OPT_SIZE,     FIELD(mem),         "0"},
    {"program-mem", DLR_OPT_SIZE,     FIELD(program_mem), "4g"},
    {"redundancy",  DLR_OPT_COPIES,   FIELD(redundancy),  "partner"},
    {"spare",       DLR_OPT_UINT,     FIELD(spare),       "10"},
    {"net",         DLR_OPT_SIZE,     FIELD(net),         "10g"},
    {"step",        DLR_OPT_SPAN,     FIELD(step_ms),     "off"},
    DLR_OPT_END,
};
static const struct dlr_cli_opt opts[] = {
    {"params", "N", "parameters of the model, as 13e9"},
    {"nodes", "N", "nodes that train (default: 1)"},
    {"gpus", "N", "GPUs of all nodes together, a rank each (default: one for a node)"},
    {"gpu-mem", "SIZE", "memory of a GPU, as 80g"},
    {"layers", "N", "layers of the model (default: 32)"},
    {"mem", "SIZE", "memory of a node, to say whether it does"},
    {"program-mem", "SIZE", "what a rank's program takes besides (default: 4g)"},
    {"redundancy", "KIND", "as --dlrover-redundancy (default: partner)"},
    {"spare", "PERCENT", "frames to spare; with 100 Adam never waits (default: 10)"},
    {"no-ckpt", NULL, "without any version: nothing protects the state"},
    {"net", "SIZE", "bytes that a node sends or gets in a second (default: 10g)"},
    {"step", "TIME", "how long a step takes, to say whether each may be saved"},
    {"json", NULL, "one JSON object"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd chunk_cmd = {
    "chunk", "plan",
    "Says whether a model that is larger than its GPUs fits into a job.", opts,
    "Adam in mixed precision, its state in the nodes' memory: what chunks will take. "
    "The\n"
    "sum is written out. No job and no GPU is needed. The exit code is 1 when the "
    "model\n"
    "does not fit. Training with chunks is not built yet.\n"};

/* --- words ------------------------------------------------------------------------ */

static int set_params(struct plan *p, const char *value, struct dlr_err *err)
{
    char *end = NULL;
    const double n = strtod(value, &end);

    if (end == value || *end || !(n >= 1 && n <= 1e13))
        return dlr_fail(err, -EINVAL, "--params=%.64s: 1 to 1e13", value);
    p->job.params = (uint64_t)n;
    return 0;
}

/* 0 would stand for what was not said. */
static int check_said(const struct words *w, const char *name, const char *value,
                      struct dlr_err *err)
{
    const bool zero = (dlr_streq(name, "gpus") && w->gpus == 0) ||
                      (dlr_streq(name, "mem") && w->mem == 0) ||
                      (dlr_streq(name, "gpu-mem") && w->gpu_mem == 0);

    return zero ? dlr_fail(err, -EINVAL, "--%s=%.64s: it must be above 0", name, value)
                : 0;
}

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct plan *p = arg;
    int rc;

    if (!name) {
        if (p->verb || !dlr_streq(value, "plan"))
            return dlr_fail(err, -EINVAL, "'%.64s' is not 'plan'", value);
        p->verb = true;
        return 0;
    }
    if (dlr_streq(name, "json"))
        p->json = true;
    else if (dlr_streq(name, "no-ckpt"))
        p->job.unprotected = true;
    else if (dlr_streq(name, "params"))
        return set_params(p, value, err);
    else {
        if (dlr_streq(name, "redundancy"))
            p->redundancy = value;
        rc = dlr_opt_set(fields, name, value, &p->words, err);
        return rc < 0 ? rc : check_said(&p->words, name, value, err);
    }
    return 0;
}

static int complete(struct plan *p, struct dlr_err *err)
{
    const struct words *w = &p->words;

    if (!p->verb)
        return dlr_fail(err, -EINVAL, "'plan' is missing");
    if (p->job.params == 0)
        return dlr_fail(err, -EINVAL, "--params is missing");
    if (w->gpu_mem == 0)
        return dlr_fail(err, -EINVAL, "--gpu-mem is missing");
    if (w->net == 0)
        return dlr_fail(err, -EINVAL, "--net=0: nothing is sent then");
    p->job.nodes = w->nodes;
    p->job.gpus = w->gpus ? w->gpus : w->nodes;
    p->job.layers = w->layers;
    p->job.device_bytes = w->gpu_mem;
    p->job.program_bytes = w->program_mem;
    p->job.spare_percent = w->spare;
    p->job.copies = w->redundancy.copies;
    p->job.members = w->redundancy.members;
    return dlr_chunk_capacity(&p->job, &p->c, err);
}

/* --- answers ------------------------------------------------------------------------ */

static bool fits_device(const struct plan *p)
{
    return p->c.device_least <= p->job.device_bytes;
}

static bool fits_node(const struct plan *p)
{
    return p->words.mem == 0 || p->c.node_bytes <= p->words.mem;
}

/* A node sends and gets at the same time. */
static double save_s(const struct plan *p)
{
    const uint64_t bytes = p->c.sent > p->c.received ? p->c.sent : p->c.received;

    return (double)bytes / (double)p->words.net;
}

/* Whole GiB, as Slurm's G is. */
static uint64_t script_gib(const struct plan *p)
{
    const uint64_t gib = UINT64_C(1) << 30;

    return (p->c.node_bytes + gib - 1) / gib;
}

/* text: where it is not the same for all. */
static const char *limit_of(const struct plan *p, char text[LIMIT])
{
    if (p->job.unprotected)
        return "nothing is saved";
    if (p->c.sent == 0)
        return "nothing: versions stay on their node, and are lost with it";
    if (p->words.step_ms == 0) {
        snprintf(text, LIMIT, "the network, when a step is shorter than %.1f s",
                 save_s(p));
        return text;
    }
    if (save_s(p) * 1000 > (double)p->words.step_ms)
        return "the network";
    return p->job.spare_percent < 100 ? "frames to spare, when a commit is late"
                                      : "nothing";
}

/* 1: yes, 0: no, -1: --step says it. */
static int each_step(const struct plan *p)
{
    if (p->job.unprotected)
        return 0;
    if (p->c.sent == 0)
        return 1;
    if (p->words.step_ms == 0)
        return -1;
    return save_s(p) * 1000 <= (double)p->words.step_ms;
}

/* --- as text -------------------------------------------------------------------------- */

static void row(const char *what, uint64_t n, uint64_t bytes)
{
    printf("  %-42s %10.1f GiB = %8" PRIu64 " x %" PRIu64 " MiB\n", what,
           (double)n * (double)bytes / GIB, n, bytes / MIB);
}

static void print_node(const struct plan *p)
{
    const struct dlr_chunk_capacity *c = &p->c;
    char others[96], spares[64];

    snprintf(others, sizeof(others), "for other nodes, %.48s", p->redundancy);
    snprintf(spares, sizeof(spares), "frames to spare, %u %%", p->job.spare_percent);
    puts("memory of each node");
    row("16-bit parameters, or gradients", c->params, c->param_bytes);
    row("optimizer state", c->live, c->frame_bytes);
    if (!p->job.unprotected) {
        row("the version before", c->before, c->frame_bytes);
        row(spares, c->spares, c->frame_bytes);
        row(others, c->others, c->frame_bytes);
    }
    snprintf(spares, sizeof(spares), NOT_FULL, DLR_CHUNK_MARGIN);
    printf("  %-42s %10.1f GiB\n", spares, (double)c->margin_bytes / GIB);
    row("programs", c->ranks, p->job.program_bytes);
    printf("  %-42s %10.1f GiB\n", "sum", (double)c->node_bytes / GIB);
}

static void print_device(const struct plan *p)
{
    const struct dlr_chunk_capacity *c = &p->c;
    char layer[64];

    snprintf(layer, sizeof(layer), "one of %u layers, %d chunks ahead", p->job.layers,
             DLR_CHUNK_AHEAD);
    puts("memory of each GPU");
    row(layer, c->layer + DLR_CHUNK_AHEAD, c->param_bytes);
    snprintf(layer, sizeof(layer), NOT_FULL, DLR_CHUNK_MARGIN);
    row(layer, c->margin, c->param_bytes);
    if (fits_device(p))
        printf("  %-42s %10.1f GiB of %.1f\n",
               "left for activations, and chunks that stay",
               (double)(p->job.device_bytes - c->device_least) / GIB,
               (double)p->job.device_bytes / GIB);
}

static void print_verdict(const struct plan *p)
{
    if (!fits_device(p))
        printf("does not fit: each GPU misses %.1f GiB\n",
               (double)(p->c.device_least - p->job.device_bytes) / GIB);
    if (!fits_node(p))
        printf("does not fit: each node misses %.1f GiB\n",
               (double)(p->c.node_bytes - p->words.mem) / GIB);
    if (fits_device(p) && fits_node(p))
        printf("fits%s\n", p->words.mem ? "" : ", where a node has that memory");
    printf("for the script: #SBATCH --mem=%" PRIu64 "G\n", script_gib(p));
}

static void print_save(const struct plan *p)
{
    static const char *const answers[] = {"depends on the step", "no", "yes"};
    char text[LIMIT];

    printf("a save on each step: %s; what limits it: %s\n", answers[each_step(p) + 1],
           limit_of(p, text));
    if (p->c.sent > 0)
        printf(
            "  each node sends %.1f GiB, the fullest gets %.1f: %.1f s at %.1f GiB/s\n",
            (double)p->c.sent / GIB, (double)p->c.received / GIB, save_s(p),
            (double)p->words.net / GIB);
}

static void print_text(const struct plan *p)
{
    const struct dlr_chunk_capacity *c = &p->c;

    printf("%" PRIu64 " parameters are %" PRIu64 " chunks of %" PRIu64 ", %" PRIu64
           " for a rank; %u ranks on a node\n",
           p->job.params, c->chunks, c->elems, c->rank_chunks, c->ranks);
    print_node(p);
    print_device(p);
    print_verdict(p);
    print_save(p);
}

/* --- as JSON ---------------------------------------------------------------------------- */

static int print_json(const struct plan *p)
{
    const struct dlr_chunk_capacity *c = &p->c;
    const int each = each_step(p);
    char text[LIMIT];
    json_t *j = json_pack(
        "{s:I,s:I,s:I,s:i,s:{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I},s:{s:I,s:I},s:b,s:s,"
        "s:{s:o,s:I,s:I,s:f,s:s}}",
        "chunk_elems", (json_int_t)c->elems, "chunks", (json_int_t)c->chunks,
        "rank_chunks", (json_int_t)c->rank_chunks, "node_ranks", (int)c->ranks, "node",
        "params", (json_int_t)(c->params * c->param_bytes), "live",
        (json_int_t)(c->live * c->frame_bytes), "before",
        (json_int_t)(c->before * c->frame_bytes), "spares",
        (json_int_t)(c->spares * c->frame_bytes), "others",
        (json_int_t)(c->others * c->frame_bytes), "margin", (json_int_t)c->margin_bytes,
        "programs", (json_int_t)(c->ranks * p->job.program_bytes), "sum",
        (json_int_t)c->node_bytes, "gpu", "least", (json_int_t)c->device_least,
        "memory", (json_int_t)p->job.device_bytes, "fits",
        fits_device(p) && fits_node(p), "limit", limit_of(p, text), "save", "each_step",
        each < 0 ? json_null() : json_boolean(each), "bytes", (json_int_t)c->sent,
        "received", (json_int_t)c->received, "seconds", save_s(p), "redundancy",
        p->job.unprotected ? "none" : p->redundancy);
    int rc = j && json_dumpf(j, stdout, JSON_INDENT(2)) == 0 ? 0 : -ENOMEM;

    putchar('\n');
    json_decref(j);
    return rc;
}

int dlr_cli_chunk(int argc, char **argv)
{
    struct plan p = {.redundancy = "partner"};
    struct dlr_err err = {0};
    int code;

    if (dlr_opt_defaults(fields, &p.words, &err) < 0) {
        fprintf(stderr, "dlrover chunk: %s\n", err.text);
        return DLR_CLI_FAIL;
    }
    if (!dlr_cli_parse(&chunk_cmd, argc, argv, set, &p, &code))
        return code;
    if (complete(&p, &err) < 0) {
        fprintf(stderr, "dlrover chunk: %s (see 'dlrover help chunk')\n", err.text);
        return DLR_CLI_USAGE;
    }
    if (!p.json)
        print_text(&p);
    else if (print_json(&p) < 0)
        return DLR_CLI_FAIL;
    return fits_device(&p) && fits_node(&p) ? DLR_CLI_OK : DLR_CLI_FAIL;
}
