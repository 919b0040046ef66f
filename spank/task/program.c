/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task/program.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define SEGMENTS 64 /* of a program that is looked at */
#define DYNAMIC_MAX 65536
#define NEEDED_MAX 256
#define NAME_BYTES 64

#if __BYTE_ORDER == __LITTLE_ENDIAN
#define BYTE_ORDER_HERE ELFDATA2LSB
#else
#define BYTE_ORDER_HERE ELFDATA2MSB
#endif
#define CLASS_OF(bits) CLASS_OF_(bits)
#define CLASS_OF_(bits) ELFCLASS##bits

struct file {
    int fd;
    unsigned nsegments;
    ElfW(Phdr) segments[SEGMENTS];
};

static int read_all_of(int fd, uint64_t at, void *buf, size_t size)
{
    ssize_t n = at > INT64_MAX ? 0 : pread(fd, buf, size, (off_t)at);

    if (n < 0)
        return -errno;
    return (size_t)n == size ? 0 : -ENOEXEC;
}

static int read_segments(struct file *f)
{
    ElfW(Ehdr) head;
    int rc = read_all_of(f->fd, 0, &head, sizeof(head));

    if (rc < 0)
        return rc;
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != CLASS_OF(__ELF_NATIVE_CLASS) ||
        head.e_ident[EI_DATA] != BYTE_ORDER_HERE ||
        head.e_phentsize != sizeof(*f->segments) || head.e_phnum > SEGMENTS)
        return -ENOEXEC;
    f->nsegments = head.e_phnum;
    return read_all_of(f->fd, head.e_phoff, f->segments,
                       f->nsegments * sizeof(*f->segments));
}

static const ElfW(Phdr) * segment(const struct file *f, unsigned type)
{
    for (unsigned i = 0; i < f->nsegments; i++)
        if (f->segments[i].p_type == type)
            return &f->segments[i];
    return NULL;
}

/* Where in the file is what is loaded at address. */
static int offset_of(const struct file *f, uint64_t address, uint64_t *ret)
{
    for (unsigned i = 0; i < f->nsegments; i++) {
        const ElfW(Phdr) *s = &f->segments[i];

        if (s->p_type != PT_LOAD || address < s->p_vaddr ||
            address - s->p_vaddr >= s->p_filesz)
            continue;
        return __builtin_add_overflow(s->p_offset, address - s->p_vaddr, ret) ? -ENOEXEC
                                                                              : 0;
    }
    return -ENOEXEC;
}

static int read_loader(const struct file *f, char loader[DLR_PROGRAM_LOADER])
{
    const ElfW(Phdr) *s = segment(f, PT_INTERP);

    if (!s || s->p_filesz < 2 || s->p_filesz > DLR_PROGRAM_LOADER)
        return -ENOEXEC;
    memset(loader, 0, DLR_PROGRAM_LOADER);
    if (read_all_of(f->fd, s->p_offset, loader, s->p_filesz) < 0 ||
        loader[s->p_filesz - 1])
        return -ENOEXEC;
    return 0;
}

/* "libmpi.so.40", "libmpi_mpifh.so.40", "libmpich.so.12", "libmpifort.so.12" */
static bool is_mpi(const char *name)
{
    const char *rest = dlr_after(name, "libmpi");

    return rest && (*rest == '.' || *rest == '_' || dlr_after(rest, "ch") ||
                    dlr_after(rest, "fort"));
}

/* "libasan.so.8", "libclang_rt.asan-x86_64.so" */
static bool is_sanitizer(const char *name)
{
    return strstr(name, "san.so") || dlr_after(name, "libclang_rt.");
}

static void take_name(const struct file *f, uint64_t at, uint64_t room,
                      struct dlr_program *ret)
{
    char name[NAME_BYTES + 1] = "";
    ssize_t n = at > INT64_MAX
                    ? 0
                    : pread(f->fd, name, room < NAME_BYTES ? room : NAME_BYTES, at);

    if (n <= 0)
        return;
    name[n] = '\0';
    ret->mpi = ret->mpi || is_mpi(name);
    ret->sanitizer = ret->sanitizer || is_sanitizer(name);
}

static int read_needed(const struct file *f, const ElfW(Dyn) * dynamic, size_t n,
                       struct dlr_program *ret)
{
    uint64_t address = 0, size = 0, at;
    unsigned needed = 0;

    for (size_t i = 0; i < n && dynamic[i].d_tag != DT_NULL; i++) {
        if (dynamic[i].d_tag == DT_STRTAB)
            address = dynamic[i].d_un.d_ptr;
        else if (dynamic[i].d_tag == DT_STRSZ)
            size = dynamic[i].d_un.d_val;
    }
    if (offset_of(f, address, &at) < 0)
        return -ENOEXEC;
    for (size_t i = 0; i < n && dynamic[i].d_tag != DT_NULL; i++) {
        uint64_t name = dynamic[i].d_un.d_val;

        if (dynamic[i].d_tag == DT_NEEDED && name < size && name < UINT32_MAX &&
            needed++ < NEEDED_MAX)
            take_name(f, at + name, size - name, ret);
    }
    return 0;
}

int dlr_program_read(int fd, struct dlr_program *ret)
{
    struct file f = {.fd = fd};
    struct dlr_program program = {.mpi = false};
    DLR_AUTO_FREE ElfW(Dyn) *dynamic = NULL;
    const ElfW(Phdr) * s;
    int rc = read_segments(&f);

    if (rc == 0)
        rc = read_loader(&f, program.loader);
    if (rc < 0)
        return rc;
    s = segment(&f, PT_DYNAMIC);
    if (!s || s->p_filesz > DYNAMIC_MAX || s->p_filesz < sizeof(*dynamic))
        return -ENOEXEC;
    dynamic = malloc(s->p_filesz);
    if (!dynamic)
        return -ENOMEM;
    rc = read_all_of(fd, s->p_offset, dynamic, s->p_filesz);
    if (rc == 0)
        rc = read_needed(&f, dynamic, s->p_filesz / sizeof(*dynamic), &program);
    if (rc == 0)
        *ret = program;
    return rc;
}
