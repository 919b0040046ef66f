/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover ckpt: the snapshots that a run has written to its state directory. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/manifest/manifest.h"
#include "ckpt/persist/slot_file.h"
#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/base/progress_bar.h"
#include "mpi_launcher/cli/ckpt_unnamed.h"
#include "mpi_launcher/cli/export/export.h"
#include "mpi_launcher/journal/text.h"

struct ckpt {
    struct dlr_cli_where where;
    const char *verb, *target, *to, *output, *step_text;
    uint64_t step;
    bool has_step, json, named;
    char dir[PATH_MAX];
    struct dlr_plan_file *files; /* newest version first, each rank in turn */
    unsigned n;
    struct dlr_slot_file_heads heads;
    struct dlr_cli_bar bar; /* bytes, or files, of the work under way */
};

static const struct dlr_cli_opt opts[] = {
    {"step", "N", "this snapshot; without it the newest (export), each (ls, verify)"},
    {"to", "FORM", "of an export: safetensors, or dcp (torch.distributed.checkpoint)"},
    {"output", "DIR",
     "where an export goes: rank-N.safetensors for each rank, or what dcp writes"},
    {"run", "NAME", "the run, when the job has several"},
    {"state-dir", "DIR", "what the job was given as --dlrover-state-dir"},
    {"json", NULL, "ls: a JSON array"},
    {0},
};
static const struct dlr_cli_cmd cmd = {
    "ckpt", "ls|verify|export|rm [JOB|DIR]",
    "Lists, checks, exports or removes the snapshots that a run has on the disk.", opts,
    "ls      what is there\n"
    "verify  reads every byte and compares the checksums made when it was saved\n"
    "export  --to=FORM --output=DIR: checked, for other tools to read\n"
    "rm      --step=N: removes it; a job that runs then does without it\n\n"
    "DIR is an argument with a '/' in it: a directory that holds manifests, or files "
    "of a\n"
    "program without a job.\n"
    "Exit status: 0, 1 when something is corrupt or not there, 2 on wrong usage.\n"};

static int set_word(struct ckpt *c, const char *value, struct dlr_err *err)
{
    static const char *const verbs[] = {"ls", "verify", "export", "rm"};
    const char *near;

    if (c->verb && c->target)
        return dlr_fail(err, -EINVAL, "'%.64s' is one argument too many", value);
    if (c->verb) {
        c->target = value;
        return 0;
    }
    for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
        if (dlr_streq(value, verbs[i]))
            c->verb = verbs[i];
    if (c->verb)
        return 0;
    near = dlr_nearest(value, verbs, sizeof(verbs) / sizeof(*verbs));
    return near ? dlr_fail(err, -EINVAL, "unknown argument '%.64s', did you mean '%s'?",
                           value, near)
                : dlr_fail(err, -EINVAL,
                           "unknown argument '%.64s': must be ls, verify, export or rm",
                           value);
}

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct ckpt *c = arg;
    unsigned step;

    if (!name)
        return set_word(c, value, err);
    if (dlr_streq(name, "json")) {
        c->json = true;
    } else if (dlr_streq(name, "run")) {
        c->where.run = value;
    } else if (dlr_streq(name, "state-dir")) {
        c->where.state_dir = value;
    } else if (dlr_streq(name, "output")) {
        c->output = value;
    } else if (dlr_streq(name, "to")) {
        c->to = value;
        if (!dlr_streq(value, "safetensors") && !dlr_streq(value, "dcp"))
            return dlr_fail(err, -EINVAL, "--to=%.64s: must be safetensors or dcp",
                            value);
    } else {
        if (dlr_parse_uint(value, UINT32_MAX, &step) < 0)
            return dlr_fail(err, -EINVAL, "--step=%.64s: must be a number of steps",
                            value);
        c->has_step = true;
        c->step = step;
        c->step_text = value;
    }
    return 0;
}

/* What the words must be together; NULL: they are. */
static const char *check_words(const struct ckpt *c)
{
    if (!c->verb)
        return "one of ls, verify, export and rm is missing";
    if (dlr_streq(c->verb, "export") && (!c->to || !c->output))
        return "export needs --to=safetensors or --to=dcp, and --output=DIR";
    if (!dlr_streq(c->verb, "export") && (c->to || c->output))
        return "--to and --output belong to export";
    if (dlr_streq(c->verb, "rm") && !c->has_step)
        return "rm needs --step=N";
    if (c->json && !dlr_streq(c->verb, "ls"))
        return "--json belongs to ls";
    return NULL;
}

/* --- what is there ---------------------------------------------------------------- */

static int find_dir(struct ckpt *c, struct dlr_err *err)
{
    struct dlr_cli_run run;
    char *slash;
    int rc;

    if (c->target && strchr(c->target, '/')) {
        if (dlr_format(c->dir, sizeof(c->dir), "%s", c->target) < 0)
            return dlr_fail(err, -ENAMETOOLONG, "the path is too long");
        return 0;
    }
    c->where.job = c->target;
    rc = dlr_cli_find(&c->where, &run, err);
    if (rc < 0)
        return rc;
    slash = strrchr(run.journal, '/');
    rc = dlr_format(c->dir, sizeof(c->dir), "%.*s/persist", (int)(slash - run.journal),
                    run.journal);
    return rc < 0 ? dlr_fail(err, rc, "the path is too long") : 0;
}

static unsigned end_of(const struct ckpt *c, unsigned at)
{
    unsigned i = at;

    while (i < c->n &&
           dlr_version_eq(c->files[i].copy.version, c->files[at].copy.version))
        i++;
    return i;
}

/* Ranks that have no file where none was promised: the version was never whole. */
static unsigned unwritten(const struct ckpt *c, unsigned at, unsigned end)
{
    return c->named ? dlr_cli_named_absent(c->files + at, end - at) : 0;
}

/* The newest version that is whole as far as its names say; the newest where none is.
 */
static unsigned newest(const struct ckpt *c)
{
    for (unsigned at = 0, end; at < c->n; at = end) {
        end = end_of(c, at);
        if (!unwritten(c, at, end))
            return at;
    }
    return 0;
}

/* Leaves the versions that are meant; -ENOENT when that is none. */
static int choose(struct ckpt *c, struct dlr_err *err)
{
    unsigned n = 0;

    for (unsigned i = 0; i < c->n; i++)
        if (!c->has_step || c->files[i].copy.version.step == c->step)
            c->files[n++] = c->files[i];
    c->n = n;
    if (n > 0 && dlr_streq(c->verb, "export")) {
        unsigned at = newest(c);

        c->n = end_of(c, at) - at;
        memmove(c->files, c->files + at, c->n * sizeof(*c->files));
    }
    return n ? 0
             : dlr_fail(err, -ENOENT, "no snapshot of step %" PRIu64 " in '%s'",
                        c->step, c->dir);
}

static void size_text(uint64_t bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned u = 0;

    for (; value >= 1024 && u < 5; u++)
        value /= 1024;
    snprintf(buf, size, u ? "%.1f %s" : "%.0f %s", value, units[u]);
}

static uint64_t bytes_of(const struct ckpt *c, unsigned at, unsigned end)
{
    uint64_t bytes = 0;

    for (unsigned i = at; i < end; i++)
        bytes += c->files[i].slice.bytes;
    return bytes;
}

/* --- ls --------------------------------------------------------------------------- */

/* Ranks whose files are not there, or shorter than they were. */
static unsigned missing(const struct ckpt *c, unsigned at, unsigned end,
                        int64_t *ret_written_ms)
{
    unsigned n = 0;

    *ret_written_ms = 0;
    for (unsigned i = at; i < end; i++) {
        struct stat st;

        if (stat(c->files[i].path, &st) < 0 ||
            (uint64_t)st.st_size < c->files[i].slice.at + c->files[i].slice.bytes)
            n++;
        else if (st.st_mtim.tv_sec * INT64_C(1000) > *ret_written_ms)
            *ret_written_ms = st.st_mtim.tv_sec * INT64_C(1000);
    }
    return n;
}

static void list_one(const struct ckpt *c, unsigned at, unsigned end)
{
    struct dlr_version v = c->files[at].copy.version;
    char size[32], when[32] = "-";
    int64_t written_ms;
    unsigned gone = missing(c, at, end, &written_ms);

    size_text(bytes_of(c, at, end), size, sizeof(size));
    if (written_ms)
        dlr_cli_time_brief(written_ms, dlr_cli_now_ms(), when, sizeof(when));
    printf("%10" PRIu64 " %6" PRIu32 " %7u %12s  %-12s", v.step, v.round, end - at,
           size, when);
    if (unwritten(c, at, end))
        printf("  not whole: %u of %u ranks have no file", unwritten(c, at, end),
               end - at);
    else if (gone)
        printf("  the files of %u of %u ranks are gone or too short", gone, end - at);
    putchar('\n');
}

static int list(const struct ckpt *c)
{
    json_t *all = json_array();
    int code = DLR_CLI_OK;

    if (!c->json)
        printf("%10s %6s %7s %12s  %s\n", "step", "round", "ranks", "size", "written");
    for (unsigned at = 0, end; at < c->n; at = end) {
        int64_t written_ms;

        end = end_of(c, at);
        if (!c->json)
            list_one(c, at, end);
        json_array_append_new(
            all, json_pack("{s:I,s:I,s:i,s:I,s:i}", "step",
                           (json_int_t)c->files[at].copy.version.step, "vround",
                           (json_int_t)c->files[at].copy.version.round, "world",
                           (int)(end - at), "bytes", (json_int_t)bytes_of(c, at, end),
                           "missing", (int)missing(c, at, end, &written_ms)));
        if (missing(c, at, end, &written_ms) > unwritten(c, at, end))
            code = DLR_CLI_FAIL;
    }
    if (c->json) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(all);
    return code;
}

/* --- verify and export ------------------------------------------------------------ */

static int check_blocks(struct ckpt *c, const struct dlr_slot *slot, uint32_t n,
                        struct dlr_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes;
        uint32_t crc;
        void *data;

        if (dlr_slot_block(slot, i, &data, &bytes, &crc) < 0 ||
            dlr_crc32c(0, data, bytes) != crc)
            return dlr_fail(err, -EBADMSG,
                            "block %" PRIu32 " of %" PRIu32 " is corrupt", i, n);
        dlr_slot_pass(slot, i);
        dlr_cli_bar_pass(&c->bar, bytes);
    }
    return 0;
}

/* The meta block ends with its checksum. */
static bool is_slice(const void *meta, size_t bytes, const struct dlr_slice *slice)
{
    return memcmp((const char *)meta + bytes - sizeof(slice->crc), &slice->crc,
                  sizeof(slice->crc)) == 0;
}

/* *ret is a file whose every byte is right: dlr_slot_unmap(). */
static int open_file(struct ckpt *c, const struct dlr_plan_file *f,
                     struct dlr_slot **ret, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct dlr_slot_info info;
    struct dlr_slot *slot;
    const void *meta;
    size_t bytes;
    int rc;

    if (fd < 0)
        return dlr_fail(err, -errno, "cannot be opened: %s", strerror(errno));
    rc = dlr_slot_file_map_by(&c->heads, fd, f->copy.rank, &slot, err);
    if (rc < 0)
        return rc;
    dlr_slot_meta(slot, &meta, &bytes);
    rc = dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(slot), &info, err);
    if (rc == 0 && !is_slice(meta, bytes, &f->slice))
        rc = dlr_fail(err, -EBADMSG, "is not what the manifest names");
    if (rc == 0 && (info.rank != f->copy.rank || info.world != f->copy.world ||
                    !dlr_version_eq(info.version, f->copy.version)))
        rc = dlr_fail(err, -EBADMSG,
                      "holds rank %" PRId32 " of %" PRIu32 " at step %" PRIu64
                      " of round %" PRIu32,
                      info.rank, info.world, info.version.step, info.version.round);
    if (rc == 0)
        rc = check_blocks(c, slot, info.nblocks, err);
    if (rc < 0)
        dlr_slot_unmap(slot);
    else
        *ret = slot;
    return rc;
}

static int read_one(struct ckpt *c, unsigned at, unsigned end, bool export)
{
    struct dlr_version v = c->files[at].copy.version;
    unsigned bad = 0;
    char size[32];

    for (unsigned i = at; i < end; i++) {
        struct dlr_slot *slot = NULL;
        struct dlr_err err = {0};
        int rc = open_file(c, &c->files[i], &slot, &err);

        if (rc == 0 && export)
            rc = dlr_cli_export(c->files + at, end - at, i - at, slot, &c->heads,
                                c->output, &err);
        dlr_slot_unmap(slot);
        if (rc == 0)
            continue;
        dlr_cli_bar_clear();
        dlr_cli_clean(c->files[i].path); /* the name may be somebody else's */
        fprintf(stderr,
                "dlrover ckpt: rank %" PRId32 " of step %" PRIu64 ", '%s': %s\n",
                c->files[i].copy.rank, v.step, c->files[i].path, err.text);
        bad++;
        if (export)
            return DLR_CLI_FAIL;
    }
    dlr_cli_bar_clear();
    size_text(bytes_of(c, at, end), size, sizeof(size));
    if (!bad)
        printf("step %" PRIu64 " of round %" PRIu32
               ": %u ranks, %s, every byte is right%s%s\n",
               v.step, v.round, end - at, size, export ? "; exported to " : "",
               export ? c->output : "");
    return bad ? DLR_CLI_FAIL : DLR_CLI_OK;
}

static int read_all(struct ckpt *c, bool export)
{
    struct dlr_err err;
    int code = DLR_CLI_OK;

    if (export && dlr_mkdirs(c->output, 0777, &err) < 0) {
        fprintf(stderr, "dlrover ckpt: %s\n", err.text);
        return DLR_CLI_FAIL;
    }
    c->bar.total = bytes_of(c, 0, c->n);
    for (unsigned at = 0, end; at < c->n; at = end) {
        end = end_of(c, at);
        if (!export && !c->has_step && unwritten(c, at, end))
            printf("step %" PRIu64 ": not whole, %u of %u ranks have no file\n",
                   c->files[at].copy.version.step, unwritten(c, at, end), end - at);
        else if (read_one(c, at, end, export) != DLR_CLI_OK)
            code = DLR_CLI_FAIL;
    }
    return code;
}

/* --- rm --------------------------------------------------------------------------- */

static void file_gone(void *arg, uint64_t files)
{
    struct ckpt *c = arg;

    dlr_cli_bar_pass(&c->bar, files);
}

static int remove_all(struct ckpt *c)
{
    struct dlr_err err;
    int rc;

    c->bar.total = c->n;
    rc = dlr_persist_remove(c->dir, c->files, c->n, !c->named, file_gone, c, &err);
    dlr_cli_bar_clear();
    if (rc < 0)
        fprintf(stderr, "dlrover ckpt: %s\n", err.text);
    return rc < 0 ? DLR_CLI_FAIL : DLR_CLI_OK;
}

/* Versions by their manifests, or, where there is none, by the names of files. */
static int load(struct ckpt *c, struct dlr_err *err)
{
    unsigned strange;
    int rc = dlr_persist_load(c->dir, &c->files, &c->n, err);

    c->named = rc == -ENOENT;
    if (c->named)
        return dlr_cli_named_load(c->dir, &c->files, &c->n, err);
    if (rc == 0 && err->text[0])
        fprintf(stderr, "dlrover ckpt: ignoring a manifest: %s\n", err->text);
    strange = rc == 0 ? dlr_cli_named_count(c->dir) : 0;
    if (strange)
        fprintf(stderr,
                "dlrover ckpt: ignoring %u files of a program without a job: '%s' has "
                "manifests, too (move one kind elsewhere)\n",
                strange, c->dir);
    return rc;
}

static int run(struct ckpt *c)
{
    struct dlr_err err = {0};
    int rc = find_dir(c, &err);

    if (rc == 0)
        rc = load(c, &err);
    if (rc == 0)
        rc = choose(c, &err);
    if (rc == 0 && c->to && dlr_streq(c->to, "dcp"))
        rc = dlr_cli_dcp(c->dir, c->step_text, c->output, &err);
    if (rc < 0) {
        fprintf(stderr, "dlrover ckpt: %s\n", err.text);
        return DLR_CLI_FAIL;
    }
    if (dlr_streq(c->verb, "ls"))
        return list(c);
    if (dlr_streq(c->verb, "rm"))
        return remove_all(c);
    return read_all(c, dlr_streq(c->verb, "export"));
}

int dlr_cli_ckpt(int argc, char **argv)
{
    struct ckpt c = {0};
    const char *wrong;
    int code;

    if (!dlr_cli_parse(&cmd, argc, argv, set, &c, &code))
        return code;
    wrong = check_words(&c);
    if (wrong) {
        fprintf(stderr, "dlrover ckpt: %s (see 'dlrover help ckpt')\n", wrong);
        return DLR_CLI_USAGE;
    }
    c.bar.what = c.verb;
    code = run(&c);
    dlr_slot_file_heads_done(&c.heads);
    free(c.files);
    return code;
}
