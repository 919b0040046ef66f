/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that the data process never makes and that an attacker in it would. A
 * list of what is allowed would have to follow every release of UCX, of verbs providers
 * and of the C library.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ckpt/confine/confine.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ARCH AUDIT_ARCH_PPC64LE
#endif

#define LATER 424 /* from here on a call has the same number everywhere */
#define MAX 512

static const int denied[] = {
    /* programs and processes of others */
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_tkill,
    LATER + 0 /* pidfd_send_signal */,
    LATER + 14 /* pidfd_getfd */,
    LATER + 16 /* process_madvise */,
    LATER + 24 /* process_mrelease */,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    /* what the system looks like */
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    LATER + 4 /* open_tree */,
    LATER + 5 /* move_mount */,
    LATER + 6 /* fsopen */,
    LATER + 7 /* fsconfig */,
    LATER + 8 /* fsmount */,
    LATER + 9 /* fspick */,
    LATER + 18 /* mount_setattr */,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    SYS_acct,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_syslog,
    SYS_quotactl,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    /* parts of the kernel in which holes have been found, and code for it */
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    LATER + 1 /* io_uring_setup */,
    LATER + 2 /* io_uring_enter */,
    LATER + 3 /* io_uring_register */,
    SYS_personality,
#ifdef SYS_kexec_load
    SYS_kexec_load,
#endif
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

/* The first argument is a process: this one, or with 0 it, too. */
static const struct {
    int call;
    int zero;
} on_itself[] = {{SYS_kill, 0},
                 {SYS_tgkill, 0},
                 {SYS_rt_sigqueueinfo, 0},
                 {SYS_rt_tgsigqueueinfo, 0},
                 {SYS_process_vm_readv, 0},
                 {SYS_prlimit64, 1}};

/* No rarely used family of the kernel: IB and RDS are a fabric's. The last one leads to
 * local daemons.
 */
static const int families[] = {AF_INET, AF_INET6, AF_NETLINK, AF_IB, AF_RDS, AF_UNIX};

struct program {
    struct sock_filter at[MAX];
    unsigned short n;
};

static void add(struct program *p, struct sock_filter one)
{
    p->at[p->n++] = one;
}

static void load(struct program *p, size_t offset)
{
    add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* Little endian, as wire and slots are: the low half comes first. */
static void load_arg(struct program *p, unsigned i)
{
    load(p, offsetof(struct seccomp_data, args) + i * sizeof(uint64_t));
}

/* Passes over so many when the value is not this. */
static void unless(struct program *p, uint32_t value, uint8_t skip)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip));
}

static void answer(struct program *p, int error)
{
    add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                        error ? SECCOMP_RET_ERRNO | (uint32_t)error
                                              : SECCOMP_RET_ALLOW));
}

static void own_process(struct program *p, int call, int zero)
{
    unless(p, (uint32_t)call, zero ? 6 : 4);
    load_arg(p, 0);
    if (zero) {
        unless(p, 0, 1);
        answer(p, 0);
    }
    unless(p, (uint32_t)getpid(), 1);
    answer(p, 0);
    answer(p, EPERM);
}

static void sockets(struct program *p, bool local)
{
    unsigned n = sizeof(families) / sizeof(*families) - !local;

    unless(p, SYS_socket, (uint8_t)(2 * n + 2));
    load_arg(p, 0);
    for (unsigned i = 0; i < n; i++) {
        unless(p, (uint32_t)families[i], 1);
        answer(p, 0);
    }
    answer(p, EAFNOSUPPORT);
}

/* Threads, not processes. The C library asks clone(2) when there is no clone3(2), whose
 * flags lie in memory.
 */
static void threads(struct program *p)
{
    unless(p, LATER + 11 /* clone3 */, 1);
    answer(p, ENOSYS);
    unless(p, SYS_clone, 4);
    load_arg(p, 0);
    add(p,
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1));
    answer(p, 0);
    answer(p, EPERM);
}

/* It stays closed to others. */
static void dumpable(struct program *p)
{
    unless(p, SYS_prctl, 4);
    load_arg(p, 0);
    unless(p, PR_SET_DUMPABLE, 1);
    answer(p, EPERM);
    answer(p, 0);
}

/* A file's owner is signalled when there is something to read: who that is says the
 * second argument.
 */
static void file_owners(struct program *p)
{
    static const struct {
        int call;
        uint32_t commands[2];
    } rows[] = {{SYS_fcntl, {F_SETOWN, F_SETOWN_EX}},
                {SYS_ioctl, {FIOSETOWN, SIOCSPGRP}}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        unless(p, (uint32_t)rows[i].call, 6);
        load_arg(p, 1);
        for (unsigned k = 0; k < 2; k++) {
            unless(p, rows[i].commands[k], 1);
            answer(p, EPERM);
        }
        answer(p, 0);
    }
}

static void build(struct program *p, bool local)
{
#ifdef ARCH
    load(p, offsetof(struct seccomp_data, arch));
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
    answer(p, EPERM);
#endif
    load(p, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
    answer(p, EPERM); /* the same calls by other numbers */
#endif
    for (unsigned i = 0; i < sizeof(denied) / sizeof(*denied); i++) {
        unless(p, (uint32_t)denied[i], 1);
        answer(p, EPERM);
    }
    for (unsigned i = 0; i < sizeof(on_itself) / sizeof(*on_itself); i++)
        own_process(p, on_itself[i].call, on_itself[i].zero);
    sockets(p, local);
    threads(p);
    file_owners(p);
    dumpable(p);
    answer(p, 0);
}

int dlr_confine_calls(const struct dlr_confine *c)
{
#ifdef ARCH
    struct program p = {.n = 0};
    struct sock_fprog filter = {.filter = p.at};
    long rc;

    build(&p, c->shared[0] != '\0');
    filter.len = p.n;
    rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                 &filter);
    return rc == 0 ? 0 : rc < 0 ? -errno : -ESRCH; /* a thread has one of its own */
#else
    return -ENOSYS;
#endif
}
