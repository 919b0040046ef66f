/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/unwind/thread.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/unwind/socket_peer.h"

/* What a system call is called, and whether its first argument is a descriptor. */
static const struct {
    long number;
    const char *name;
    bool fd;
} calls[] = {
    {SYS_read, "read", true},
    {SYS_pread64, "pread", true},
    {SYS_readv, "readv", true},
    {SYS_write, "write", true},
    {SYS_pwrite64, "pwrite", true},
    {SYS_writev, "writev", true},
    {SYS_recvfrom, "recv", true},
    {SYS_recvmsg, "recv", true},
    {SYS_sendto, "send", true},
    {SYS_sendmsg, "send", true},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept", true},
    {SYS_connect, "connect", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_ftruncate, "ftruncate", true},
    {SYS_fallocate, "fallocate", true},
    {SYS_flock, "flock", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_ioctl, "ioctl", true},
    {SYS_getdents64, "getdents", true},
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll", false},
    {SYS_poll, "poll", false},
    {SYS_select, "select", false},
    {SYS_open, "open", false},
    {SYS_stat, "stat", false},
    {SYS_pause, "pause", false},
#endif
    {SYS_epoll_pwait, "epoll", false},
    {SYS_ppoll, "poll", false},
    {SYS_pselect6, "select", false},
    {SYS_openat, "open", false},
    {SYS_newfstatat, "stat", false},
    {SYS_statx, "stat", false},
    {SYS_futex, "futex (a lock or a condition)", false},
    {SYS_nanosleep, "sleep", false},
    {SYS_clock_nanosleep, "sleep", false},
    {SYS_restart_syscall, "a call that was interrupted", false},
    {SYS_wait4, "wait for a child", false},
    {SYS_waitid, "wait for a child", false},
    {SYS_rt_sigtimedwait, "wait for a signal", false},
    {SYS_rt_sigsuspend, "wait for a signal", false},
    {SYS_io_getevents, "wait for I/O", false},
    {SYS_msync, "msync", false},
    {SYS_sched_yield, "sched_yield", false},
};

ssize_t dlr_unwind_memory(pid_t pid, uint64_t at, void *buf, size_t size)
{
    struct iovec here = {buf, size}, there = {(void *)(uintptr_t)at, size};
    ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

    return n < 0 ? -errno : n;
}

/* A small file below /proc as one line of text; "" when it cannot be read. */
static void proc_line(pid_t pid, pid_t tid, const char *name, char *buf, size_t size)
{
    char path[96];
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, buf, size - 1);
        close(fd);
    }
    buf[n > 0 ? n : 0] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
    dlr_plain(buf);
}

static void describe_fd(pid_t pid, int fd, char *buf, size_t size)
{
    char path[64], target[DLR_UNWIND_WHAT] = "";
    unsigned long long inode;
    ssize_t n;

    buf[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    n = readlink(path, target, sizeof(target) - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    dlr_plain(target);
    if (sscanf(target, "socket:[%llu]", &inode) == 1 &&
        dlr_socket_peer(pid, inode, buf, size) == 0)
        return;
    snprintf(buf, size, "%s", target);
}

/* The descriptor that poll waits for, when it is one. */
static int polled(pid_t pid, unsigned long long fds, unsigned long long n)
{
    struct pollfd one;

    if (n != 1 || dlr_unwind_memory(pid, fds, &one, sizeof(one)) != sizeof(one))
        return -1;
    return one.fd;
}

static bool is_poll(long number)
{
#ifdef SYS_poll
    if (number == SYS_poll)
        return true;
#endif
    return number == SYS_ppoll;
}

static void describe_call(pid_t pid, const char *line, char *buf, size_t size)
{
    unsigned long long first = 0, second = 0;
    char what[DLR_UNWIND_WHAT] = "";
    long number;
    int fd = -1;
    size_t i = 0;

    buf[0] = '\0';
    if (sscanf(line, "%ld 0x%llx 0x%llx", &number, &first, &second) < 1 || number < 0)
        return; /* "running", or not for us to know */
    while (i < sizeof(calls) / sizeof(*calls) && calls[i].number != number)
        i++;
    if (i == sizeof(calls) / sizeof(*calls)) {
        snprintf(buf, size, "system call %ld", number);
        return;
    }
    if (calls[i].fd)
        fd = (int)first;
    else if (is_poll(number))
        fd = polled(pid, first, second);
    if (fd >= 0)
        describe_fd(pid, fd, what, sizeof(what));
    snprintf(buf, size, what[0] ? "%s of %.120s" : "%s", calls[i].name, what);
}

static char state_of(pid_t pid, pid_t tid)
{
    char line[512];
    const char *end;

    proc_line(pid, tid, "stat", line, sizeof(line));
    end = strrchr(line, ')');
    return end && end[1] == ' ' && end[2] ? end[2] : '?';
}

static void look(pid_t pid, struct dlr_unwind_thread *t)
{
    char line[256];

    t->state = state_of(pid, t->tid);
    proc_line(pid, t->tid, "comm", t->comm, sizeof(t->comm));
    proc_line(pid, t->tid, "wchan", t->wchan, sizeof(t->wchan));
    if (dlr_streq(t->wchan, "0"))
        t->wchan[0] = '\0';
    proc_line(pid, t->tid, "syscall", line, sizeof(line));
    describe_call(pid, line, t->waits, sizeof(t->waits));
}

static int by_tid(const void *a, const void *b)
{
    const struct dlr_unwind_thread *x = a, *y = b;

    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

int dlr_unwind_threads(pid_t pid, struct dlr_unwind_thread *ret, unsigned *ret_more)
{
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    struct dirent *entry;
    char path[64];
    int n = 0;

    *ret_more = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (!dir)
        return -ESRCH;
    while ((entry = readdir(dir))) {
        unsigned tid;

        if (dlr_parse_uint(entry->d_name, INT32_MAX, &tid) < 0)
            continue;
        if (n == DLR_UNWIND_THREADS) {
            (*ret_more)++;
            continue;
        }
        ret[n] = (struct dlr_unwind_thread){.tid = (pid_t)tid};
        look(pid, &ret[n++]);
    }
    qsort(ret, (size_t)n, sizeof(*ret), by_tid);
    return n ? n : -ESRCH;
}

/* The number behind a word of /proc/PID/status; false when there is none. */
static bool status_number(const char *status, const char *word, unsigned *ret)
{
    const char *at = strstr(status, word);

    return at && sscanf(at + strlen(word), "%u", ret) == 1;
}

static unsigned yama_scope(void)
{
    unsigned scope = 0;
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");

    if (f && fscanf(f, "%u", &scope) != 1)
        scope = 0;
    if (f)
        fclose(f);
    return scope;
}

void dlr_unwind_refusal(pid_t pid, int code, char *buf, size_t size)
{
    unsigned tracer = 0, uid = geteuid();
    char path[64], status[2048];
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, status, sizeof(status) - 1);
        close(fd);
    }
    status[n > 0 ? n : 0] = '\0';
    status_number(status, "\nUid:", &uid);
    status_number(status, "\nTracerPid:", &tracer);
    if (n <= 0 || code == -ESRCH)
        snprintf(buf, size, "process %d is not there", (int)pid);
    else if (strstr(status, "\nState:\tZ") || strstr(status, "\nState:\tX"))
        snprintf(buf, size, "process %d has ended and is not waited for (zombie)",
                 (int)pid);
    else if (tracer)
        snprintf(buf, size, "process %d is traced by process %u", (int)pid, tracer);
    else if (uid != geteuid() && geteuid() != 0)
        snprintf(buf, size, "process %d belongs to user %u, not to %u", (int)pid, uid,
                 (unsigned)geteuid());
    else if (code == -EPERM && yama_scope())
        snprintf(buf, size,
                 "process %d may not be read: kernel.yama.ptrace_scope is %u", (int)pid,
                 yama_scope());
    else if (code == -EPERM)
        snprintf(buf, size,
                 "process %d may not be read: it is setuid, or closed to others",
                 (int)pid);
    else
        snprintf(buf, size, "process %d cannot be read: %s", (int)pid, strerror(-code));
}
