/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=setuid */
/* A job's own tmpfs. Root alone can mount one, so this runs as root, in a mount
 * namespace of its own with an empty /run and /dev/shm.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "spank/node/cleanup.h"
#include "spank/node/container_tmpfs.h"
#include "spank/node/job_tmpfs.h"
#include "spank/node/kept_tmpfs.h"

#define OWN DLR_MEMORY_OWN "/3001-7"
#define NAME "dlrover-3001-7"
#define RUN DLR_MEMORY_ROOT "/" NAME "/a1b2-0"
#define LIMIT_MS 10000
#define BYTES (UINT64_C(4) << 20)

static const struct dlr_jobmem job = {.job = 7, .uid = 3001, .gid = 3001};
static bool can_mount;

static int start(void **state)
{
    can_mount = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
                mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount("none", "/run", "tmpfs", 0, "mode=755") == 0 &&
                mount("none", "/dev/shm", "tmpfs", 0, "mode=1777") == 0;
    return 0;
}

static int clean(void **state)
{
    if (can_mount)
        while (umount2(OWN, MNT_DETACH) == 0)
            ;
    rmdir(OWN);
    return 0;
}

static void mount_it(uint64_t bytes, bool keep)
{
    struct dlr_err err = {0};

    if (dlr_jobmem_mount(&job, bytes, keep, &err) < 0)
        fail_msg("%s", err.text);
}

static void mounted(uint64_t bytes)
{
    mount_it(bytes, false);
}

/* Runs fn as a user; what it returns is its exit status. */
static int as(uid_t uid, int (*fn)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(setgid(uid) < 0 || setuid(uid) < 0 ? 99 : fn());
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void only_the_agents_step_of_this_job_asks_for_it(void **state)
{
    static const struct {
        const char *env[3];
        bool wanted;
    } rows[] = {
        {{"DLROVER_SUPERVISED=7.0.a", "DLROVER_CRED=x"}, true},
        {{"DLROVER_SUPERVISED=7.0.a"}, false},
        {{"DLROVER_CRED=x"}, false},
        {{"DLROVER_SUPERVISED=70.0.a", "DLROVER_CRED=x"}, false},
        {{"DLROVER_SUPERVISED=7", "DLROVER_CRED=x"}, false},
        {{NULL}, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_int_equal(dlr_jobmem_wanted((char *const *)rows[i].env, 7),
                         rows[i].wanted);
}

static void its_size_is_of_the_jobs_memory(void **state)
{
    assert_int_equal(dlr_jobmem_bytes("100%", 64), 64 << 20);
    assert_int_equal(dlr_jobmem_bytes("25%", 64), 16 << 20);
    assert_int_equal(dlr_jobmem_bytes("1m", 64), 1 << 20);
    assert_int_equal(dlr_jobmem_bytes("4g", 64), 64 << 20); /* not more than it has */
    assert_true(dlr_jobmem_bytes("100%", 0) > 0);           /* no limit of Slurm's */
    assert_true(dlr_jobmem_bytes("100%", 0) <=
                (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2);
}

static int claim(void)
{
    char path[PATH_MAX];
    bool taken = true;

    if (dlr_memory_claim(RUN, path, sizeof(path), &taken, NULL) < 0 || taken)
        return 1;
    if (!dlr_streq(path, OWN "/" NAME "/a1b2-0"))
        return 2;
    return mkdir(path, 0700) < 0 ? 3 : 0;
}

static int find(void)
{
    char path[PATH_MAX];

    return dlr_memory_find(RUN "/agent.sock", path, sizeof(path)) < 0 ||
           !dlr_streq(path, OWN "/" NAME "/a1b2-0/agent.sock");
}

static int intrude(void)
{
    if (mkdir(OWN "/x", 0700) == 0 || open(OWN "/f", O_CREAT | O_WRONLY, 0600) >= 0)
        return 1;
    if (open(OWN "/" NAME, O_RDONLY) >= 0 || rename(OWN "/" NAME, OWN "/y") == 0)
        return 2;
    return rmdir(OWN) == 0 || mkdir(DLR_MEMORY_OWN "/1-1", 0700) == 0 ? 3 : 0;
}

static int fill(void)
{
    int fd = open(OWN "/" NAME "/fill", O_CREAT | O_WRONLY, 0600);

    return posix_fallocate(fd, 0, 2 * BYTES) != ENOSPC;
}

static void the_user_has_it_and_nobody_else(void **state)
{
    struct statvfs fs;
    struct stat st;

    if (!can_mount)
        skip();
    mounted(BYTES);
    assert_int_equal(statvfs(OWN, &fs), 0);
    assert_int_equal(fs.f_blocks * fs.f_frsize, BYTES);
    assert_int_equal(fs.f_flag & (ST_NODEV | ST_NOSUID | ST_NOEXEC),
                     ST_NODEV | ST_NOSUID | ST_NOEXEC);
    assert_int_equal(stat(OWN "/" NAME, &st), 0);
    assert_int_equal(st.st_uid, 3001);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(as(3001, claim), 0);
    assert_int_equal(as(3001, find), 0);
    assert_int_equal(as(3001, fill), 0);
    assert_int_equal(as(3001, intrude), 2); /* his own he may open */
    assert_int_equal(as(3002, intrude), 0);
    mounted(BYTES); /* another step of the job */
    assert_int_equal(access(OWN "/" NAME "/a1b2-0", F_OK), 0);
}

static void a_run_that_began_without_it_goes_on_without(void **state)
{
    char path[PATH_MAX];

    if (!can_mount)
        skip();
    assert_int_equal(mkdir(DLR_MEMORY_ROOT "/" NAME, 0700) | mkdir(RUN, 0700), 0);
    assert_int_equal(
        chown(DLR_MEMORY_ROOT "/" NAME, 3001, 3001) | chown(RUN, 3001, 3001), 0);
    mounted(BYTES);
    assert_int_equal(seteuid(3001), 0);
    assert_int_equal(dlr_memory_find(RUN, path, sizeof(path)), 0);
    assert_int_equal(seteuid(0), 0);
    assert_string_equal(path, RUN);
    assert_int_equal(rmdir(RUN) | rmdir(DLR_MEMORY_ROOT "/" NAME), 0);
}

/* What is not root's own doing is not taken for it. */
static void what_root_has_not_mounted_is_not_used(void **state)
{
    char path[PATH_MAX];

    if (!can_mount)
        skip();
    mkdir(DLR_MEMORY_OWN, 0755);
    assert_int_equal(mkdir(OWN, 0755), 0);
    assert_int_equal(dlr_memory_own(NAME, path, sizeof(path)), -ENOENT); /* no mount */
    assert_int_equal(mount("none", OWN, "tmpfs", 0, "mode=777"), 0);
    assert_int_equal(dlr_memory_own(NAME, path, sizeof(path)), -EPERM);
    assert_int_equal(chmod(OWN, 0755), 0);
    assert_int_equal(dlr_memory_own(NAME, path, sizeof(path)), 0);
    assert_int_equal(chown(OWN, 3001, 3001), 0);
    assert_int_equal(dlr_memory_own(NAME, path, sizeof(path)), -EPERM);
    assert_int_equal(chown(OWN, 0, 0) | chmod(DLR_MEMORY_OWN, 0777), 0);
    assert_int_equal(dlr_memory_own(NAME, path, sizeof(path)), -EPERM);
    assert_int_equal(chmod(DLR_MEMORY_OWN, 0755), 0);
}

static void the_epilog_takes_it_away_with_what_is_in_it(void **state)
{
    struct dlr_err err = {0};
    struct stat before, after;
    int file;

    if (!can_mount)
        skip();
    assert_int_equal(dlr_jobmem_umount(&job, LIMIT_MS, &err), 0); /* none there */
    mounted(BYTES);
    assert_int_equal(as(3001, claim), 0);
    assert_int_equal(symlink("/etc", OWN "/" NAME "/a1b2-0/link"), 0);
    file = open(OWN "/" NAME "/a1b2-0/p0", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(fchown(file, 3001, 3001), 0);
    assert_int_equal(stat("/etc", &before), 0);
    /* Somebody still has a file of it open, as a mount namespace elsewhere would. */
    assert_int_equal(dlr_jobmem_umount(&job, LIMIT_MS, &err), 0);
    assert_int_equal(access(OWN, F_OK), -1);
    assert_int_equal(fstat(file, &after), 0);
    assert_int_equal(after.st_nlink, 0); /* its memory goes with the descriptor */
    close(file);
    assert_int_equal(stat("/etc", &after), 0);
    assert_int_equal(before.st_mtime, after.st_mtime);
}

static char *agents[] = {"DLROVER_SUPERVISED=7.0.a", "DLROVER_CRED=x", NULL};
static char *others[] = {"DLROVER_SUPERVISED=7.0.a", NULL};

/* The namespaces of slurmstepd and of a container that was made before anything was
 * mounted.
 */
static void two_namespaces(int *ret_host, int *ret_container)
{
    *ret_host = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    *ret_container = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    assert_int_equal(setns(*ret_host, CLONE_NEWNS), 0);
}

static void a_container_made_before_sees_it(void **state)
{
    int host, container, tree;
    struct dlr_err err = {0};
    char path[PATH_MAX];

    if (!can_mount)
        skip();
    two_namespaces(&host, &container);
    assert_int_equal(dlr_jobview_open(agents, &job), -1); /* it has none yet */
    mounted(BYTES);
    assert_int_equal(dlr_jobview_open(others, &job), -1);
    tree = dlr_jobview_open(agents, &job);
    assert_true(tree >= 0);
    assert_int_equal(setns(container, CLONE_NEWNS), 0);
    assert_int_equal(dlr_memory_own(NAME, path, sizeof(path)), -ENOENT);
    assert_int_equal(dlr_jobview_show(&job, -1, &err), 0);
    assert_int_equal(dlr_memory_own(NAME, path, sizeof(path)), -ENOENT);
    for (unsigned twice = 0; twice < 2; twice++)
        assert_int_equal(dlr_jobview_show(&job, tree, &err), 0);
    assert_int_equal(as(3001, claim), 0);
    assert_int_equal(setns(host, CLONE_NEWNS), 0);
    assert_int_equal(as(3001, find), 0); /* what was made inside */
    assert_int_equal(dlr_jobmem_umount(&job, LIMIT_MS, &err), 0);
    assert_int_equal(access(OWN, F_OK), -1);
    assert_int_equal(setns(container, CLONE_NEWNS), 0);
    assert_int_equal(access(OWN, F_OK), -1);
    assert_int_equal(dlr_jobview_show(&job, tree, &err), -ENOENT);
    assert_non_null(strstr(err.text, "cannot show '" OWN "'"));
    assert_int_equal(
        setns(host, CLONE_NEWNS) | close(tree) | close(container) | close(host), 0);
}

#define MARK OWN ".kept"
#define KEPT_FILE OWN "/" NAME "/a1b2-0/r0.s0"

static int save(void)
{
    int fd = claim() ? -1 : open(KEPT_FILE, O_CREAT | O_WRONLY, 0600);

    return fd < 0 || write(fd, "state", 5) != 5;
}

static int stays(void)
{
    return !dlr_memory_is_kept(RUN);
}

/* As the epilog has it: the tmpfs with something in it. */
static void keep_it(int64_t keep_ms)
{
    mount_it(BYTES, true);
    assert_int_equal(as(3001, save), 0);
    assert_true(dlr_jobkeep_end(&job, keep_ms));
}

static void what_is_kept_is_there_for_the_requeued_job(void **state)
{
    if (!can_mount)
        skip();
    keep_it(LIMIT_MS);
    assert_int_equal(access(MARK, F_OK), 0);
    dlr_jobkeep_clear(job.job); /* another step of it */
    mount_it(BYTES, true);
    assert_int_equal(access(MARK, F_OK), -1);
    assert_int_equal(access(KEPT_FILE, F_OK), 0);
    assert_int_equal(as(3001, stays), 0);
    mounted(BYTES); /* the site has thought better of it */
    assert_int_equal(as(3001, stays), 1);
}

static void what_is_empty_is_not_kept(void **state)
{
    if (!can_mount)
        skip();
    mount_it(BYTES, true);
    assert_int_equal(as(3001, claim), 0);
    assert_false(dlr_jobkeep_end(&job, LIMIT_MS));
}

static void another_job_takes_it_away(void **state)
{
    struct dlr_err err = {0};

    if (!can_mount)
        skip();
    keep_it(LIMIT_MS);
    assert_int_equal(dlr_jobkeep_free(&job, 1, &err), 0); /* kept at another time */
    assert_int_equal(access(KEPT_FILE, F_OK), 0);
    dlr_jobkeep_clear(job.job + 1);
    assert_int_equal(access(OWN, F_OK), -1);
    assert_int_equal(access(MARK, F_OK), -1);
}

static void it_goes_when_its_time_is_over(void **state)
{
    struct pollfd gone = {.events = POLLIN};

    if (!can_mount)
        skip();
    mount_it(BYTES, true);
    gone.fd = inotify_init1(IN_CLOEXEC);
    assert_true(inotify_add_watch(gone.fd, DLR_MEMORY_OWN, IN_DELETE) >= 0);
    keep_it(1);
    while (access(MARK, F_OK) == 0) {
        char events[4096];

        assert_int_equal(poll(&gone, 1, LIMIT_MS), 1);
        assert_true(read(gone.fd, events, sizeof(events)) > 0);
    }
    assert_int_equal(access(OWN, F_OK), -1);
    close(gone.fd);
}

/* One line of /proc/self/mounts for the job's; a kernel that does not know the option
 * has none.
 */
static void it_has_huge_pages_where_the_kernel_knows_them(void **state)
{
    char line[4096];
    bool huge = false;
    FILE *f;

    if (!can_mount || access("/sys/kernel/mm/transparent_hugepage", F_OK) < 0)
        skip();
    mounted(1 << 20);
    f = fopen("/proc/self/mounts", "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        huge = huge || (strstr(line, OWN) && strstr(line, "huge=within_size"));
    fclose(f);
    assert_true(huge);
}

/* --- what a user can hold up ------------------------------------------------------ */

/* A file system of the user's that never answers, as he makes one with fusermount. The
 * descriptor that ends it; -1.
 */
static int mount_silent(const char *path)
{
    char options[96];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    dlr_format(options, sizeof(options),
               "fd=%d,rootmode=40000,user_id=3001,group_id=3001,allow_other", fd);
    if (fd >= 0 && mount("silent", path, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void a_file_system_of_the_users_is_not_waited_for(void **state)
{
    static const struct {
        const char *mounted;
        int rc;
    } rows[] = {
        {DLR_MEMORY_ROOT "/" NAME, -EXDEV}, /* in the job's place */
        {RUN, -EXDEV},                      /* below it */
        {OWN "/" NAME "/a1b2-0", 0},        /* in the job's own tmpfs */
    };

    if (!can_mount)
        skip();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        bool own = strncmp(rows[i].mounted, OWN, strlen(OWN)) == 0;
        struct dlr_err err = {0};
        int fuse;

        if (own) {
            mounted(BYTES);
            assert_int_equal(as(3001, claim), 0);
        } else {
            assert_int_equal(mkdir(DLR_MEMORY_ROOT "/" NAME, 0700) | mkdir(RUN, 0700),
                             0);
            assert_int_equal(chown(DLR_MEMORY_ROOT "/" NAME, 3001, 3001) |
                                 chown(RUN, 3001, 3001),
                             0);
        }
        fuse = mount_silent(rows[i].mounted);
        if (fuse < 0)
            skip(); /* no such device here */
        assert_int_equal(
            own ? dlr_jobmem_umount(&job, LIMIT_MS, &err)
                : dlr_node_cleanup_job(DLR_MEMORY_ROOT, 3001, 3001, 7, LIMIT_MS, &err),
            rows[i].rc);
        assert_int_equal(err.code, rows[i].rc);
        close(fuse); /* whoever waits for it is let go */
        umount2(rows[i].mounted, MNT_DETACH);
        rmdir(RUN);
        rmdir(DLR_MEMORY_ROOT "/" NAME);
    }
}

/* Root may write where he may not. */
static void what_the_user_may_not_remove_stays(void **state)
{
    struct dlr_err err;

    if (!can_mount)
        skip();
    assert_int_equal(mkdir(DLR_MEMORY_ROOT "/" NAME, 0700) | mkdir(RUN, 0500), 0);
    assert_int_equal(mknod(RUN "/p0", S_IFREG | 0600, 0), 0);
    assert_int_equal(
        chown(DLR_MEMORY_ROOT "/" NAME, 3001, 3001) | chown(RUN, 3001, 3001), 0);
    assert_int_equal(
        dlr_node_cleanup_job(DLR_MEMORY_ROOT, 3001, 3001, 7, LIMIT_MS, &err), -EACCES);
    assert_int_equal(chmod(RUN, 0700), 0);
    assert_int_equal(
        dlr_node_cleanup_job(DLR_MEMORY_ROOT, 3001, 3001, 7, LIMIT_MS, &err), 0);
}

/* Kernels before 5.6 do not know it. */
static void forbid_openat2(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof(code) / sizeof(*code), code};

    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

static const struct {
    const char *name;
    int flags, rc; /* 0: a descriptor */
} steps[] = {
    {"dir", O_RDONLY | O_DIRECTORY, 0},
    {"dir", O_PATH | O_DIRECTORY, 0},
    {"file", O_PATH, 0},
    {"file", O_PATH | O_DIRECTORY, -ENOTDIR},
    {"link", O_PATH, 0},
    {"link", O_RDONLY, -ELOOP},
    {"link", O_RDONLY | O_DIRECTORY, -ENOTDIR},
    {"none", O_PATH, -ENOENT},
    {"mount", O_RDONLY | O_DIRECTORY, -EXDEV},
    {"mount", O_PATH | O_DIRECTORY, -EXDEV},
};

/* The row that went otherwise, from 1. */
static int take_steps(int dir)
{
    for (unsigned i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        int fd = dlr_memory_step(dir, steps[i].name, steps[i].flags);

        if (steps[i].rc ? fd != steps[i].rc : fd < 0)
            return (int)i + 1;
    }
    return 0;
}

static void a_step_enters_no_mount_and_follows_no_link_on_old_kernels_too(void **state)
{
    char at[] = "/tmp/dlr-test-step-XXXXXX";
    int dir, status;
    pid_t pid;

    if (!can_mount)
        skip();
    assert_non_null(mkdtemp(at));
    dir = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "dir", 0700) | mkdirat(dir, "mount", 0700), 0);
    assert_int_equal(mknodat(dir, "file", S_IFREG | 0600, 0), 0);
    assert_int_equal(symlinkat("dir", dir, "link"), 0);
    assert_int_equal(fchdir(dir), 0);
    assert_int_equal(mount("none", "mount", "tmpfs", 0, NULL), 0);
    assert_int_equal(take_steps(dir), 0);
    pid = fork();
    if (pid == 0) {
        forbid_openat2();
        _exit(take_steps(dir));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(umount2("mount", MNT_DETACH) | rmdir("mount") | rmdir("dir") |
                         unlink("file") | unlink("link") | chdir("/") | rmdir(at),
                     0);
    close(dir);
}

/* The user's own process that empties his memory is stopped by him, as soon as it is
 * his.
 */
static struct stopped {
    sem_t is;
    pid_t pid;
} * stopped;

int __real_setuid(uid_t uid);
int __wrap_setuid(uid_t uid);

int __wrap_setuid(uid_t uid)
{
    int rc = __real_setuid(uid);

    if (rc == 0 && stopped) {
        stopped->pid = getpid();
        sem_post(&stopped->is);
        raise(SIGSTOP);
    }
    return rc;
}

static void who_stops_the_sweep_holds_up_no_other_job(void **state)
{
    struct dlr_err err;
    pid_t pid;
    int lock;

    if (!can_mount)
        skip();
    keep_it(LIMIT_MS);
    stopped = mmap(NULL, sizeof(*stopped), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(stopped != MAP_FAILED);
    assert_int_equal(sem_init(&stopped->is, 1, 0), 0);
    pid = fork();
    if (pid == 0) {
        dlr_jobkeep_clear(job.job + 1);
        _exit(0);
    }
    assert_int_equal(sem_wait(&stopped->is), 0);
    lock = open(DLR_MEMORY_OWN "/.lock", O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    close(lock);
    assert_int_equal(waitpid(pid, NULL, 0), pid);     /* nor the step of that job: */
    assert_int_equal(kill(stopped->pid, SIGKILL), 0); /* the sweep is there still */
    munmap(stopped, sizeof(*stopped));
    stopped = NULL;
    assert_int_equal(access(OWN, F_OK), -1);
    assert_int_equal(dlr_jobmem_detach(&job, &lock, &err), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_file_system_of_the_users_is_not_waited_for, clean),
        cmocka_unit_test(a_step_enters_no_mount_and_follows_no_link_on_old_kernels_too),
        cmocka_unit_test_teardown(who_stops_the_sweep_holds_up_no_other_job, clean),
        cmocka_unit_test(what_the_user_may_not_remove_stays),
        cmocka_unit_test(only_the_agents_step_of_this_job_asks_for_it),
        cmocka_unit_test(its_size_is_of_the_jobs_memory),
        cmocka_unit_test_teardown(the_user_has_it_and_nobody_else, clean),
        cmocka_unit_test_teardown(it_has_huge_pages_where_the_kernel_knows_them, clean),
        cmocka_unit_test_teardown(a_run_that_began_without_it_goes_on_without, clean),
        cmocka_unit_test_teardown(what_root_has_not_mounted_is_not_used, clean),
        cmocka_unit_test_teardown(the_epilog_takes_it_away_with_what_is_in_it, clean),
        cmocka_unit_test_teardown(a_container_made_before_sees_it, clean),
        cmocka_unit_test_teardown(what_is_kept_is_there_for_the_requeued_job, clean),
        cmocka_unit_test_teardown(what_is_empty_is_not_kept, clean),
        cmocka_unit_test_teardown(another_job_takes_it_away, clean),
        cmocka_unit_test_teardown(it_goes_when_its_time_is_over, clean),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, start, NULL);
}
