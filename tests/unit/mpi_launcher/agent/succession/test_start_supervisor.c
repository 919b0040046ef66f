/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_install_path_sibling stand-ins */
/* What a supervisor that an agent starts is given: a shell stands in for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/succession/succession_state.h"

static char dir[64];
static struct dlr_agent_self self;
static struct dlr_agent_succession su = {.self = &self};

int __wrap_dlr_install_path_sibling(const char *name, char *buf, size_t size);
int __wrap_dlr_install_path_sibling(const char *name, char *buf, size_t size)
{
    assert_string_equal(name, "dlrover-supervisor");
    return dlr_format(buf, size, "/bin/sh");
}

static int make_dir(void **state)
{
    dlr_format(dir, sizeof(dir), "/tmp/dlr-start-XXXXXX");
    assert_non_null(mkdtemp(dir));
    dlr_format(self.node, sizeof(self.node), "n2");
    return dlr_format(self.conf.run_dir, sizeof(self.conf.run_dir), "%s", dir);
}

static int remove_dir(void **state)
{
    char command[96];

    dlr_format(command, sizeof(command), "rm -r '%s'", dir);
    return system(command);
}

/* Its stdout to out ("": a pipe of the lost host); what the file name then holds. */
static void run(const char *out, const char *name, char *ret, size_t size)
{
    static const char words[] =
        "read -r held </proc/self/fd/9; echo $PWD $SLURMD_NODENAME $GIVEN $held";
    DLR_AUTO_JSON json_t *start =
        json_pack("{s:[s,s,s],s:[s,s],s:s,s:s,s:s,s:s}", "argv", "dlrover-supervisor",
                  "-c", words, "env", "SLURMD_NODENAME=n1", "GIVEN=it", "cwd", "/",
                  "in", "", "out", out, "err", "");
    DLR_AUTO_CLOSE int fd = memfd_create("state", MFD_CLOEXEC);
    struct dlr_err err = {0};
    char path[128];
    int pidfd, status;
    size_t n;
    pid_t pid;
    FILE *f;

    assert_int_equal(write(fd, "kept\n", 5), 5);
    assert_int_equal(dlr_agent_start_supervisor(&su, start, fd, &pid, &pidfd, &err), 0);
    close(pidfd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "r");
    assert_non_null(f);
    n = fread(ret, 1, size - 1, f);
    ret[n] = '\0';
    fclose(f);
}

static void it_has_words_environment_directory_and_state_of_the_former_one(void **state)
{
    char path[96], text[256];
    FILE *f;

    dlr_format(path, sizeof(path), "%s/out.1", dir);
    f = fopen(path, "w");
    fputs("before\n", f);
    fclose(f);
    run(path, "out.1", text, sizeof(text));
    assert_string_equal(text, "before\n/ n2 it kept\n");
}

static void what_a_pipe_read_goes_on_in_a_file_of_the_run(void **state)
{
    char text[256];

    run("", "output", text, sizeof(text));
    assert_string_equal(text, "/ n2 it kept\n");
    run("/nowhere/of/the/lost/host", "output", text, sizeof(text));
    assert_string_equal(text, "/ n2 it kept\n/ n2 it kept\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            it_has_words_environment_directory_and_state_of_the_former_one),
        cmocka_unit_test(what_a_pipe_read_goes_on_in_a_file_of_the_run),
    };

    return cmocka_run_group_tests_name("start_supervisor", tests, make_dir, remove_dir);
}
