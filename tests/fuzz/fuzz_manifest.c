/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/manifest,common/local,common/config */
/* Manifests as they lie on a disk, one a line. What is accepted names each rank once,
 * by files of its own directory, newest version first, and can be written again.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/manifest/manifest.h"
#include "tests/fuzz/fuzz.h"

#define MANIFESTS 3 /* of an input, at most */
#define AGAIN 8     /* versions written again */

static char dir[] = "/dev/shm/dlrover-fuzz-XXXXXX";
static char again[sizeof(dir) + 8];

static void leave(void)
{
    char name[64];

    for (unsigned i = 0; i < MANIFESTS; i++) {
        snprintf(name, sizeof(name), "%s/manifest-%u.json", dir, i);
        unlink(name);
    }
    rmdir(again);
    rmdir(dir);
}

static void make_dirs(void)
{
    FUZZ_CHECK(mkdtemp(dir));
    snprintf(again, sizeof(again), "%s/again", dir);
    FUZZ_CHECK(mkdir(again, 0700) == 0);
    atexit(leave);
}

static void put(unsigned i, const char *text)
{
    char name[64];
    FILE *file;

    snprintf(name, sizeof(name), "%s/manifest-%u.json", dir, i);
    unlink(name);
    if (!text)
        return;
    file = fopen(name, "w");
    FUZZ_CHECK(file && fputs(text, file) >= 0);
    fclose(file);
}

/* One version: n files from the first on; they can be saved, and are the same when
 * read.
 */
static void check_version(const struct dlr_plan_file *files, unsigned n, bool save)
{
    struct dlr_plan_file *back;
    char name[DLR_PERSIST_NAME];
    unsigned nback = 0;
    int fd;

    for (unsigned i = 0; i < n; i++) {
        const char *base = files[i].path + strlen(dir) + 1;

        FUZZ_CHECK(files[i].copy.rank == (int32_t)i && files[i].copy.world == n);
        FUZZ_CHECK(strncmp(files[i].path, dir, strlen(dir)) == 0 &&
                   strchr(DLR_PERSIST_KINDS, *base));
        FUZZ_CHECK(!strchr(base, '/'));
    }
    if (!save)
        return;
    FUZZ_CHECK(dlr_persist_save(again, files, n, 0, NULL) == 0);
    FUZZ_CHECK(dlr_persist_load(again, &back, &nback, NULL) == 0 && nback == n);
    FUZZ_CHECK(memcmp(&back[0].copy, &files[0].copy, sizeof(back[0].copy)) == 0);
    FUZZ_CHECK(back[n - 1].slice.at == files[n - 1].slice.at &&
               back[n - 1].slice.crc == files[n - 1].slice.crc);
    free(back);
    dlr_persist_manifest(files[0].copy.version, name, sizeof(name));
    fd = open(again, O_RDONLY | O_DIRECTORY);
    FUZZ_CHECK(fd >= 0 && unlinkat(fd, name, 0) == 0);
    close(fd);
}

static void check(const struct dlr_plan_file *files, unsigned n)
{
    unsigned at = 0, versions = 0;

    while (at < n) {
        unsigned world = files[at].copy.world;
        bool twice = at + world < n && dlr_version_eq(files[at].copy.version,
                                                      files[at + world].copy.version);

        FUZZ_CHECK(world > 0 && world <= n - at);
        FUZZ_CHECK(at == 0 || dlr_version_cmp(files[at - 1].copy.version,
                                              files[at].copy.version) >= 0);
        /* two manifests of one version: whose file is whose is not told here */
        if (twice)
            return;
        check_version(files + at, world, versions++ < AGAIN);
        at += world;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *rest = text;
    struct dlr_plan_file *files = NULL;
    struct dlr_err err;
    unsigned n = 0;

    if (!again[0])
        make_dirs();
    for (unsigned i = 0; i < MANIFESTS; i++)
        put(i, fuzz_line(&rest));
    if (dlr_persist_load(dir, &files, &n, &err) == 0) {
        FUZZ_CHECK(n > 0);
        check(files, n);
        free(files);
    }
    free(text);
    return 0;
}
