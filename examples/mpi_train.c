/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel training of a character-level language model with MPI, and the worked
 * example of libdlrover: look for dlr_ckpt_ to see all that a program has to add.
 *
 * Every rank holds the same weights, computes the gradient of its own samples and adds
 * them up with MPI_Allreduce. What is drawn from the text depends on seed, step and
 * rank alone, and every sum has a fixed order, so that a run which was killed and went
 * on from a checkpoint ends with the same bits as one which was left in peace.
 */
#include "ckpt/ckpt.h"
#include "examples/args.h"
#include "examples/charlm.h"
#include "examples/text.h"
#include "feed/client/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

#define PROGRAM "mpi_train"

struct options {
    struct charlm_size size;
    uint64_t steps, seed, every, step_ms, global_batch;
    const char *text, *save_weights, *log, *hash_log, *sample_log;
    int no_ckpt;
};

struct train {
    struct options opt;
    int rank, world;
    struct charlm *lm;
    struct charlm_arrays a;
    uint8_t *codes, *samples;
    size_t n_codes;
    struct dlr_ckpt *ck;
    struct dlr_feed *feed; /* NULL: each rank draws its samples */
    uint64_t *index;       /* of a micro-batch */
    float *sum;            /* of the gradients of this rank's */
    unsigned means;        /* in the gradient that is summed over the ranks */
    int warned;
    uint64_t step, printed; /* done so far; step of the last line */
    double printed_at, due; /* its time; end of this step when paced */
    FILE *log;
    int hash_fd, sample_fd;
};

static const float RATE = 2e-3f; /* of learning */

static const char help[] =
    "usage: mpi_train [OPTION…]\n"
    "\n"
    "Trains a character-level language model, data-parallel, one process per MPI "
    "rank.\n"
    "\n"
    "  --params SIZE        small (0.4 million), default (3.7) or large (8.5)\n"
    "  --steps N            train until step N (400)\n"
    "  --batch N            samples of a rank in a step (192)\n"
    "  --global-batch N     samples of a step, --batch of them at a time, whatever "
    "the\n"
    "                       number of ranks: each place of the text once an epoch\n"
    "  --sample-log FILE    with it each rank appends 'step micro-batch first-sample'\n"
    "  --seed N             of the first weights and of the order of the data (1)\n"
    "  --text DIR           learn the files of DIR (/usr/share/common-licenses)\n"
    "  --no-ckpt            do not use libdlrover at all\n"
    "  --save-weights FILE  at the end rank 0 writes weights and moments\n"
    "  --every N            print each N-th step (1)\n"
    "  --log FILE           append a line of JSON for each step\n"
    "  --hash-log FILE      each rank appends 'step hash rank' after each step\n"
    "  --step-ms N          paced: each step waits, as for a GPU, until it took N ms\n"
    "  --help\n"
    "\n"
    "Checkpoints are in node memory under srun with --dlrover=on, else in files: see\n"
    "DLROVER_CKPT_DIR and DLROVER_CKPT_EVERY in libdlrover(3).\n";

__attribute__((format(printf, 2, 3))) static _Noreturn void die(const struct train *t,
                                                                const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fprintf(stderr, PROGRAM ": rank %d: ", t->rank);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

static struct charlm_size parse_params(const char *name)
{
    static const struct {
        const char *name;
        struct charlm_size size;
    } rows[] = {
        {"small", {.context = 32, .hidden = 128, .inner = 128}},
        {"default", {.context = 32, .hidden = 1024, .inner = 512}},
        {"large", {.context = 32, .hidden = 2048, .inner = 1024}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(name, rows[i].name) == 0)
            return rows[i].size;
    args_bad(PROGRAM, "--params: '%s' is not small, default or large", name);
}

#define NUMBER(min, max) args_number(PROGRAM, names[row].name, optarg, min, max)

static struct options parse(int argc, char **argv)
{
    // clang-format off
    enum { PARAMS, STEPS, BATCH, SEED, TEXT, SAVE, EVERY, LOG, HASH_LOG, STEP_MS, NO_CKPT, GLOBAL, SAMPLES, HELP };
    static const struct option names[] = {
        {"params", 1, 0, PARAMS},   {"steps", 1, 0, STEPS},       {"batch", 1, 0, BATCH},
        {"seed", 1, 0, SEED},       {"text", 1, 0, TEXT},         {"save-weights", 1, 0, SAVE},
        {"every", 1, 0, EVERY},     {"log", 1, 0, LOG},           {"hash-log", 1, 0, HASH_LOG},
        {"step-ms", 1, 0, STEP_MS}, {"no-ckpt", 0, 0, NO_CKPT},   {"help", 0, 0, HELP},
        {"global-batch", 1, 0, GLOBAL}, {"sample-log", 1, 0, SAMPLES},
        {0},
    };
    // clang-format on
    struct options o = {
        .steps = 400, .seed = 1, .every = 1, .text = "/usr/share/common-licenses"};
    uint64_t batch = 192;
    int row, c;

    o.size = parse_params("default");
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", names, &row)) != -1)
        switch (c) {
            // clang-format off
        case PARAMS: o.size = parse_params(optarg); break;
        case STEPS: o.steps = NUMBER(1, INT32_MAX); break;
        case BATCH: batch = NUMBER(1, 4096); break;
        case SEED: o.seed = NUMBER(0, UINT64_MAX); break;
        case TEXT: o.text = optarg; break;
        case SAVE: o.save_weights = optarg; break;
        case EVERY: o.every = NUMBER(1, INT32_MAX); break;
        case LOG: o.log = optarg; break;
        case HASH_LOG: o.hash_log = optarg; break;
        case STEP_MS: o.step_ms = NUMBER(1, 3600000); break;
        case NO_CKPT: o.no_ckpt = 1; break;
        case GLOBAL: o.global_batch = NUMBER(1, INT32_MAX); break;
        case SAMPLES: o.sample_log = optarg; break;
        case HELP: fputs(help, stdout); exit(0);
        case ':': args_bad(PROGRAM, "'%s' needs a value", argv[optind - 1]);
        default: args_bad(PROGRAM, "'%s' is not an option", argv[optind - 1]);
            // clang-format on
        }
    if (optind < argc)
        args_bad(PROGRAM, "'%s' is not expected", argv[optind]);
    o.size.batch = (unsigned)batch;
    return o;
}

static double now(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return ts.tv_sec + ts.tv_nsec * 1e-9;
}

/* Rank 0 reads the text for all: whatever the other nodes have there, the data is the
 * same.
 */
static void load_text(struct train *t)
{
    uint64_t n = 0;

    if (t->rank == 0) {
        int rc = text_load(t->opt.text, &t->codes, &t->n_codes);

        if (rc < 0)
            die(t, "no text in '%s': %s", t->opt.text, strerror(-rc));
        n = t->n_codes;
    }
    MPI_Bcast(&n, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (t->rank != 0)
        t->codes = malloc(n);
    t->samples = malloc((size_t)t->opt.size.batch * (t->opt.size.context + 1));
    if (!t->codes || !t->samples || n > INT32_MAX)
        die(t, "no memory for the text");
    t->n_codes = n;
    MPI_Bcast(t->codes, (int)n, MPI_UINT8_T, 0, MPI_COMM_WORLD);
}

static int open_lines(const struct train *t, const char *path)
{
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;

    if (path && fd < 0)
        die(t, "cannot open '%s': %s", path, strerror(errno));
    return fd;
}

static void open_files(struct train *t)
{
    t->hash_fd = open_lines(t, t->opt.hash_log);
    t->sample_fd = open_lines(t, t->opt.sample_log);
    if (t->opt.log && t->rank == 0) {
        t->log = fopen(t->opt.log, "ae");
        if (!t->log)
            die(t, "cannot open '%s': %s", t->opt.log, strerror(errno));
        setvbuf(t->log, NULL, _IOLBF, 0);
    }
}

/* With a global batch each row that the text has is a sample. */
static void open_feed(struct train *t)
{
    const struct dlr_feed_conf conf = {
        .name = "text",
        .seed = t->opt.seed,
        .length = t->n_codes - t->opt.size.context,
        .global_batch = (uint32_t)t->opt.global_batch,
        .micro_batch = t->opt.size.batch,
        .part = (unsigned)t->rank,
        .parts = (unsigned)t->world,
    };

    if (!t->opt.global_batch)
        return;
    if (dlr_feed_open(t->ck, &conf, &t->feed) < 0)
        die(t, "%s", dlr_feed_error(NULL));
    t->index = calloc(t->opt.size.batch, sizeof(*t->index));
    t->sum = calloc(t->a.params + 1, sizeof(*t->sum));
    if (!t->index || !t->sum)
        die(t, "no memory for the samples");
}

/* Names the state and loads what an earlier attempt left of it. */
static void restore(struct train *t)
{
    const struct dlr_ckpt_conf conf = {.rank = t->rank, .world = t->world};
    const struct {
        const char *name;
        float *addr;
    } state[] = {
        {"weights", t->a.weights},
        {"adam.moment1", t->a.moment1},
        {"adam.moment2", t->a.moment2},
    };

    if (!t->opt.no_ckpt && dlr_ckpt_open(&conf, &t->ck) < 0)
        die(t, "%s", dlr_ckpt_error(NULL));
    open_feed(t);
    if (t->opt.no_ckpt)
        return;
    for (size_t i = 0; i < sizeof(state) / sizeof(state[0]); i++)
        if (dlr_ckpt_add_array(t->ck, state[i].name, DLR_CKPT_REPLICATED, "f32",
                               sizeof(float), state[i].addr, t->a.params) < 0)
            die(t, "%s", dlr_ckpt_error(t->ck));
    if (dlr_ckpt_restore(t->ck, &t->step) < 0)
        die(t, "%s", dlr_ckpt_error(t->ck));
}

/* A save that failed is no reason to stop: said once. */
static void warn(struct train *t, int rc)
{
    if (rc < 0 && !t->warned) {
        t->warned = 1;
        fprintf(stderr, PROGRAM ": rank %d: %s\n", t->rank, dlr_ckpt_error(t->ck));
    }
}

static void wait_until_due(struct train *t)
{
    double seconds = t->opt.step_ms / 1e3, at = now(CLOCK_MONOTONIC);
    struct timespec until;

    t->due += seconds;
    if (t->due < at || t->due > at + seconds)
        t->due = at;
    until.tv_sec = (time_t)t->due;
    until.tv_nsec = (long)((t->due - (double)until.tv_sec) * 1e9);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void write_line(const struct train *t, int fd, const char *path,
                       const char *line)
{
    const size_t size = strlen(line);

    if (write(fd, line, size) != (ssize_t)size)
        die(t, "cannot write '%s': %s", path, strerror(errno));
}

static void log_samples(const struct train *t, uint32_t micro_batch)
{
    char line[80];

    if (t->sample_fd < 0)
        return;
    snprintf(line, sizeof(line), "%" PRIu64 " %" PRIu32 " %" PRIu64 "\n", t->step,
             micro_batch, t->index[0]);
    write_line(t, t->sample_fd, t->opt.sample_log, line);
}

/* The sum of the gradients of this rank's micro-batches, each a mean. */
static void add_gradients(struct train *t)
{
    const size_t length = t->opt.size.context + 1;
    struct dlr_feed_step now;

    if (dlr_feed_step(t->feed, t->step, &now) < 0)
        die(t, "%s", dlr_feed_error(t->feed));
    t->means = now.micro_batches;
    memset(t->sum, 0, (t->a.params + 1) * sizeof(*t->sum));
    for (uint32_t m = now.first; m < now.first + now.count; m++) {
        int n = dlr_feed_indices(t->feed, t->step, m, t->index, t->opt.size.batch);

        for (int i = 0; i < n; i++)
            memcpy(t->samples + (size_t)i * length, t->codes + t->index[i], length);
        log_samples(t, m);
        charlm_gradient(t->lm, t->samples);
        for (size_t i = 0; i <= t->a.params; i++)
            t->sum[i] += t->a.gradient[i];
    }
    memcpy(t->a.gradient, t->sum, (t->a.params + 1) * sizeof(*t->sum));
}

/* Leaves the sum over the ranks, the loss included, in the gradient. Open MPI chooses
 * the order of this sum by the number of ranks and bytes, not by who comes first, so it
 * is the same in each run; an MPI that chooses otherwise breaks the bit equality and
 * nothing else.
 */
static void compute_gradient(struct train *t)
{
    if (t->feed) {
        add_gradients(t);
    } else {
        t->means = (unsigned)t->world;
        text_draw(t->codes, t->n_codes, t->opt.seed, t->step, (unsigned)t->rank,
                  t->opt.size.context + 1, t->opt.size.batch, t->samples);
        charlm_gradient(t->lm, t->samples);
    }
    MPI_Allreduce(MPI_IN_PLACE, t->a.gradient, (int)t->a.params + 1, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
}

static float mean_loss(const struct train *t)
{
    return t->a.gradient[t->a.params] / (float)t->means;
}

static void write_log(struct train *t, const char *event)
{
    struct dlr_ckpt_stats s = {0};
    char loss[32] = "null";

    if (!t->log)
        return;
    if (t->ck)
        dlr_ckpt_stats(t->ck, &s);
    if (t->printed_at > 0)
        snprintf(loss, sizeof(loss), "%.6f", mean_loss(t));
    fprintf(t->log,
            "{\"event\":\"%s\",\"time\":%.6f,\"step\":%" PRIu64
            ",\"loss\":%s,\"world\":%d,"
            "\"saves\":%" PRIu64 ",\"given_up\":%" PRIu64 ",\"committed\":%" PRIu64
            ",\"begin_ns\":%" PRIu64 ",\"fence_ns\":%" PRIu64 "}\n",
            event, now(CLOCK_REALTIME), t->step, loss, t->world, s.saves, s.given_up,
            s.committed_step, s.begin_ns, s.fence_ns);
}

static void report(struct train *t)
{
    double at = now(CLOCK_MONOTONIC);

    if (t->hash_fd >= 0) {
        char line[80];

        snprintf(line, sizeof(line), "%" PRIu64 " %016" PRIx64 " %d\n", t->step,
                 charlm_hash(t->lm), t->rank);
        write_line(t, t->hash_fd, t->opt.hash_log, line);
    }
    if (t->rank != 0)
        return;
    write_log(t, "step");
    if (t->step % t->opt.every != 0 && t->step != t->opt.steps)
        return;
    printf("step %" PRIu64 "/%" PRIu64 " loss %.4f %.1f steps/s\n", t->step,
           t->opt.steps, mean_loss(t),
           (double)(t->step - t->printed) / (at - t->printed_at));
    t->printed = t->step;
    t->printed_at = at;
}

static void train(struct train *t)
{
    t->printed = t->step;
    t->printed_at = t->due = now(CLOCK_MONOTONIC);
    while (t->step < t->opt.steps) {
        compute_gradient(t); /* reads the weights */
        if (t->opt.step_ms)
            wait_until_due(t);
        if (t->ck)
            warn(t, dlr_ckpt_fence(t->ck,
                                   NULL)); /* until here the last state was copied */
        charlm_adam(t->lm, ++t->step, RATE, 1.0f / (float)t->means);
        if (t->ck)
            warn(t, dlr_ckpt_begin(t->ck, t->step, NULL));
        report(t);
    }
    if (t->ck)
        warn(t, dlr_ckpt_fence(t->ck, NULL));
}

static void save_weights(const struct train *t)
{
    const float *const arrays[] = {t->a.weights, t->a.moment1, t->a.moment2};
    const char *path = t->opt.save_weights;
    FILE *file = fopen(path, "we");
    int bad = !file;

    for (size_t i = 0; !bad && i < sizeof(arrays) / sizeof(arrays[0]); i++)
        bad = fwrite(arrays[i], sizeof(float), t->a.params, file) != t->a.params;
    if (!bad)
        bad = fflush(file) != 0 || fsync(fileno(file)) < 0;
    if (bad)
        die(t, "cannot write '%s': %s", path, strerror(errno));
    fclose(file);
}

/* Ranks that drifted apart would be a fault of ours: the result is worth nothing then.
 */
static void finish(struct train *t)
{
    uint64_t hash = charlm_hash(t->lm), ends[2] = {hash, ~hash};

    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (ends[0] != ~ends[1])
        die(t, "state %016" PRIx64 " is not that of the other ranks", hash);
    if (t->rank != 0)
        return;
    if (t->opt.save_weights)
        save_weights(t);
    write_log(t, "done");
    printf("done: %" PRIu64 " steps, state %016" PRIx64 "\n", t->step, hash);
}

int main(int argc, char **argv)
{
    struct train t = {.opt = parse(argc, argv)};
    int rc;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t.world);
    setvbuf(stdout, NULL, _IOLBF, 0);
    load_text(&t);
    open_files(&t);
    rc = charlm_new(&t.opt.size, t.opt.seed, &t.lm);
    if (rc < 0)
        die(&t, "cannot make a model: %s", strerror(-rc));
    t.a = charlm_arrays(t.lm);
    restore(&t);
    if (t.rank == 0) {
        printf("%zu parameters, %.1f MB of state in each of %d ranks\n", t.a.params,
               3e-6 * sizeof(float) * (double)t.a.params, t.world);
        if (t.step > 0)
            printf("resumed from step %" PRIu64 "\n", t.step);
    }
    write_log(&t, t.step > 0 ? "resumed" : "start");
    train(&t);
    finish(&t);
    dlr_ckpt_close(t.ck);
    dlr_feed_close(t.feed);
    if (t.log)
        fclose(t.log);
    charlm_free(t.lm);
    free(t.codes);
    free(t.samples);
    free(t.index);
    free(t.sum);
    MPI_Finalize();
    return 0;
}
