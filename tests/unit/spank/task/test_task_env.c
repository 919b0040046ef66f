/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "spank/task/preload.h"
#include "spank/task/program.h"
#include "spank/task/task_env.h"

static const struct dlr_task_round round4 = {
    .round = 2,
    .socket = "/dev/shm/x/agent.sock",
    .nodes = "n3,n1,n4,n2",
    .tasks = "2,2,1,3",
    .port = 29500,
    .fd = 64,
    .shape = "SLURM_DISTRIBUTION=plane SLURM_DIST_PLANESIZE=2 SLURM_GPUS=a100:8 "
             "SLURM_GPUS_PER_NODE=",
    .per_node = true,
};

static const char *value_of(const struct dlr_task_env *env, const char *name)
{
    for (unsigned i = 0; i < env->count; i++)
        if (dlr_streq(env->vars[i].name, name))
            return env->vars[i].value ? env->vars[i].value : "(out)";
    return "(none)";
}

static void each_rank_sees_its_place(void **state)
{
    static const struct {
        unsigned rank;
        const char *node, *group, *local, *local_world;
    } rows[] = {
        {0, "n3", "0", "0", "2"}, {1, "n3", "0", "1", "2"}, {2, "n1", "1", "0", "2"},
        {4, "n4", "2", "0", "1"}, {5, "n2", "3", "0", "3"}, {7, "n2", "3", "2", "3"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_task_self self = {rows[i].rank, 8, rows[i].node};
        struct dlr_task_env env;
        char rank[16];

        assert_int_equal(dlr_task_env_make(&round4, &self, &env, NULL), 0);
        dlr_format(rank, sizeof(rank), "%u", rows[i].rank);
        assert_string_equal(value_of(&env, "RANK"), rank);
        assert_string_equal(value_of(&env, "GROUP_RANK"), rows[i].group);
        assert_string_equal(value_of(&env, "SLURM_NODEID"), rows[i].group);
        assert_string_equal(value_of(&env, "LOCAL_RANK"), rows[i].local);
        assert_string_equal(value_of(&env, "LOCAL_WORLD_SIZE"), rows[i].local_world);
        dlr_task_env_free(&env);
    }
}

/* Ranks 0, 2 and 4 on n3, 1 and 3 on n1: Slurm numbers a node's tasks by rank. */
static void dealt_ranks_find_their_node_by_name(void **state)
{
    static const struct {
        unsigned rank;
        const char *node, *slurm_local, *group, *local; /* group NULL: refused */
    } rows[] = {
        {0, "n3", "0", "0", "0"},   {1, "n1", "0", "1", "0"},
        {2, "n3", "1", "0", "1"},   {4, "n3", "2", "0", "2"},
        {3, "n1", "1", "1", "1"},   {3, "n9", "1", NULL, NULL},
        {3, "n1", "2", NULL, NULL}, {3, "n1", NULL, NULL, NULL},
        {3, NULL, "1", NULL, NULL},
    };
    struct dlr_task_round round = round4;

    round.nodes = "n3,n1";
    round.tasks = "3,2";
    round.dealt = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_task_self self = {rows[i].rank, 5, rows[i].node,
                                     rows[i].slurm_local};
        struct dlr_task_env env;
        int rc = dlr_task_env_make(&round, &self, &env, NULL);

        assert_int_equal(rc, rows[i].group ? 0 : -EINVAL);
        if (rc < 0)
            continue;
        assert_string_equal(value_of(&env, "GROUP_RANK"), rows[i].group);
        assert_string_equal(value_of(&env, "LOCAL_RANK"), rows[i].local);
        assert_string_equal(value_of(&env, "DLROVER_DEALT"), "(out)");
        dlr_task_env_free(&env);
    }
}

static void the_round_is_the_same_for_all(void **state)
{
    static const char *const want[][2] = {
        {"SLURM_JOB_NODELIST", "n3,n1,n4,n2"},
        {"SLURM_NODELIST", "n3,n1,n4,n2"},
        {"SLURM_STEP_NODELIST", "n3,n1,n4,n2"},
        {"SLURM_JOB_NUM_NODES", "4"},
        {"SLURM_NNODES", "4"},
        {"SLURM_STEP_NUM_NODES", "4"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_NPROCS", "8"},
        {"SLURM_STEP_NUM_TASKS", "8"},
        {"SLURM_TASKS_PER_NODE", "2(x2),1,3"},
        {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1,3"},
        {"WORLD_SIZE", "8"},
        {"GROUP_WORLD_SIZE", "4"},
        {"MASTER_ADDR", "n3"},
        {"MASTER_PORT", "29500"},
        {"DLROVER_AGENT_FD", "64"},
        {"DLROVER_SUPERVISED", "(none)"}, /* stays as it is */
        {"SLURM_DISTRIBUTION", "plane"},
        {"SLURM_DIST_PLANESIZE", "2"},
        {"SLURM_GPUS", "a100:8"},
        {"SLURM_GPUS_PER_NODE", "(out)"},
        {"DLROVER_SHAPE", "(out)"},
        {"SLURM_NTASKS_PER_NODE", "3"},
        {"DLROVER_PER_NODE", "(out)"},
        {"DLROVER_CRED", "(out)"},
        {"DLROVER_ROUND_NODES", "(out)"},
        {"DLROVER_TASKS", "(out)"},
        {"SLURM_HOSTFILE", "(out)"},
        {"SLURM_OVERLAP", "(out)"},
        {"DLROVER_ROUND", "(none)"},
    };
    const struct dlr_task_self self = {3, 8, "n1"};
    struct dlr_task_env env;

    assert_int_equal(dlr_task_env_make(&round4, &self, &env, NULL), 0);
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
        assert_string_equal(value_of(&env, want[i][0]), want[i][1]);
    dlr_task_env_free(&env);
}

static void a_round_that_does_not_fit_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *nodes, *tasks;
        struct dlr_task_self self;
        const char *text;
    } rows[] = {
        {"n1,n2", "1,1", {0, 3, "n1"}, "the step has 3 tasks, the rank map 2"},
        {"n1,n2", "1,1", {1, 2, "n1"}, "rank 1 runs on n1, the rank map says n2"},
        {"n1,n2", "1,1", {2, 2, "n1"}, "rank 2 is not in the rank map of 2"},
        {"n1,n2", "1", {0, 1, "n1"}, "bad rank map: nodes 'n1,n2', tasks '1'"},
        {"n1", "1,1", {0, 1, "n1"}, "bad rank map: nodes 'n1', tasks '1,1'"},
        {"n1,,n2", "1,1", {0, 2, "n1"}, "bad rank map: nodes 'n1,,n2', tasks '1,1'"},
        {"n1", "-1", {0, 1, "n1"}, "bad rank map: nodes 'n1', tasks '-1'"},
        {"n1,n2",
         "16777216,1",
         {0, 1, "n1"},
         "bad rank map: nodes 'n1,n2', tasks '16777216,1'"},
        {"", "", {0, 0, NULL}, "rank 0 is not in the rank map of 0"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_task_round r = {.nodes = rows[i].nodes, .tasks = rows[i].tasks};
        struct dlr_task_env env;
        struct dlr_err err = {0};

        assert_int_equal(dlr_task_env_make(&r, &rows[i].self, &env, &err), -EINVAL);
        assert_string_equal(err.text, rows[i].text);
    }
}

static void without_a_node_name_and_a_port_the_rest_is_made(void **state)
{
    const struct dlr_task_round r = {.nodes = "n1", .tasks = "1"};
    const struct dlr_task_self self = {0, 1, NULL};
    struct dlr_task_env env;

    assert_int_equal(dlr_task_env_make(&r, &self, &env, NULL), 0);
    assert_string_equal(value_of(&env, "MASTER_PORT"), "(none)");
    assert_string_equal(value_of(&env, "SLURM_TASKS_PER_NODE"), "1");
    dlr_task_env_free(&env);
}

/* As of 16,384 nodes: "n[00002-16384,00001]" in place of 114,687 bytes. */
static void a_folded_list_has_the_same_places(void **state)
{
    char tasks[2 * 16384];
    const struct dlr_task_round r = {.nodes = "n[00002-16384,00001]", .tasks = tasks};
    const struct dlr_task_self self = {16383, 16384, "n00001"};
    struct dlr_task_env env;

    for (unsigned i = 0; i < sizeof(tasks); i++)
        tasks[i] = i % 2 ? ',' : '1';
    tasks[sizeof(tasks) - 1] = '\0';
    assert_int_equal(dlr_task_env_make(&r, &self, &env, NULL), 0);
    assert_string_equal(value_of(&env, "GROUP_RANK"), "16383");
    assert_string_equal(value_of(&env, "MASTER_ADDR"), "n00002");
    assert_string_equal(value_of(&env, "SLURM_JOB_NODELIST"), r.nodes);
    dlr_task_env_free(&env);
}

static void a_step_is_a_round_only_when_all_is_said(void **state)
{
    static const struct {
        bool want;
        char *env[6];
    } rows[] = {
        {false, {NULL}},
        {true,
         {"DLROVER_ROUND=7", "DLROVER_AGENT_SOCKET=/s", "DLROVER_ROUND_NODES=a",
          "DLROVER_TASKS=1", "DLROVER_MASTER_PORT=29", NULL}},
        {true,
         {"DLROVER_ROUND=7", "DLROVER_AGENT_SOCKET=/s", "DLROVER_ROUND_NODES=a",
          "DLROVER_TASKS=1", NULL}},
        {false,
         {"DLROVER_ROUND=7", "DLROVER_AGENT_SOCKET=/s", NULL}}, /* inside a task */
        {false, {"DLROVER_ROUND_NODES=a", "DLROVER_TASKS=1", "DLROVER_ROUND=7", NULL}},
        {false,
         {"DLROVER_ROUND=x", "DLROVER_AGENT_SOCKET=/s", "DLROVER_ROUND_NODES=a",
          "DLROVER_TASKS=1", NULL}},
        {false,
         {"DLROVER_ROUND=7", "DLROVER_AGENT_SOCKET=/s", "DLROVER_ROUND_NODES=a",
          "DLROVER_TASKS=1", "DLROVER_MASTER_PORT=65536", NULL}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_task_round r = {0};

        assert_int_equal(dlr_task_round_find((char *const *)rows[i].env, &r),
                         rows[i].want);
        assert_int_equal(r.round, rows[i].want ? 7 : 0);
    }
}

/* Workers that torchrun restarts on several nodes; what the user says stays. */
static void torchrun_keeps_its_store_to_itself_unless_told_otherwise(void **state)
{
    static const struct {
        char *nodes, *tasks, *said;
        const char *want;
    } rows[] = {
        {"DLROVER_ROUND_NODES=n1,n2", "DLROVER_TASKS=1,1", NULL, "1"},
        {"DLROVER_ROUND_NODES=n1,n2", "DLROVER_TASKS=1,1",
         "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=0", "(none)"},
        {"DLROVER_ROUND_NODES=n1", "DLROVER_TASKS=2", NULL, "(none)"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char *const vars[] = {"DLROVER_ROUND=7", "DLROVER_AGENT_SOCKET=/s",
                              rows[i].nodes,     rows[i].tasks,
                              rows[i].said,      NULL};
        const struct dlr_task_self self = {0, 2, "n1"};
        struct dlr_task_round round;
        struct dlr_task_env env;

        assert_true(dlr_task_round_find(vars, &round));
        assert_int_equal(dlr_task_env_make(&round, &self, &env, NULL), 0);
        assert_string_equal(value_of(&env, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"),
                            rows[i].want);
        dlr_task_env_free(&env);
    }
}

/* As long as DNS allows a label and a name. */
static void nodes_have_long_names(void **state)
{
    char one[64], other[256], nodes[512], text[600];
    char *const vars[] = {text,
                          "DLROVER_ROUND=7",
                          "DLROVER_AGENT_SOCKET=/s",
                          "DLROVER_TASKS=1,1",
                          "DLROVER_MASTER_PORT=20007",
                          NULL};
    const struct dlr_task_self self = {1, 2, one};
    struct dlr_task_round round;
    struct dlr_task_env env;

    memset(one, 'a', sizeof(one));
    memset(other, 'b', sizeof(other));
    one[sizeof(one) - 1] = other[sizeof(other) - 1] = '\0';
    snprintf(nodes, sizeof(nodes), "%s,%s", other, one);
    snprintf(text, sizeof(text), "DLROVER_ROUND_NODES=%s", nodes);
    assert_true(dlr_task_round_find(vars, &round));
    assert_int_equal(dlr_task_env_make(&round, &self, &env, NULL), 0);
    assert_string_equal(value_of(&env, "MASTER_ADDR"), other);
    assert_string_equal(value_of(&env, "RANK"), "1");
    assert_string_equal(value_of(&env, "SLURM_JOB_NODELIST"), nodes);
    dlr_task_env_free(&env);
}

/* A program as a linker lays it out: head, segments, loader, dynamic section, names. */
struct image {
    ElfW(Ehdr) head;
    ElfW(Phdr) segments[3];
    char loader[DLR_PROGRAM_LOADER];
    ElfW(Dyn) dynamic[8];
    char names[256];
};

#define IMAGE_AT 0x400000u

static void make_image(struct image *m, const char *loader, const char *const needed[3])
{
    size_t used = 1;

    memset(m, 0, sizeof(*m));
    memcpy(m->head.e_ident, ELFMAG, SELFMAG);
    m->head.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    m->head.e_ident[EI_DATA] =
        *(const char *)(const int[]){1} ? ELFDATA2LSB : ELFDATA2MSB;
    m->head.e_phentsize = sizeof(*m->segments);
    m->head.e_phoff = offsetof(struct image, segments);
    m->head.e_phnum = 3;
    m->segments[0] =
        (ElfW(Phdr)){.p_type = PT_LOAD, .p_vaddr = IMAGE_AT, .p_filesz = sizeof(*m)};
    m->segments[1] = (ElfW(Phdr)){.p_type = PT_INTERP,
                                  .p_offset = offsetof(struct image, loader),
                                  .p_filesz = strlen(loader) + 1};
    m->segments[2] = (ElfW(Phdr)){.p_type = PT_DYNAMIC,
                                  .p_offset = offsetof(struct image, dynamic),
                                  .p_filesz = sizeof(m->dynamic)};
    if (!*loader)
        m->segments[1].p_type = PT_NULL;
    strcpy(m->loader, loader);
    for (size_t i = 0; i < 3 && needed[i]; i++) {
        m->dynamic[i] = (ElfW(Dyn)){.d_tag = DT_NEEDED, .d_un = {used}};
        strcpy(m->names + used, needed[i]);
        used += strlen(needed[i]) + 1;
    }
    m->dynamic[4] = m->dynamic[5] = (ElfW(Dyn)){.d_tag = DT_STRTAB};
    for (size_t i = 0; i < 4; i++)
        if (!m->dynamic[i].d_tag)
            m->dynamic[i].d_tag = DT_DEBUG;
    m->dynamic[4].d_un.d_ptr = IMAGE_AT + offsetof(struct image, names);
    m->dynamic[5] = (ElfW(Dyn)){.d_tag = DT_STRSZ, .d_un = {used}};
}

static void put_file(const char *path, const void *bytes, size_t size, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* The loader that has started this test, as its own file names it. */
static void own_program(struct dlr_program *ret)
{
    int fd = open("/proc/self/exe", O_RDONLY);

    assert_int_equal(dlr_program_read(fd, ret), 0);
    close(fd);
}

struct preload_row {
    const char *what, *needed[3], *loader; /* loader NULL: this node's; "": static */
    mode_t mode;
    const char *vars[3], *want; /* "LIB": the library; a text: the reason */
};

#define OTHER_LOADER "its loader '/bin/sh' is not this node's"
static const struct preload_row preload_rows[] = {
    {"Open MPI",
     {"libc.so.6", "libmpi.so.40"},
     NULL,
     0755,
     {"DLROVER_WATCH=auto"},
     "LIB"},
    {"its Fortran alone",
     {"libmpi_mpifh.so.40"},
     NULL,
     0755,
     {"DLROVER_WATCH=auto"},
     "LIB"},
    {"Debian's MPICH", {"libmpich.so.12"}, NULL, 0755, {"DLROVER_WATCH=auto"}, "LIB"},
    {"Intel MPI", {"libmpifort.so.12"}, NULL, 0755, {"DLROVER_WATCH=auto"}, "LIB"},
    {"the user's go first",
     {"libmpi.so.40"},
     NULL,
     0755,
     {"DLROVER_WATCH=auto", "LD_PRELOAD=/x/libdarshan.so"},
     "/x/libdarshan.so:LIB"},
    {"an empty list",
     {"libmpi.so.40"},
     NULL,
     0755,
     {"DLROVER_WATCH=auto", "LD_PRELOAD="},
     "LIB"},
    {"no MPI",
     {"libc.so.6", "libmpirical.so"},
     NULL,
     0755,
     {"DLROVER_WATCH=auto"},
     "'PROGRAM' is not linked with MPI"},
    {"all", {"libc.so.6"}, NULL, 0755, {"DLROVER_WATCH=all"}, "LIB"},
    {"off", {"libmpi.so.40"}, NULL, 0755, {NULL}, "nobody asks for it"},
    {"linked statically",
     {"libmpi.so.40"},
     "",
     0755,
     {"DLROVER_WATCH=all"},
     "'PROGRAM' is no program that a loader starts"},
    {"another libc",
     {"libmpi.so.40"},
     "/bin/sh",
     0755,
     {"DLROVER_WATCH=all"},
     OTHER_LOADER},
    {"setuid",
     {"libmpi.so.40"},
     NULL,
     04755,
     {"DLROVER_WATCH=all"},
     "the program runs with other rights"},
    {"setgid",
     {"libmpi.so.40"},
     NULL,
     02755,
     {"DLROVER_WATCH=all"},
     "the program runs with other rights"},
    {"AddressSanitizer",
     {"libasan.so.8", "libmpi.so.40"},
     NULL,
     0755,
     {"DLROVER_WATCH=auto"},
     "a sanitizer must be loaded first"},
    {"the user has it",
     {"libmpi.so.40"},
     NULL,
     0755,
     {"DLROVER_WATCH=auto", "LD_PRELOAD=/y/libdlrover-mpi.so"},
     "the user preloads it himself"},
};

/* text with PROGRAM and LIB in full. */
static const char *in_full(const char *text, const char *dir, char *buf, size_t size)
{
    const char *lib = strstr(text, "LIB"), *program = strstr(text, "PROGRAM");

    if (lib)
        dlr_format(buf, size, "%.*s%s/libdlrover-mpi.so", (int)(lib - text), text, dir);
    else if (program)
        dlr_format(buf, size, "'%s/a b%s", dir, program + strlen("PROGRAM"));
    else
        dlr_format(buf, size, "%s", text);
    return buf;
}

static void preload(const char *dir, const struct preload_row *row)
{
    char path[128], want[256];
    struct dlr_task_env env = {0};
    struct dlr_err err = {0};
    struct dlr_program self;
    struct dlr_loader own;
    struct image image;
    int rc;

    print_message("  %s\n", row->what);
    own_program(&self);
    dlr_preload_own_loader(&own);
    make_image(&image, row->loader ? row->loader : self.loader, row->needed);
    dlr_format(path, sizeof(path), "%s/a b", dir);
    put_file(path, &image, sizeof(image), row->mode);
    rc = dlr_task_preload(&own, dir, path, (char *const *)row->vars, &env, &err);
    assert_string_equal(rc == 0 ? value_of(&env, "LD_PRELOAD") : err.text,
                        in_full(row->want, dir, want, sizeof(want)));
    assert_int_equal(env.count, rc == 0);
    dlr_task_env_free(&env);
    unlink(path);
}

static void programs_linked_with_mpi_are_watched_where_nobody_hears_of_it(void **state)
{
    char dir[] = "/tmp/dlr-preload.XXXXXX", library[64];

    assert_non_null(mkdtemp(dir));
    dlr_format(library, sizeof(library), "%s/libdlrover-mpi.so", dir);
    put_file(library, "", 0, 0644);
    for (size_t i = 0; i < sizeof(preload_rows) / sizeof(*preload_rows); i++)
        preload(dir, &preload_rows[i]);
    unlink(library);
    rmdir(dir);
}

/* By PATH, through a script, and what is no program at all. */
static void the_program_is_the_one_that_is_executed(void **state)
{
    char dir[] = "/tmp/dlr-preload.XXXXXX", library[64], script[64], fifo[64], path[64];
    char watch[] = "DLROVER_WATCH=all", *const env[] = {watch, path, NULL};
    const struct {
        const char *program;
        int want;
    } rows[] = {
        {"script", 0},   {"sh", 0},      {"nobody", -ENOENT}, {"/nowhere", -ENOENT},
        {fifo, -EINVAL}, {dir, -EINVAL}, {library, -ENOEXEC}, {"/dev/zero", -EINVAL},
    };
    struct dlr_loader own;

    assert_non_null(mkdtemp(dir));
    dlr_format(path, sizeof(path), "PATH=/nowhere:%s:/bin", dir);
    dlr_format(library, sizeof(library), "%s/libdlrover-mpi.so", dir);
    dlr_format(script, sizeof(script), "%s/script", dir);
    dlr_format(fifo, sizeof(fifo), "%s/fifo", dir);
    put_file(library, "", 0, 0644);
    put_file(script, "#! /bin/sh -e\n", 14, 0755);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    dlr_preload_own_loader(&own);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_task_env vars = {0};

        print_message("  %s\n", rows[i].program);
        assert_int_equal(dlr_task_preload(&own, dir, rows[i].program, env, &vars, NULL),
                         rows[i].want);
        dlr_task_env_free(&vars);
    }
    unlink(library); /* as in a container */
    assert_int_equal(
        dlr_task_preload(&own, dir, "sh", env, &(struct dlr_task_env){0}, NULL),
        -ENOENT);
    unlink(script);
    unlink(fifo);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_sees_its_place),
        cmocka_unit_test(dealt_ranks_find_their_node_by_name),
        cmocka_unit_test(the_round_is_the_same_for_all),
        cmocka_unit_test(a_round_that_does_not_fit_is_refused_with_the_reason),
        cmocka_unit_test(without_a_node_name_and_a_port_the_rest_is_made),
        cmocka_unit_test(a_folded_list_has_the_same_places),
        cmocka_unit_test(a_step_is_a_round_only_when_all_is_said),
        cmocka_unit_test(torchrun_keeps_its_store_to_itself_unless_told_otherwise),
        cmocka_unit_test(nodes_have_long_names),
        cmocka_unit_test(programs_linked_with_mpi_are_watched_where_nobody_hears_of_it),
        cmocka_unit_test(the_program_is_the_one_that_is_executed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
