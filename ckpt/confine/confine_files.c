/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: the files that this process may still open by name. Descriptors that are
 * open stay.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ckpt/confine/confine.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/base/thread.h"

#define OPEN_MS 2000    /* a file system that does not answer */
#define THREADS_MS 1000 /* all threads that were there before */
#define SIGNAL (SIGRTMAX - 1)

/* Of <linux/landlock.h>, which not every system has. */
#define CREATE_RULESET 444
#define ADD_RULE 445
#define RESTRICT_SELF 446
#define PATH_BENEATH 1
#define F_EXECUTE (UINT64_C(1) << 0)
#define F_WRITE (UINT64_C(1) << 1)
#define F_READ (UINT64_C(1) << 2)
#define F_LIST (UINT64_C(1) << 3)
#define F_REMOVE (UINT64_C(1) << 5)
#define F_MAKE (UINT64_C(1) << 8)
#define F_REFER (UINT64_C(1) << 13)
#define F_TRUNCATE (UINT64_C(1) << 14)
#define F_IOCTL (UINT64_C(1) << 15)
#define F_ALL ((UINT64_C(1) << 16) - 1)
#define OF_FILES (F_EXECUTE | F_WRITE | F_READ | F_TRUNCATE | F_IOCTL)

struct ruleset {
    uint64_t files, net, scoped;
};

struct beneath {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

#define READS (F_READ | F_LIST)
#define WORKS (READS | F_WRITE | F_REMOVE | F_MAKE | F_REFER | F_TRUNCATE)

struct rules {
    struct dlr_confine dirs;
    char beside[PATH_MAX]; /* the directory of all jobs' state */
    uint64_t handled;
    int fd;
    atomic_int rc;
    sem_t ended;
};

static uint64_t handled(void)
{
    /* By version of the kernel's interface: what it does not know it must not be asked
     * for.
     */
    static const uint64_t known[] = {0, F_REFER - 1, F_TRUNCATE - 1, F_IOCTL - 1,
                                     F_IOCTL - 1};
    long abi = syscall(CREATE_RULESET, NULL, 0, 1);

    if (abi <= 0)
        return 0;
    return abi < 5 ? known[abi] : F_ALL;
}

static int allow(const struct rules *r, const char *path, uint64_t what)
{
    DLR_AUTO_CLOSE int fd = open(path, O_PATH | O_CLOEXEC);
    struct beneath rule = {.fd = fd, .allowed = what & r->handled};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        rule.allowed &= OF_FILES;
    return syscall(ADD_RULE, r->fd, PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

/* All devices, but not the memory, the terminals and the queues that lie beside them.
 */
static void allow_devices(const struct rules *r)
{
    DLR_AUTO_CLOSEDIR DIR *dir = opendir("/dev");
    struct dirent *e;
    char path[PATH_MAX];

    while (dir && (e = readdir(dir)))
        if (e->d_name[0] != '.' && !dlr_streq(e->d_name, "shm") &&
            !dlr_streq(e->d_name, "pts") && !dlr_streq(e->d_name, "mqueue") &&
            dlr_format(path, sizeof(path), "/dev/%s", e->d_name) >= 0)
            (void)allow(r, path, READS | F_WRITE | F_IOCTL);
}

static int allow_own(const struct rules *r)
{
    const struct {
        const char *path;
        uint64_t what;
    } rows[] = {{r->dirs.memory, WORKS},
                {r->beside, READS},
                {r->dirs.run, WORKS},
                {r->dirs.from, READS},
                {r->dirs.shared, WORKS}};
    int rc = 0;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows) && rc == 0; i++)
        if (rows[i].path[0])
            rc = allow(r, rows[i].path, rows[i].what);
    return rc;
}

static void *run(void *arg)
{
    static const char *const system[] = {"/usr", "/lib",  "/lib64",
                                         "/etc", "/proc", "/sys"};
    struct rules *r = arg;

    for (unsigned i = 0; i < sizeof(system) / sizeof(*system); i++)
        (void)allow(r, system[i], READS);
    allow_devices(r);
    atomic_store(&r->rc, allow_own(r));
    sem_post(&r->ended);
    return NULL;
}

static struct timespec in_ms(int64_t ms)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += ms / 1000;
    return t;
}

static int wait_for(sem_t *sem, const struct timespec *until)
{
    int rc;

    while ((rc = sem_timedwait(sem, until)) < 0 && errno == EINTR)
        ;
    return rc < 0 ? -errno : 0;
}

/* --- every thread that is there: the kernel restricts one at a time --------------- */

static struct {
    int ruleset;
    atomic_int failed;
    sem_t done;
} all;

static int restrict_thread(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(RESTRICT_SELF, all.ruleset, 0) < 0)
        return -errno;
    return 0;
}

static void on_signal(int sig)
{
    int was = errno;

    if (restrict_thread() < 0)
        atomic_fetch_add(&all.failed, 1);
    sem_post(&all.done);
    errno = was;
}

static unsigned signal_others(void)
{
    DLR_AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/task");
    struct dirent *e;
    unsigned n = 0;

    while (dir && (e = readdir(dir))) {
        int tid = atoi(e->d_name);

        if (tid > 0 && tid != gettid() &&
            syscall(SYS_tgkill, getpid(), tid, SIGNAL) == 0)
            n++;
    }
    return n;
}

static int restrict_all(int ruleset)
{
    struct sigaction now = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, was;
    const struct timespec until = in_ms(THREADS_MS);
    unsigned n;
    int rc = 0;

    all.ruleset = ruleset;
    sem_init(&all.done, 0, 0);
    sigaction(SIGNAL, &now, &was);
    for (n = signal_others(); n > 0 && rc == 0; n--)
        rc = wait_for(&all.done, &until);
    if (rc == 0) /* else one that answers late still finds the handler */
        sigaction(SIGNAL, &was, NULL);
    if (rc == 0 && atomic_load(&all.failed))
        rc = -EPERM;
    n = restrict_thread() < 0;
    return rc < 0 ? rc : n ? -EPERM : 0;
}

/* DIR/job-ID/RUN: DIR. */
static void find_beside(struct rules *r)
{
    char *slash;

    if (dlr_format(r->beside, sizeof(r->beside), "%s", r->dirs.run) < 0)
        r->beside[0] = '\0';
    for (unsigned i = 0; i < 2; i++) {
        slash = strrchr(r->beside, '/');
        if (slash)
            *slash = '\0';
    }
}

int dlr_confine_files(const struct dlr_confine *c)
{
    struct ruleset set = {.files = handled()};
    struct rules *r; /* the thread's when it does not end */
    struct timespec until = in_ms(OPEN_MS);
    pthread_t thread = 0;
    int rc;

    if (!c->memory[0] && !c->run[0])
        return 0;
    if (!set.files)
        return -ENOSYS;
    r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->dirs = *c;
    r->handled = set.files;
    find_beside(r);
    sem_init(&r->ended, 0, 0);
    r->fd = (int)syscall(CREATE_RULESET, &set, sizeof(set.files), 0);
    rc = r->fd < 0 ? -errno : 0;
    if (rc == 0)
        rc = dlr_thread_start("dlr-confine", run, r, &thread, NULL);
    if (rc < 0) {
        free(r);
        return rc;
    }
    if (wait_for(&r->ended, &until) < 0) {
        pthread_detach(thread);
        return -ETIMEDOUT;
    }
    pthread_join(thread, NULL);
    rc = atomic_load(&r->rc);
    rc = rc < 0 ? rc : restrict_all(r->fd);
    close(r->fd);
    free(r);
    return rc;
}
