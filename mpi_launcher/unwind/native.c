/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/unwind/native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/str.h"
#include "mpi_launcher/unwind/thread.h"

#if !__has_include(<elfutils/libdwfl.h>)
int dlr_native_open(pid_t pid, struct dlr_native **ret, struct dlr_err *err)
{
    return dlr_fail(err, -ENOSYS, "built without libdw: no frames of compiled code");
}

struct dlr_native *dlr_native_close(struct dlr_native *native)
{
    return NULL;
}

uint64_t dlr_native_python_symbol(struct dlr_native *native, const char *name)
{
    return 0;
}

unsigned dlr_native_frames(struct dlr_native *native, const struct dlr_held *held,
                           int64_t deadline_ms, dlr_frame_text *ret, bool *ret_whole)
{
    *ret_whole = false;
    return 0;
}
#else
#include <elfutils/libdwfl.h>

#define LINES_OF (64u << 20) /* bytes: line numbers of larger files take too long */

struct dlr_native {
    Dwfl *dwfl;
    pid_t pid;
    const struct dlr_held *held;
    int64_t deadline_ms;
    dlr_frame_text *frames;
    unsigned n;
};

/* Whose files are opened: libdw hands its callback no argument. */
static pid_t opened;

/* As the process itself sees them, which may be in a container. */
static int find_elf(Dwfl_Module *mod, void **userdata, const char *modname,
                    Dwarf_Addr base, char **file_name, Elf **elf)
{
    DLR_AUTO_FREE char *path = NULL;
    DLR_AUTO_CLOSE int fd = -1;
    struct stat st;

    if (modname[0] != '/')
        return dwfl_linux_proc_find_elf(mod, userdata, modname, base, file_name, elf);
    path = dlr_format_new("/proc/%d/root%s", (int)opened, modname);
    fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    *file_name = DLR_STEAL(path);
    return dlr_steal_fd(&fd);
}

static int no_debuginfo(Dwfl_Module *mod, void **userdata, const char *modname,
                        Dwarf_Addr base, const char *file_name,
                        const char *debuglink_file, GElf_Word crc, char **ret)
{
    return -1; /* neither other files nor servers are asked */
}

static const Dwfl_Callbacks callbacks = {.find_elf = find_elf,
                                         .find_debuginfo = no_debuginfo};

/* --- a thread, as libdw asks for it ----------------------------------------------- */

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
    struct dlr_native *native = arg;

    if (*thread_arg)
        return 0;
    *thread_arg = arg;
    return native->held->tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
    *thread_arg = arg;
    return true;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret, void *arg)
{
    const struct dlr_native *native = arg;
    const struct dlr_held *held = native->held;

    if (addr >= held->sp && addr - held->sp < held->stack_size) {
        if (held->stack_size - (addr - held->sp) < sizeof(*ret))
            return false;
        memcpy(ret, held->stack + (addr - held->sp), sizeof(*ret));
        return true;
    }
    return dlr_unwind_memory(native->pid, addr, ret, sizeof(*ret)) == sizeof(*ret);
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
    const struct dlr_held *held = ((struct dlr_native *)arg)->held;
#if defined(__x86_64__)
    const struct user_regs_struct *r = &held->regs;
    /* in the order of DWARF */
    const Dwarf_Word words[] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
                                r->rbp, r->rsp, r->r8,  r->r9,  r->r10, r->r11,
                                r->r12, r->r13, r->r14, r->r15, r->rip};

    return dwfl_thread_state_registers(thread, 0, 17, words);
#elif defined(__aarch64__)
    Dwarf_Word words[32];

    for (int i = 0; i < 31; i++)
        words[i] = held->regs.regs[i];
    words[31] = held->sp;
    dwfl_thread_state_register_pc(thread, held->pc);
    return dwfl_thread_state_registers(thread, 0, 32, words);
#else
    return held == NULL;
#endif
}

static const Dwfl_Thread_Callbacks threads = {.next_thread = next_thread,
                                              .get_thread = get_thread,
                                              .memory_read = read_memory,
                                              .set_initial_registers = set_registers};

/* --- names ------------------------------------------------------------------------ */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool has_lines(Dwfl_Module *mod)
{
    const char *file = NULL;
    struct stat st;

    dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, &file, NULL);
    return file && stat(file, &st) == 0 && st.st_size <= LINES_OF;
}

static void name_frame(struct dlr_native *native, Dwarf_Addr pc, char *buf)
{
    Dwfl_Module *mod = dwfl_addrmodule(native->dwfl, pc);
    const char *file =
        mod ? dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
    const char *name = mod ? dwfl_module_addrname(mod, pc) : NULL;
    Dwfl_Line *line = mod && has_lines(mod) ? dwfl_module_getsrc(mod, pc) : NULL;
    const char *source = NULL;
    char where[64] = "";
    int number = 0;

    if (line)
        source = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
    if (source)
        snprintf(where, sizeof(where), " (%.40s:%d)", base_name(source), number);
    else if (file)
        snprintf(where, sizeof(where), " (%.50s)", base_name(file));
    if (name)
        snprintf(buf, DLR_STACK_FRAME, "%.180s%s", name, where);
    else
        snprintf(buf, DLR_STACK_FRAME, "?%s", where);
}

static int take_frame(Dwfl_Frame *state, void *arg)
{
    struct dlr_native *native = arg;
    bool activation;
    Dwarf_Addr pc;

    if (native->n == DLR_UNWIND_FRAMES || dlr_now_ms() >= native->deadline_ms ||
        !dwfl_frame_pc(state, &pc, &activation))
        return DWARF_CB_ABORT;
    name_frame(native, activation ? pc : pc - 1, native->frames[native->n++]);
    return DWARF_CB_OK;
}

unsigned dlr_native_frames(struct dlr_native *native, const struct dlr_held *held,
                           int64_t deadline_ms, dlr_frame_text *ret, bool *ret_whole)
{
    native->held = held;
    native->deadline_ms = deadline_ms;
    native->frames = ret;
    native->n = 0;
    *ret_whole =
        dwfl_getthread_frames(native->dwfl, held->tid, take_frame, native) == 0;
    return native->n;
}

/* --- a process -------------------------------------------------------------------- */

struct dlr_native *dlr_native_close(struct dlr_native *native)
{
    if (native)
        dwfl_end(native->dwfl);
    free(native);
    return NULL;
}

int dlr_native_open(pid_t pid, struct dlr_native **ret, struct dlr_err *err)
{
    struct dlr_native *native = calloc(1, sizeof(*native));
    int rc;

    opened = pid;
    if (!native || !(native->dwfl = dwfl_begin(&callbacks))) {
        free(native);
        return dlr_fail(err, -ENOMEM, "out of memory");
    }
    native->pid = pid;
    rc = dwfl_linux_proc_report(native->dwfl, pid);
    if (rc == 0 && dwfl_report_end(native->dwfl, NULL, NULL) == 0 &&
        dwfl_attach_state(native->dwfl, NULL, pid, &threads, native)) {
        *ret = native;
        return 0;
    }
    rc = rc > 0 ? -rc : -EIO;
    dlr_fail(err, rc, "what process %d has mapped cannot be read: %s", (int)pid,
             rc == -EIO ? dwfl_errmsg(-1) : strerror(-rc));
    dlr_native_close(native);
    return rc;
}

struct wanted {
    const char *name;
    uint64_t address;
};

static int look_in(Dwfl_Module *mod, void **userdata, const char *modname,
                   Dwarf_Addr base, void *arg)
{
    struct wanted *wanted = arg;
    const char *file = base_name(modname);
    int n;

    if (!dlr_after(file, "python") && !dlr_after(file, "libpython"))
        return DWARF_CB_OK;
    n = dwfl_module_getsymtab(mod);
    for (int i = 1; i < n; i++) {
        GElf_Addr address;
        GElf_Sym sym;
        const char *name =
            dwfl_module_getsym_info(mod, i, &sym, &address, NULL, NULL, NULL);

        if (dlr_streq(name, wanted->name) && sym.st_shndx != SHN_UNDEF) {
            wanted->address = address;
            return DWARF_CB_ABORT;
        }
    }
    return DWARF_CB_OK;
}

uint64_t dlr_native_python_symbol(struct dlr_native *native, const char *name)
{
    struct wanted wanted = {.name = name};

    dwfl_getmodules(native->dwfl, look_in, &wanted, 0);
    return wanted.address;
}
#endif
