/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/manifest/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/persist/slot_file.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"

#define MANIFEST_MAX (256u << 20) /* bytes: 256 per rank at DLR_PLAN_RANKS_MAX */
#define FORM 2                    /* of the manifest */
#define SUFFIX DLR_SLOT_FILE_SUFFIX
#define MANIFEST "manifest"
#define MANIFEST_SUFFIX ".json"

uint32_t dlr_persist_tag(void)
{
    uint32_t tag = 0;

    if (getrandom(&tag, sizeof(tag), 0) != sizeof(tag))
        tag = (uint32_t)dlr_now_ns();
    return tag;
}

int dlr_persist_path(const char *dir, char kind, unsigned i,
                     const struct dlr_persist_write *write, char *buf, size_t size)
{
    return dlr_format(buf, size, "%s/%c%u-%" PRIu32 "-%" PRIu64 "-%08" PRIx32 SUFFIX,
                      dir, kind, i, write->version.round, write->version.step,
                      write->tag);
}

int dlr_persist_manifest(struct dlr_version version, char *buf, size_t size)
{
    return dlr_format(buf, size, MANIFEST "-%u-%llu" MANIFEST_SUFFIX, version.round,
                      (unsigned long long)version.step);
}

static int open_dir(const char *dir, struct dlr_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %s", dir, strerror(errno));
    return fd;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Each rank of one version, once, of one world and layout. */
static int check_whole(const struct dlr_plan_file *files, unsigned n,
                       struct dlr_err *err)
{
    const struct dlr_plan_copy *first = &files[0].copy;
    DLR_AUTO_FREE bool *seen = calloc(n ? n : 1, sizeof(*seen));

    if (!seen)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (n == 0 || n != first->world)
        return dlr_fail(err, -EINVAL, "%u of %u ranks in the manifest", n,
                        n ? first->world : 0);
    for (unsigned i = 0; i < n; i++) {
        const struct dlr_plan_copy *c = &files[i].copy;

        if (c->rank < 0 || (unsigned)c->rank >= n || seen[c->rank])
            return dlr_fail(err, -EINVAL, "rank %d twice or out of range", c->rank);
        if (c->world != first->world || c->layout != first->layout ||
            !dlr_version_eq(c->version, first->version))
            return dlr_fail(err, -EINVAL, "rank %d is of another version", c->rank);
        seen[c->rank] = true;
    }
    return 0;
}

static json_t *slice_row(const struct dlr_plan_file *f)
{
    char crc[9];

    dlr_format(crc, sizeof(crc), "%08" PRIx32, f->slice.crc);
    return json_pack("{s:i, s:s, s:I, s:I, s:I, s:s}", "rank", f->copy.rank, "file",
                     base_name(f->path), "at", (json_int_t)f->slice.at, "bytes",
                     (json_int_t)f->slice.bytes, "room", (json_int_t)f->slice.room,
                     "crc", crc);
}

static json_t *manifest(const struct dlr_plan_file *files, unsigned n)
{
    const struct dlr_plan_copy *first = &files[0].copy;
    json_t *list = json_array();
    char layout[17];

    dlr_format(layout, sizeof(layout), "%016llx", (unsigned long long)first->layout);
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, slice_row(&files[i]));
    return json_pack("{s:i, s:s, s:i, s:I, s:I, s:s, s:o}", "v", FORM, "t", "manifest",
                     "world", (int)first->world, "vround",
                     (json_int_t)first->version.round, "step",
                     (json_int_t)first->version.step, "layout", layout, "slices", list);
}

static int parse_slice(const json_t *j, struct dlr_slice *ret)
{
    const char *crc;

    if (dlr_msg_uint(j, "at", INT64_MAX, &ret->at) < 0 ||
        dlr_msg_uint(j, "bytes", INT64_MAX, &ret->bytes) < 0 ||
        dlr_msg_uint(j, "room", INT64_MAX, &ret->room) < 0 ||
        dlr_msg_str(j, "crc", &crc) < 0 || ret->bytes > INT64_MAX - ret->at ||
        strspn(crc, "0123456789abcdef") != 8 || strlen(crc) != 8)
        return -EBADMSG;
    ret->crc = (uint32_t)strtoul(crc, NULL, 16);
    return 0;
}

static int parse_file(const char *dir, const json_t *j, const struct dlr_plan_copy *all,
                      struct dlr_plan_file *ret)
{
    const char *name;
    uint64_t rank;

    if (dlr_msg_uint(j, "rank", all->world - 1, &rank) < 0 ||
        parse_slice(j, &ret->slice) < 0 || dlr_msg_str(j, "file", &name) < 0 ||
        strchr(name, '/') || !strspn(name, DLR_PERSIST_KINDS))
        return -EBADMSG;
    ret->copy = *all;
    ret->copy.rank = (int32_t)rank;
    ret->copy.bytes = ret->slice.room;
    return dlr_format(ret->path, sizeof(ret->path), "%s/%s", dir, name);
}

static int parse_head(const json_t *m, struct dlr_plan_copy *ret,
                      const json_t **ret_list)
{
    uint64_t world, vround, step;
    const char *layout;
    char *end;

    *ret_list = json_object_get(m, "slices");
    if (!dlr_streq(dlr_msg_type(m), "manifest") ||
        dlr_msg_uint(m, "world", DLR_PLAN_RANKS_MAX, &world) < 0 || world == 0 ||
        dlr_msg_uint(m, "vround", UINT32_MAX, &vround) < 0 ||
        dlr_msg_uint(m, "step", INT64_MAX, &step) < 0 ||
        dlr_msg_str(m, "layout", &layout) < 0 || !json_is_array(*ret_list) ||
        json_array_size(*ret_list) != world)
        return -EBADMSG;
    ret->world = (uint32_t)world;
    ret->version = (struct dlr_version){(uint32_t)vround, step};
    ret->layout = strtoull(layout, &end, 16);
    return *layout == '\0' || *end != '\0' ? -EBADMSG : 0;
}

/* A manifest of another form than ours says so before anything else is looked at. */
static int check_form(const json_t *m, const char *dir, const char *name,
                      struct dlr_err *err)
{
    const json_t *form = json_object_get(m, "v");

    if (!json_is_integer(form) || !json_is_string(json_object_get(m, "t")))
        return dlr_fail(err, -EBADMSG, "'%s/%s' is malformed", dir, name);
    if (json_integer_value(form) != FORM)
        return dlr_fail(err, -EBADMSG,
                        "'%s/%s' is of form %" JSON_INTEGER_FORMAT
                        ", this version reads form %d only",
                        dir, name, json_integer_value(form), FORM);
    return 0;
}

/* One manifest's files, appended to *files. */
static int load_manifest(int fd, const char *dir, const char *name,
                         struct dlr_plan_file **files, unsigned *n, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_JSON json_t *m = NULL;
    struct dlr_plan_copy all = {0};
    struct dlr_plan_file *more;
    const json_t *list;
    size_t size = 0;
    int rc = dlr_file_load_own(fd, name, MANIFEST_MAX, &text, &size, err);

    if (rc < 0)
        return rc;
    m = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    rc = check_form(m, dir, name, err);
    if (rc < 0)
        return rc;
    if (parse_head(m, &all, &list) < 0)
        return dlr_fail(err, -EBADMSG, "'%s/%s' is malformed", dir, name);
    more = realloc(*files, (*n + (size_t)all.world) * sizeof(*more));
    if (!more)
        return dlr_fail(err, -ENOMEM, "out of memory");
    *files = more;
    more += *n;
    memset(more, 0, all.world * sizeof(*more));
    for (unsigned i = 0; i < all.world; i++)
        if (parse_file(dir, json_array_get(list, i), &all, &more[i]) < 0)
            return dlr_fail(err, -EBADMSG, "file %u of '%s/%s' is malformed", i, dir,
                            name);
    rc = check_whole(more, all.world, err);
    if (rc == 0)
        *n += all.world;
    return rc;
}

static bool is_manifest(const char *name)
{
    size_t len = strlen(name);

    return dlr_after(name, MANIFEST) && len > strlen(MANIFEST_SUFFIX) &&
           dlr_streq(name + len - strlen(MANIFEST_SUFFIX), MANIFEST_SUFFIX);
}

static int newest_first(const void *a, const void *b)
{
    const struct dlr_plan_file *x = a, *y = b;
    int rc = dlr_version_cmp(y->copy.version, x->copy.version);

    return rc ? rc : (x->copy.rank > y->copy.rank) - (x->copy.rank < y->copy.rank);
}

int dlr_persist_load(const char *dir, struct dlr_plan_file **ret_files, unsigned *ret_n,
                     struct dlr_err *err)
{
    DLR_AUTO_CLOSEDIR DIR *d = opendir(dir);
    DLR_AUTO_FREE struct dlr_plan_file *files = NULL;
    struct dirent *e;
    struct dlr_err why;
    int bad = -ENOENT;
    unsigned n = 0;

    if (!d)
        return dlr_fail(err, -errno, "cannot open '%s': %s", dir, strerror(errno));
    dlr_fail(err, 0, "%s", "");
    while ((e = readdir(d))) {
        int rc;

        if (!is_manifest(e->d_name))
            continue;
        rc = load_manifest(dirfd(d), dir, e->d_name, &files, &n, &why);
        if (rc == -ENOMEM)
            return dlr_fail(err, rc, "%s", why.text);
        if (rc < 0)
            bad = dlr_fail(err, rc, "%s", why.text);
    }
    if (n == 0)
        return bad != -ENOENT ? bad : dlr_fail(err, bad, "'%s' has no manifest", dir);
    qsort(files, n, sizeof(*files), newest_first);
    *ret_n = n;
    *ret_files = DLR_STEAL(files);
    return 0;
}

/* --- what is no longer wanted ----------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What wrote "<kind><i>-<vround>-<step>-<tag>.safetensors"; false for any other name.
 */
static bool file_write(const char *name, struct dlr_persist_write *ret)
{
    struct dlr_persist_write w;
    char again[96], kind;
    unsigned i;

    if (sscanf(name, "%c%u-%" SCNu32 "-%" SCNu64 "-%" SCNx32 SUFFIX, &kind, &i,
               &w.version.round, &w.version.step, &w.tag) != 5 ||
        !strchr(DLR_PERSIST_KINDS, kind) ||
        dlr_persist_path(".", kind, i, &w, again, sizeof(again)) < 0 ||
        !dlr_streq(again + strlen("./"), name))
        return false;
    *ret = w;
    return true;
}

/* The same of what a crash left of such a file: ".NAME.<16 digits>" (dlr_file_replace).
 */
static bool half_write(const char *name, struct dlr_persist_write *ret)
{
    size_t len = strlen(name), tail = strlen(".0123456789abcdef");
    char whole[96];

    if (name[0] != '.' || len < tail + 1 || name[len - tail] != '.')
        return false;
    return dlr_format(whole, sizeof(whole), "%.*s", (int)(len - tail - 1), name + 1) >=
               0 &&
           file_write(whole, ret);
}

struct prune {
    DIR *d;
    struct dlr_version v;        /* what is newer stays */
    struct dlr_plan_file *files; /* [n] newest first, of all that could be read */
    unsigned n;
    const char **kept; /* [nkept] files that are named by those that stay */
    unsigned nkept;
};

static void prune_done(struct prune *p)
{
    if (p->d)
        closedir(p->d);
    free(p->files);
    free(p->kept);
}

/* A key's place in what newest_first() has sorted. */
static int to_version(const void *key, const void *row)
{
    const struct dlr_version *v = key;
    const struct dlr_plan_file *f = row;

    return dlr_version_cmp(f->copy.version, *v);
}

/* A manifest of that version is there and could not be read: it may name any file of
 * the version.
 */
static bool is_unread(const struct prune *p, struct dlr_version v)
{
    char name[DLR_PERSIST_NAME];

    if (bsearch(&v, p->files, p->n, sizeof(*p->files), to_version))
        return false;
    dlr_persist_manifest(v, name, sizeof(name));
    return faccessat(dirfd(p->d), name, F_OK, 0) == 0;
}

/* A manifest is called otherwise than ours: nobody knows of which version it is. */
static bool any_strange(DIR *d)
{
    const struct dirent *e;
    struct dlr_version v;
    char again[DLR_PERSIST_NAME];

    rewinddir(d);
    while ((e = readdir(d)))
        if (is_manifest(e->d_name) &&
            (sscanf(e->d_name, MANIFEST "-%" SCNu32 "-%" SCNu64, &v.round, &v.step) !=
                 2 ||
             dlr_persist_manifest(v, again, sizeof(again)) < 0 ||
             !dlr_streq(again, e->d_name)))
            return true;
    return false;
}

/* Removes manifests beyond the newest keep versions. */
static void prune_manifests(struct prune *p, unsigned keep)
{
    unsigned nversions = 0;
    char name[DLR_PERSIST_NAME];

    for (unsigned i = 0; i < p->n; i++) {
        struct dlr_version its = p->files[i].copy.version;

        if (i == 0 || !dlr_version_eq(its, p->files[i - 1].copy.version))
            nversions++;
        if (nversions > keep && dlr_version_cmp(its, p->v) < 0) {
            dlr_persist_manifest(its, name, sizeof(name));
            unlinkat(dirfd(p->d), name, 0);
            continue;
        }
        p->kept[p->nkept++] = base_name(p->files[i].path);
    }
}

/* Removes files that are in no manifest. Best effort: what cannot be removed only takes
 * room. Newer ones may be on their way to a manifest of their own.
 */
static void prune_files(struct prune *p)
{
    struct dirent *e;

    qsort(p->kept, p->nkept, sizeof(*p->kept), by_name);
    rewinddir(p->d);
    while ((e = readdir(p->d))) {
        const char *name = e->d_name;
        struct dlr_persist_write its;

        if ((file_write(name, &its) || half_write(name, &its)) &&
            dlr_version_cmp(its.version, p->v) < 0 &&
            !bsearch(&name, p->kept, p->nkept, sizeof(*p->kept), by_name) &&
            !is_unread(p, its.version))
            unlinkat(dirfd(p->d), name, 0);
    }
}

static void prune(const char *dir, struct dlr_version v, unsigned keep,
                  struct dlr_err *err)
{
    DLR_CLEANUP(prune_done) struct prune p = {.d = opendir(dir), .v = v};
    struct dlr_err why;

    if (!p.d || dlr_persist_load(dir, &p.files, &p.n, &why) < 0 ||
        !(p.kept = calloc(p.n, sizeof(*p.kept))))
        return;
    prune_manifests(&p, keep);
    fsync(dirfd(
        p.d)); /* no manifest without its files, whatever reaches the disk first */
    if (!why.text[0] || !any_strange(p.d))
        prune_files(&p);
    dlr_fail(err, 0, "%s", why.text);
}

void dlr_persist_forget(const char *dir, const struct dlr_persist_write *write,
                        const atomic_bool *stop)
{
    DLR_AUTO_CLOSEDIR DIR *d = opendir(dir);
    struct dirent *e;

    while (d && !atomic_load(stop) && (e = readdir(d))) {
        struct dlr_persist_write its;

        if (file_write(e->d_name, &its) && its.tag == write->tag &&
            dlr_version_eq(its.version, write->version))
            unlinkat(dirfd(d), e->d_name, 0);
    }
}

static int by_path(const void *a, const void *b)
{
    const struct dlr_plan_file *const *x = a, *const *y = b;

    return strcmp((*x)->path, (*y)->path);
}

static int look_at(const struct dlr_plan_file *f, const struct stat *st,
                   struct dlr_err *err)
{
    return f->slice.at + f->slice.bytes <= (uint64_t)st->st_size
               ? 0
               : dlr_fail(err, -EIO, "'%s' was written and is too short", f->path);
}

int dlr_persist_count(const struct dlr_plan_file *files, unsigned n, unsigned *ret_n,
                      uint64_t *ret_bytes, struct dlr_err *err)
{
    DLR_AUTO_FREE const struct dlr_plan_file **sorted = calloc(n + 1u, sizeof(*sorted));
    uint64_t bytes = 0;
    unsigned count = 0;
    struct stat st;
    int rc = 0;

    if (!sorted)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (unsigned i = 0; i < n; i++)
        sorted[i] = &files[i];
    qsort(sorted, n, sizeof(*sorted), by_path);
    for (unsigned i = 0; rc == 0 && i < n; i++) {
        if (i == 0 || !dlr_streq(sorted[i]->path, sorted[i - 1]->path)) {
            if (stat(sorted[i]->path, &st) < 0)
                return dlr_fail(err, -errno, "'%s' was written and is not there: %s",
                                sorted[i]->path, strerror(errno));
            count++;
            bytes += (uint64_t)st.st_size;
        }
        rc = look_at(sorted[i], &st, err);
    }
    *ret_n = count;
    *ret_bytes = bytes;
    return rc;
}

int dlr_persist_save(const char *dir, const struct dlr_plan_file *files, unsigned n,
                     unsigned keep, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open_dir(dir, err);
    DLR_AUTO_JSON json_t *m = NULL;
    DLR_AUTO_FREE char *text = NULL;
    char name[DLR_PERSIST_NAME];
    struct iovec part;
    int rc;

    if (fd < 0)
        return fd;
    rc = check_whole(files, n, err);
    if (rc < 0)
        return rc;
    m = manifest(files, n);
    text = m ? dlr_msg_text(m) : NULL;
    if (!text)
        return dlr_fail(err, -ENOMEM, "out of memory");
    part = (struct iovec){text, strlen(text)};
    dlr_persist_manifest(files[0].copy.version, name, sizeof(name));
    rc = dlr_file_replace(fd, name, 0600, &part, 1, err);
    if (rc < 0)
        return rc;
    dlr_fail(err, 0, "%s", "");
    if (keep > 0)
        prune(dir, files[0].copy.version, keep, err);
    return 0;
}
