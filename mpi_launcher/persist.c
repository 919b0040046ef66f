/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/persist.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/saved.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/msg.h"
#include "common/str.h"

#define MANIFEST_MAX (64u << 20) /* bytes: 64 per rank at DLR_PLAN_RANKS_MAX */
#define SUFFIX DLR_SAVED_SUFFIX
#define MANIFEST "manifest"
#define MANIFEST_SUFFIX ".json"

int dlr_persist_path(const char *dir, int32_t rank, struct dlr_version version,
                     char *buf, size_t size)
{
    return dlr_format(buf, size, "%s/r%d-%u-%llu" SUFFIX, dir, rank, version.round,
                      (unsigned long long)version.step);
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

static json_t *manifest(const struct dlr_plan_file *files, unsigned n)
{
    const struct dlr_plan_copy *first = &files[0].copy;
    json_t *list = json_array();
    char layout[17];

    dlr_format(layout, sizeof(layout), "%016llx", (unsigned long long)first->layout);
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:I}", "rank", files[i].copy.rank,
                                        "file", base_name(files[i].path), "bytes",
                                        (json_int_t)files[i].copy.bytes));
    return json_pack("{s:i, s:s, s:i, s:I, s:I, s:s, s:o}", "v", DLR_MSG_VERSION, "t",
                     "manifest", "world", (int)first->world, "vround",
                     (json_int_t)first->version.round, "step",
                     (json_int_t)first->version.step, "layout", layout, "files", list);
}

static int parse_file(const char *dir, const json_t *j, const struct dlr_plan_copy *all,
                      struct dlr_plan_file *ret)
{
    uint64_t rank, bytes;
    const char *name;

    if (dlr_msg_uint(j, "rank", all->world - 1, &rank) < 0 ||
        dlr_msg_uint(j, "bytes", INT64_MAX, &bytes) < 0 ||
        dlr_msg_str(j, "file", &name) < 0 || strchr(name, '/') || name[0] != 'r')
        return -EBADMSG;
    ret->copy = *all;
    ret->copy.rank = (int32_t)rank;
    ret->copy.bytes = bytes;
    return dlr_format(ret->path, sizeof(ret->path), "%s/%s", dir, name);
}

static int parse_head(const json_t *m, struct dlr_plan_copy *ret,
                      const json_t **ret_list)
{
    uint64_t world, vround, step;
    const char *layout;
    char *end;

    *ret_list = json_object_get(m, "files");
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
    int rc = dlr_file_load(fd, name, MANIFEST_MAX, &text, &size, err);

    if (rc < 0)
        return rc;
    m = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(m) || !json_is_string(json_object_get(m, "t")) ||
        parse_head(m, &all, &list) < 0)
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

/* --- what is no longer wanted ------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Version of "r<rank>-<vround>-<step>.safetensors"; false for any other name. */
static bool file_version(const char *name, struct dlr_version *ret)
{
    unsigned rank, vround;
    unsigned long long step;
    char again[64];

    if (sscanf(name, "r%u-%u-%llu" SUFFIX, &rank, &vround, &step) != 3 ||
        dlr_format(again, sizeof(again), "r%u-%u-%llu" SUFFIX, rank, vround, step) <
            0 ||
        !dlr_streq(again, name))
        return false;
    *ret = (struct dlr_version){vround, step};
    return true;
}

/* Version of what a crash left of such a file: ".NAME.<16 digits>" (dlr_file_replace). */
static bool half_version(const char *name, struct dlr_version *ret)
{
    size_t len = strlen(name), tail = strlen(".0123456789abcdef");
    char slot[DLR_PERSIST_NAME];

    if (name[0] != '.' || len < tail + 1 || name[len - tail] != '.')
        return false;
    return dlr_format(slot, sizeof(slot), "%.*s", (int)(len - tail - 1), name + 1) >=
               0 &&
           file_version(slot, ret);
}

/* The slot files of dir that are older than v and in no manifest. Best effort: what cannot be
 * removed only takes room. Newer ones may be on their way to a manifest of their own.
 */
static void prune_files(DIR *d, const char **kept, unsigned n, struct dlr_version v)
{
    struct dirent *e;

    qsort(kept, n, sizeof(*kept), by_name);
    rewinddir(d);
    while ((e = readdir(d))) {
        const char *name = e->d_name;
        struct dlr_version its;

        if ((file_version(name, &its) || half_version(name, &its)) &&
            dlr_version_cmp(its, v) < 0 &&
            !bsearch(&name, kept, n, sizeof(*kept), by_name))
            unlinkat(dirfd(d), name, 0);
    }
}

static void prune(const char *dir, struct dlr_version v, unsigned keep)
{
    DLR_AUTO_FREE struct dlr_plan_file *files = NULL;
    DLR_AUTO_FREE const char **kept = NULL;
    DLR_AUTO_CLOSEDIR DIR *d = opendir(dir);
    unsigned n = 0, nkept = 0, nversions = 0;
    char name[DLR_PERSIST_NAME];

    if (!d || dlr_persist_load(dir, &files, &n, NULL) < 0 ||
        !(kept = calloc(n, sizeof(*kept))))
        return;
    for (unsigned i = 0; i < n; i++) {
        struct dlr_version its = files[i].copy.version;

        if (i == 0 || !dlr_version_eq(its, files[i - 1].copy.version))
            nversions++;
        if (nversions > keep && dlr_version_cmp(its, v) < 0) {
            dlr_persist_manifest(its, name, sizeof(name));
            unlinkat(dirfd(d), name, 0);
            continue;
        }
        kept[nkept++] = base_name(files[i].path);
    }
    fsync(
        dirfd(d)); /* no manifest without its files, whatever reaches the disk first */
    prune_files(d, kept, nkept, v);
}

void dlr_persist_forget(const char *dir, unsigned world, struct dlr_version version,
                        const atomic_bool *stop)
{
    char path[DLR_PLAN_WHERE];

    for (unsigned r = 0; r < world && !atomic_load(stop); r++)
        if (dlr_persist_path(dir, (int32_t)r, version, path, sizeof(path)) >= 0)
            unlink(path);
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
    if (rc == 0 && keep > 0)
        prune(dir, files[0].copy.version, keep);
    return rc;
}
