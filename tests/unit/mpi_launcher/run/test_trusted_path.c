/* SPDX-License-Identifier: Apache-2.0 */
/* Directories above a job's state: who else could rename something in them is refused,
 * nobody who could not is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/run/trusted_path.h"

#define OTHER 54321 /* uid and gid of somebody else, whom no database knows */

static char top[64];

static int setup(void **state)
{
    dlr_format(top, sizeof(top), "/tmp/dlr-trusted-XXXXXX");
    return mkdtemp(top) ? 0 : -1;
}

static int teardown(void **state)
{
    char cmd[128];

    dlr_format(cmd, sizeof(cmd), "rm -rf '%s'", top);
    return system(cmd);
}

static const char *at(const char *name)
{
    static char path[4][256];
    static unsigned next;

    next = (next + 1) % 4;
    dlr_format(path[next], sizeof(path[next]), "%s/%s", top, name);
    return path[next];
}

static void make_dir(const char *name, mode_t mode)
{
    assert_int_equal(dlr_mkdirs(at(name), 0700, NULL), 0);
    assert_int_equal(chmod(at(name), mode), 0);
}

static int look(const char *name, const char *home, struct dlr_err *err)
{
    struct dlr_trusted_user user = {geteuid(), (gid_t)-1, "", home};

    return dlr_trusted_path(at(name), &user, err);
}

static void what_others_can_write_is_refused_at_any_depth(void **state)
{
    static const struct {
        const char *dir;
        mode_t mode;
        int rc;
    } rows[] = {
        {"a", 0755, 0},      {"a", 0777, -EPERM},    {"a", 01777, 0},
        {"a", 02750, 0},     {"a/b", 0777, -EPERM},  {"a/b/c", 0777, -EPERM},
        {"a/b/c", 01777, 0}, {"a/b/c/job", 0777, 0}, /* the caller looks at that */
    };
    char want[512];
    struct dlr_err err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("%s %04o\n", rows[i].dir, rows[i].mode);
        make_dir("a/b/c/job", 0700);
        make_dir(rows[i].dir, rows[i].mode);
        assert_int_equal(look("a/b/c/job", "", &err), rows[i].rc);
        if (rows[i].rc < 0) {
            dlr_format(want, sizeof(want),
                       "'%s', in which the job's state would be, can be written by "
                       "others (mode %04o): take that away with chmod go-w or +t, or "
                       "name another --dlrover-state-dir",
                       at(rows[i].dir), rows[i].mode);
            assert_string_equal(err.text, want);
        }
        make_dir(rows[i].dir, 0700);
    }
}

static void links_are_followed_and_looked_at(void **state)
{
    struct dlr_err err;

    make_dir("real/deep/job", 0700);
    make_dir("open", 0777);
    assert_int_equal(symlink(at("real/deep"), at("here")), 0);
    assert_int_equal(symlink("../real/deep", at("open/there")), 0);
    assert_int_equal(symlink("real/../open/there", at("twice")), 0);
    assert_int_equal(look("here/job", "", &err), 0);
    assert_int_equal(look("here/../deep/job", "", &err), 0);
    assert_int_equal(look("open/there/job", "", &err), -EPERM); /* the link's place */
    assert_int_equal(look("twice/job", "", &err), -EPERM);
    make_dir("open", 0700);
    assert_int_equal(look("twice/job", "", &err), 0);
    make_dir("real", 0777); /* above where it leads */
    assert_int_equal(look("here/job", "", &err), -EPERM);
    assert_non_null(strstr(err.text, "/real'"));
}

/* Sites have home directories below what they like; who can change one's home is one.
 */
static void above_a_home_of_ones_own_nothing_counts(void **state)
{
    struct dlr_err err;

    make_dir("site/me/.dlrover/job", 0700);
    make_dir("site", 0777);
    make_dir("site/me", 0770);
    assert_int_equal(look("site/me/.dlrover/job", at("site/me"), &err), 0);
    make_dir("site/me/.dlrover", 0777);
    assert_int_equal(look("site/me/.dlrover/job", at("site/me"), &err), -EPERM);
    make_dir("site/me/.dlrover", 0700);
    make_dir("site/me", 0777);
    assert_int_equal(look("site/me/.dlrover/job", at("site/me"), &err), -EPERM);
}

static void need_root(void)
{
    if (geteuid() != 0) {
        print_message("only root can give a directory to somebody else\n");
        skip();
    }
}

static int look_as(const char *name, uid_t uid, gid_t gid, const char *user,
                   struct dlr_err *err)
{
    struct dlr_trusted_user one = {uid, gid, user, ""};

    return dlr_trusted_path(at(name), &one, err);
}

static void a_directory_of_somebody_else_is_refused(void **state)
{
    struct dlr_err err;

    need_root();
    make_dir("lab/me/job", 0755);
    assert_int_equal(chmod(top, 0755), 0);
    assert_int_equal(look_as("lab/me/job", OTHER, OTHER, "", &err), 0); /* root's */
    assert_int_equal(chown(at("lab"), OTHER + 1, OTHER), 0);
    assert_int_equal(look_as("lab/me/job", OTHER, OTHER, "", &err), -EPERM);
    assert_non_null(strstr(err.text, "is of uid 54322: who can put another state"));
    make_dir("lab", 01777); /* the owner may rename in it all the same */
    assert_int_equal(chown(at("lab"), OTHER + 1, OTHER), 0);
    assert_int_equal(look_as("lab/me/job", OTHER, OTHER, "", &err), -EPERM);
}

/* Groups of users' own, with a umask of 002: daemon is one that each system has. */
static void a_group_of_ones_own_may_write(void **state)
{
    static const struct {
        gid_t owner, own;
        const char *name;
        int rc;
    } rows[] = {{1, 1, "daemon", 0},
                {1, 1, "alice", -EPERM},  /* shared by those who have it first */
                {1, 2, "daemon", -EPERM}, /* she is in it, but it is not hers */
                {OTHER, OTHER, "daemon", -EPERM},
                {1, 1, "", -EPERM},
                {0, 1, "daemon", 0}};
    struct dlr_err err;

    need_root();
    make_dir("me/job", 0700);
    assert_int_equal(chmod(top, 0755), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("group %u of %s\n", rows[i].owner, rows[i].name);
        assert_int_equal(chown(at("me"), 1, rows[i].owner), 0);
        assert_int_equal(chmod(at("me"), 02775), 0);
        assert_int_equal(look_as("me/job", 1, rows[i].own, rows[i].name, &err),
                         rows[i].rc);
    }
}

/* Entries of an access list beside the three of the mode; its mask is rwx. */
static int set_list(const char *path, unsigned group, unsigned tag, unsigned id,
                    unsigned perm)
{
    struct {
        struct posix_acl_xattr_header head;
        struct posix_acl_xattr_entry entry[5];
    } acl = {{htole32(POSIX_ACL_XATTR_VERSION)},
             {{htole16(ACL_USER_OBJ), htole16(7), htole32(-1)}}};
    struct posix_acl_xattr_entry named = {htole16(tag), htole16(perm), htole32(id)},
                                 ours = {htole16(ACL_GROUP_OBJ), htole16(group),
                                         htole32(-1)};

    acl.entry[1] = tag == ACL_USER ? named : ours;
    acl.entry[2] = tag == ACL_USER ? ours : named;
    acl.entry[3] =
        (struct posix_acl_xattr_entry){htole16(ACL_MASK), htole16(7), htole32(-1)};
    acl.entry[4] = (struct posix_acl_xattr_entry){htole16(ACL_OTHER), 0, htole32(-1)};
    return setxattr(path, "system.posix_acl_access", &acl, sizeof(acl), 0);
}

/* A mode of 770 may mean that the backup's group reads. */
static void of_an_access_list_counts_who_may_write(void **state)
{
    static const struct {
        unsigned group, tag, id, perm;
        int rc;
    } rows[] = {
        {5, ACL_USER, OTHER, 5, 0},      {5, ACL_USER, OTHER, 7, -EPERM},
        {5, ACL_GROUP, OTHER, 5, 0},     {5, ACL_GROUP, OTHER, 7, -EPERM},
        {7, ACL_USER, OTHER, 5, -EPERM},
    };
    struct dlr_err err;
    struct stat st;

    make_dir("me/job", 0700);
    if (geteuid() == 0)
        assert_int_equal(chown(at("me"), 0, OTHER), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("group %u, entry %u of %u with %u\n", rows[i].group, rows[i].tag,
                      rows[i].id, rows[i].perm);
        if (set_list(at("me"), rows[i].group, rows[i].tag, rows[i].id, rows[i].perm) <
            0) {
            print_message("this file system has no access lists\n");
            skip();
        }
        assert_int_equal(stat(at("me"), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0770);
        assert_int_equal(look("me/job", "", &err), rows[i].rc);
    }
}

static void in_a_container_root_may_have_no_number(void **state)
{
    int status, fd;
    pid_t pid;

    need_root();
    make_dir("me/job", 0755);
    assert_int_equal(chmod(top, 0755) | chown(at("me"), 1, 1), 0);
    assert_int_equal(chown(at("me/job"), 1, 1), 0);
    pid = fork();
    if (pid == 0) {
        struct dlr_err err;

        if (setgid(1) < 0 || setuid(1) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ||
            unshare(CLONE_NEWUSER) < 0 ||
            (fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC)) < 0 ||
            write(fd, "1 1 1", 5) != 5)
            _exit(77);
        _exit(-look_as("me/job", 1, 1, "", &err));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* no user namespaces here */
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_others_can_write_is_refused_at_any_depth,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(links_are_followed_and_looked_at, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(above_a_home_of_ones_own_nothing_counts, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_directory_of_somebody_else_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_group_of_ones_own_may_write, setup, teardown),
        cmocka_unit_test_setup_teardown(of_an_access_list_counts_who_may_write, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(in_a_container_root_may_have_no_number, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
