/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/doctor/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/str.h"

#define MAX_BYTES (256u << 20)
#if __SIZEOF_POINTER__ == 8
#define OUR_CLASS ELFCLASS64
#else
#define OUR_CLASS ELFCLASS32
#endif

/* len bytes at offset, NULL when the file does not hold them. */
static const void *part(const struct dlr_libfile *f, size_t offset, size_t len)
{
    if (offset > f->size || len > f->size - offset)
        return NULL;
    return f->text + offset;
}

int dlr_libfile_load(const char *path, struct dlr_libfile *ret, struct dlr_err *err)
{
    struct dlr_libfile f = {0};
    int rc = dlr_file_load(AT_FDCWD, path, MAX_BYTES, &f.text, &f.size, err);

    if (rc < 0)
        return rc;
    if (!part(&f, 0, sizeof(ElfW(Ehdr))) || memcmp(f.text, ELFMAG, SELFMAG) != 0 ||
        f.text[EI_CLASS] != OUR_CLASS) {
        dlr_libfile_done(&f);
        return dlr_fail(err, -ENOEXEC, "'%s' is no library of this machine", path);
    }
    *ret = f;
    return 0;
}

void dlr_libfile_done(struct dlr_libfile *file)
{
    free(file->text);
    memset(file, 0, sizeof(*file));
}

/* A header may lie at any offset: it is copied. */
static int section(const struct dlr_libfile *f, size_t i, ElfW(Shdr) * ret)
{
    const ElfW(Ehdr) *e = (const void *)f->text;
    const void *at = e->e_shentsize == sizeof(*ret) && i < e->e_shnum
                         ? part(f, e->e_shoff + i * sizeof(*ret), sizeof(*ret))
                         : NULL;

    if (!at)
        return -ENOENT;
    memcpy(ret, at, sizeof(*ret));
    return 0;
}

/* Where in the file the byte lies that will be at this address. */
static int offset_of(const struct dlr_libfile *f, size_t address, size_t *ret_offset)
{
    const ElfW(Ehdr) *e = (const void *)f->text;

    for (size_t i = 0; i < e->e_phnum && e->e_phentsize == sizeof(ElfW(Phdr)); i++) {
        const void *at =
            part(f, e->e_phoff + i * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)));
        ElfW(Phdr) p;

        if (!at)
            break;
        memcpy(&p, at, sizeof(p));
        if (p.p_type == PT_LOAD && address >= p.p_vaddr &&
            address - p.p_vaddr < p.p_filesz) {
            *ret_offset = p.p_offset + (address - p.p_vaddr);
            return 0;
        }
    }
    return -ENOENT;
}

static bool is_called(const struct dlr_libfile *f, const ElfW(Shdr) * strings,
                      size_t at, const char *name)
{
    size_t len = strlen(name) + 1;
    const char *text =
        at < strings->sh_size ? part(f, strings->sh_offset + at, len) : NULL;

    return text && memcmp(text, name, len) == 0;
}

static int copy_symbol(const struct dlr_libfile *f, const ElfW(Sym) * sym, void *buf,
                       size_t size)
{
    const void *bytes = NULL;
    size_t offset;

    if (sym->st_shndx != SHN_UNDEF && offset_of(f, sym->st_value, &offset) == 0)
        bytes = part(f, offset, size);
    if (!bytes)
        return -ENOENT;
    memcpy(buf, bytes, size);
    return 0;
}

int dlr_libfile_symbol(const struct dlr_libfile *file, const char *name, void *buf,
                       size_t size)
{
    ElfW(Shdr) table, strings;

    for (size_t i = 0; section(file, i, &table) == 0; i++) {
        if (table.sh_type != SHT_DYNSYM || section(file, table.sh_link, &strings) < 0)
            continue;
        for (size_t at = 0; at + sizeof(ElfW(Sym)) <= table.sh_size;
             at += sizeof(ElfW(Sym))) {
            const void *bytes = part(file, table.sh_offset + at, sizeof(ElfW(Sym)));
            ElfW(Sym) sym;

            if (!bytes)
                return -ENOENT;
            memcpy(&sym, bytes, sizeof(sym));
            if (is_called(file, &strings, sym.st_name, name))
                return copy_symbol(file, &sym, buf, size);
        }
    }
    return -ENOENT;
}

int dlr_libfile_version(const struct dlr_libfile *file, char *buf, size_t size)
{
    /* in two words, or this program's own copy would be found twice */
    static const char mark[] = "@(#)", product[] = "dlrover ";
    const char *end = file->text + file->size, *at = file->text;

    while ((at = memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1))) {
        at += sizeof(mark) - 1;
        if ((size_t)(end - at) > sizeof(product) &&
            memcmp(at, product, sizeof(product) - 1) == 0) {
            const char *text = at + sizeof(product) - 1;
            size_t len = strnlen(text, (size_t)(end - text));

            return dlr_format(buf, size, "%.*s", (int)(len < size ? len : 0), text);
        }
    }
    return -ENOENT;
}
