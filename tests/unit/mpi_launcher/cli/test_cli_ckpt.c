/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover ckpt on snapshots that are whole, spoilt, gone; and words that are wrong. */
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/manifest/manifest.h"
#include "ckpt/persist/slot_file.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/write.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/cli.h"
#include "tests/support/flip.h"

#define RANKS 3

static char dir[64], text[16384];
static struct dlr_slice slices[RANKS]; /* the same in each version */

static struct dlr_slot *make_region(const struct dlr_ckpt_region *region, int32_t rank,
                                    struct dlr_version v)
{
    const struct dlr_slot_owner owner = {7, rank, RANKS, {(uint32_t)rank, RANKS}};
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;

    assert_int_equal(dlr_slot_plan_new(region, 1, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    assert_int_equal(dlr_slot_begin(slot, plan, v, NULL), 0);
    memset(dlr_slot_data(slot, plan, 0), 7 + rank, dlr_slot_plan_data(plan));
    dlr_slot_set_crc(
        slot, plan, 0,
        dlr_crc32c(0, dlr_slot_data(slot, plan, 0), dlr_slot_plan_data(plan)));
    dlr_slot_seal(slot, plan);
    dlr_slot_plan_free(plan);
    return slot;
}

/* Ranks 0 and 1 in one file, rank 2 in its own. */
static void put_regions(const struct dlr_ckpt_region *region, uint32_t vround,
                        uint64_t step)
{
    const struct dlr_slot_file_how how = {.check = true};
    const struct dlr_persist_write w = {{vround, step}, 1};
    struct dlr_plan_file files[RANKS] = {0};
    struct dlr_slot_file_part parts[RANKS] = {0};

    for (int32_t r = 0; r < RANKS; r++) {
        files[r].copy = (struct dlr_plan_copy){
            .rank = r, .world = RANKS, .version = {vround, step}, .bytes = 8192 + 5000};
        dlr_persist_path(dir, r < 2 ? 'n' : 'r', r < 2 ? 0 : (unsigned)r, &w,
                         files[r].path, sizeof(files[r].path));
        parts[r].slot = make_region(region, r, files[r].copy.version);
    }
    assert_int_equal(
        dlr_slot_file_write(parts, 2, AT_FDCWD, files[0].path, 0600, &how, NULL), 0);
    assert_int_equal(
        dlr_slot_file_write(parts + 2, 1, AT_FDCWD, files[2].path, 0600, &how, NULL),
        0);
    for (int32_t r = 0; r < RANKS; r++) {
        files[r].slice = slices[r] = parts[r].slice;
        dlr_slot_unmap((struct dlr_slot *)parts[r].slot);
    }
    assert_int_equal(dlr_persist_save(dir, files, RANKS, 0, NULL), 0);
}

static unsigned char state_of_all[5000];
static const struct dlr_ckpt_region plain = {
    "d", DLR_CKPT_LOCAL, "u8", 1, 1, {5000}, {0}, {5000}, {0}, state_of_all};

static void put_version(uint32_t vround, uint64_t step)
{
    put_regions(&plain, vround, step);
}

/* As a rank of a program without a job writes it. */
static void put_named(int32_t rank, uint64_t step)
{
    const struct dlr_slot_file_how how = {.check = true};
    struct dlr_slot_file_part part = {
        .slot = make_region(&plain, rank, (struct dlr_version){0, step})};
    char path[128];

    dlr_format(path, sizeof(path), "%s/r%d-%d.safetensors", dir, (int)rank, (int)step);
    assert_int_equal(dlr_slot_file_write(&part, 1, AT_FDCWD, path, 0600, &how, NULL),
                     0);
    dlr_slot_unmap((struct dlr_slot *)part.slot);
}

static int make_named_dir(void **state)
{
    dlr_format(dir, sizeof(dir), "/tmp/dlr-cli-ckpt-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    for (int32_t rank = 0; rank < RANKS; rank++)
        for (uint64_t step = 100; step <= 200; step += 100)
            put_named(rank, step);
    return 0;
}

static int make_dir(void **state)
{
    dlr_format(dir, sizeof(dir), "/tmp/dlr-cli-ckpt-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    put_version(0, 100);
    put_version(1, 200);
    return 0;
}

static int remove_dir(void **state)
{
    char command[128];

    dlr_format(command, sizeof(command), "rm -r '%s'", dir);
    return system(command);
}

/* Runs "dlrover ckpt WORDS" ("DIR" stands for the directory), to this descriptor, which
 * it closes; text is what comes from the other end of it, which is closed, too.
 */
static int ckpt_to(const char *words, int to, int from)
{
    char copy[256], option[160], *argv[16] = {(char *)"ckpt"};
    int argc = 1, status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    dlr_format(copy, sizeof(copy), "%s", words);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    for (int i = 1; i < argc; i++) {
        if (dlr_streq(argv[i], "DIR"))
            argv[i] = dir;
        if (dlr_streq(argv[i], "--output=DIR")) {
            dlr_format(option, sizeof(option), "--output=%s/out", dir);
            argv[i] = option;
        }
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(to, 1);
        dup2(to, 2);
        status = dlr_cli_ckpt(argc, argv);
        fflush(NULL);
        _exit(status);
    }
    close(to);
    while ((got = read(from, text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(from);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int ckpt(const char *words)
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    return ckpt_to(words, fds[1], fds[0]);
}

static bool there(const char *name)
{
    char path[128];

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void ls_shows_what_is_there(void **state)
{
    json_t *all;
    char path[128];

    assert_int_equal(ckpt("ls DIR"), 0);
    assert_true(strstr(text, "200") < strstr(text, "100")); /* the newest first */
    assert_int_equal(ckpt("ls --json DIR"), 0);
    all = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(all), 2);
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(all, 0), "step")), 200);
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(all, 1), "world")), RANKS);
    json_decref(all);
    dlr_format(path, sizeof(path), "%s/n0-1-200-00000001.safetensors", dir);
    assert_int_equal(truncate(path, (off_t)slices[1].at + 4999), 0);
    assert_int_equal(ckpt("ls DIR"), 1);
    assert_non_null(strstr(text, "the files of 1 of 3 ranks are gone or too short"));
    unlink(path);
    assert_int_equal(ckpt("ls DIR"), 1);
    assert_non_null(strstr(text, "the files of 2 of 3 ranks are gone or too short"));
}

static void verify_finds_the_spoilt_byte(void **state)
{
    char command[160];

    assert_int_equal(ckpt("verify DIR"), 0);
    assert_non_null(strstr(text, "step 200 of round 1: 3 ranks"));
    flip_bit(dir, "n0-0-100-00000001.safetensors", slices[1].at + 4000);
    assert_int_equal(ckpt("verify DIR"), 1);
    assert_non_null(strstr(text, "rank 1 of step 100"));
    assert_non_null(strstr(text, "block 0 of 1 is corrupt"));
    assert_non_null(strstr(text, "step 200 of round 1: 3 ranks"));
    assert_int_equal(ckpt("verify --step=200 DIR"), 0);
    dlr_format(
        command, sizeof(command),
        "sed -i 's/\"crc\":\"[0-9a-f]*/\"crc\":\"00c0ffee/' %s/manifest-1-200.json",
        dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(ckpt("verify --step=200 DIR"), 1);
    assert_non_null(strstr(text, "rank 0 of step 200"));
    assert_non_null(strstr(text, "is not what the manifest names"));
    flip_bit(dir, "n0-1-200-00000001.safetensors", 30);
    assert_int_equal(ckpt("verify --step=200 DIR"), 1);
}

/* A manifest and its name may be another user's. */
static void what_others_have_named_steers_no_terminal(void **state)
{
    char command[256];

    dlr_format(
        command, sizeof(command),
        "sed -i 's/\"n0-1-200/\"n0\\\\u001b]0;x\\\\u0007/' %s/manifest-1-200.json; "
        "echo {} >%s/manifest-$(printf '\\033[2J').json",
        dir, dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(ckpt("verify --step=200 DIR"), 1);
    assert_non_null(strstr(text, "/n0?]0;x?-00000001.safetensors'"));
    assert_non_null(strstr(text, "ignoring a manifest: "));
    assert_non_null(strstr(text, "/manifest-?[2J.json'"));
    assert_null(strpbrk(text, "\033\007"));
}

static void export_writes_only_what_is_right(void **state)
{
    assert_int_equal(ckpt("export --to=safetensors --output=DIR DIR"), 0);
    assert_true(there("out/rank-0.safetensors"));
    assert_true(there("out/rank-1.safetensors"));
    assert_true(there("out/rank-2.safetensors"));
    assert_int_equal(remove_dir(NULL), 0);
    assert_int_equal(make_dir(NULL), 0);
    flip_bit(dir, "n0-0-100-00000001.safetensors", slices[0].at + 1);
    assert_int_equal(ckpt("export --step=100 --to=safetensors --output=DIR DIR"), 1);
    assert_false(there("out/rank-0.safetensors"));
}

static void a_terminal_sees_how_far_it_is(void **state)
{
    static const struct {
        const char *words, *bar;
    } rows[] = {
        {"verify DIR", "\rverify [##############################] 100 %"},
        {"export --to=safetensors --output=DIR DIR",
         "\rexport [##############################] 100 %"},
        {"rm --step=100 DIR", "\rrm [##############################] 100 %"},
    };

    assert_int_equal(ckpt(rows[0].words), 0);
    assert_null(strchr(text, '\r')); /* and nobody else */
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        int to, from;

        assert_int_equal(openpty(&from, &to, NULL, NULL, NULL), 0);
        assert_int_equal(ckpt_to(rows[i].words, to, from), 0);
        assert_non_null(strstr(text, rows[i].bar));
    }
}

/* Ranks 0 and 1 have half of it each. */
static void check_export(const char *name)
{
    struct dlr_slot *slot;
    struct dlr_err err;
    char path[128];
    uint32_t crc;
    size_t size;
    void *data;
    int fd;

    dlr_format(path, sizeof(path), "%s/out/%s", dir, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (dlr_slot_file_map(fd, -1, &slot, &err) < 0 || dlr_slot_verify(slot, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    assert_int_equal(dlr_slot_block(slot, 0, &data, &size, &crc), 0);
    assert_int_equal(size, 200000);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(((unsigned char *)data)[i], 7 + (i >= 66666) + (i >= 133333));
    dlr_slot_unmap(slot);
    close(fd);
}

static void export_puts_together_what_a_node_kept_once(void **state)
{
    const struct dlr_ckpt_region region = {
        "d", DLR_CKPT_REPLICATED, "u8", 1, 1, {200000}, {0}, {200000}};

    put_regions(&region, 1, 200);
    assert_int_equal(ckpt("export --to=safetensors --output=DIR DIR"), 0);
    check_export("rank-0.safetensors");
    check_export("rank-1.safetensors");
}

static void rm_removes_one(void **state)
{
    assert_int_equal(ckpt("rm --step=100 DIR"), 0);
    assert_false(there("manifest-0-100.json"));
    assert_false(there("n0-0-100-00000001.safetensors"));
    assert_false(there("r2-0-100-00000001.safetensors"));
    assert_true(there("n0-1-200-00000001.safetensors"));
    assert_true(there("r2-1-200-00000001.safetensors"));
    assert_int_equal(ckpt("rm --step=100 DIR"), 1);
    assert_non_null(strstr(text, "no snapshot of step 100"));
}

static void files_without_a_manifest_are_known_by_their_names(void **state)
{
    json_t *all;

    assert_int_equal(ckpt("ls DIR"), 0);
    assert_true(strstr(text, "200") < strstr(text, "100"));
    assert_int_equal(ckpt("ls --json DIR"), 0);
    all = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(all), 2);
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(all, 1), "world")), RANKS);
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(all, 1), "bytes")),
        RANKS * 5000);
    json_decref(all);
    assert_int_equal(ckpt("verify DIR"), 0);
    assert_non_null(strstr(text, "step 100 of round 0: 3 ranks, 14.6 KiB, every byte"));
    assert_int_equal(ckpt("export --to=safetensors --output=DIR DIR"), 0);
    assert_true(there("out/rank-2.safetensors"));
    assert_int_equal(ckpt("rm --step=100 DIR"), 0);
    assert_false(there("r0-100.safetensors") || there("r2-100.safetensors"));
    assert_true(there("r0-200.safetensors") && there("r2-200.safetensors"));
    assert_int_equal(ckpt("rm --step=100 DIR"), 1);
    assert_non_null(strstr(text, "no snapshot of step 100"));
}

/* What is done to the newest of two versions, and what comes of it. */
static const struct named {
    const char *name, *words, *says;
    /* byte of rank 1's file that is spoilt, 0: the file is removed, -1: it is cut */
    int at;
    int code;
} named[] = {
    {"a rank never wrote it", "ls DIR", "not whole: 1 of 3 ranks have no file", 0, 0},
    {"a rank never wrote it", "verify DIR",
     "step 200: not whole, 1 of 3 ranks have no file\nstep 100 of round 0", 0, 0},
    {"a rank never wrote it", "verify --step=200 DIR", "cannot be opened", 0, 1},
    {"a rank never wrote it", "export --to=safetensors --output=DIR DIR",
     "step 100 of round 0", 0, 0},
    {"a byte", "verify DIR", "block 0 of 1 is corrupt", 8000, 1},
    {"a byte", "export --to=safetensors --output=DIR DIR", "block 0 of 1 is corrupt",
     8000, 1},
    {"its head", "ls DIR", "the files of 1 of 3 ranks are gone or too short", 20, 1},
    {"its end", "ls DIR", "the files of 1 of 3 ranks are gone or too short", -1, 1},
    {"its end", "verify DIR", "rank 1 of step 200", -1, 1},
};

static void what_is_wrong_with_files_by_name_is_told(void **state)
{
    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
        const struct named *row = &named[i];
        char path[128];

        print_message("%s, %s\n", row->name, row->words);
        dlr_format(path, sizeof(path), "%s/r1-200.safetensors", dir);
        if (row->at > 0)
            flip_bit(dir, "r1-200.safetensors", row->at);
        else
            assert_int_equal(row->at ? truncate(path, 6000) : unlink(path), 0);
        assert_int_equal(ckpt(row->words), row->code);
        assert_non_null(strstr(text, row->says));
        put_named(1, 200);
    }
}

static void two_kinds_in_one_directory_are_told(void **state)
{
    put_named(0, 300);
    put_named(1, 300);
    assert_int_equal(ckpt("ls DIR"), 0);
    assert_non_null(strstr(text, "ignoring 2 files of a program without a job"));
    assert_null(strstr(text, "300"));
    assert_int_equal(remove_dir(NULL), 0);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(ckpt("ls DIR"), 1);
    assert_non_null(
        strstr(text, "has no manifest, and no file of a program without a job"));
}

static void wrong_words_cost_one_line(void **state)
{
    static const struct {
        const char *words, *says;
    } rows[] = {
        {"", "one of ls, verify, export and rm is missing"},
        {"verfy DIR", "did you mean 'verify'"},
        {"frobnicate", "must be ls, verify, export or rm"},
        {"ls DIR DIR", "one argument too many"},
        {"rm DIR", "rm needs --step=N"},
        {"rm --step=x DIR", "--step=x: must be a number"},
        {"export DIR", "export needs --to=safetensors or --to=dcp, and --output=DIR"},
        {"export --to=zip DIR", "--to=zip: must be safetensors or dcp"},
        {"ls --output=/x DIR", "belong to export"},
        {"verify --json DIR", "--json belongs to ls"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("row '%s'\n", rows[i].words);
        assert_int_equal(ckpt(rows[i].words), DLR_CLI_USAGE);
        assert_non_null(strstr(text, rows[i].says));
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    }
    assert_int_equal(ckpt("ls /nowhere/at/all"), 1);
    assert_non_null(strstr(text, "cannot open '/nowhere/at/all'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ls_shows_what_is_there, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(verify_finds_the_spoilt_byte, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_others_have_named_steers_no_terminal,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(export_writes_only_what_is_right, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(export_puts_together_what_a_node_kept_once,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_terminal_sees_how_far_it_is, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(rm_removes_one, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(
            files_without_a_manifest_are_known_by_their_names, make_named_dir,
            remove_dir),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_files_by_name_is_told,
                                        make_named_dir, remove_dir),
        cmocka_unit_test_setup_teardown(two_kinds_in_one_directory_are_told, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(wrong_words_cost_one_line, make_dir,
                                        remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
