/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/kill_points.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCKS (1u << 14)

enum mode { OFF, RECORD, KILL };

struct table {
    _Atomic uint32_t mode;
    _Atomic uint32_t target, nth; /* block and pass at which it ends */
    _Atomic uint32_t nblocks;
    struct {
        /* in the program's image, so that it is the same in each process */
        _Atomic uint64_t at;
        _Atomic uint32_t passes, recorded;
    } blocks[BLOCKS];
};

extern const char __ehdr_start[]; /* the linker's: where the image begins */
void __sanitizer_cov_trace_pc(void);

static struct table *table;
static bool taking_part;
static unsigned most; /* points of a block */

static void die(const char *what)
{
    perror(what);
    abort();
}

static void map(const char *path, int flags)
{
    int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, sizeof(*table)) < 0)
        die(path);
    table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED)
        die("mmap");
    close(fd);
}

__attribute__((constructor)) static void adopt(void)
{
    const char *path = getenv(KILL_TABLE_ENV);

    if (!path)
        return;
    map(path, 0);
    taking_part = true;
}

void kill_points_new(const char *path, bool last_too)
{
    most = last_too ? 2 : 1;
    unlink(path);
    map(path, O_CREAT);
}

static void forget_passes(void)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        atomic_store(&table->blocks[i].passes, 0);
}

void kill_points_off(void)
{
    if (atomic_exchange(&table->mode, OFF) == RECORD)
        for (uint32_t i = 0; i < BLOCKS; i++)
            atomic_store(&table->blocks[i].recorded,
                         atomic_load(&table->blocks[i].passes));
}

static unsigned points_of(uint32_t block)
{
    uint32_t n = atomic_load(&table->blocks[block].recorded);

    return n < most ? n : most;
}

unsigned kill_points_count(void)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < BLOCKS; i++)
        n += points_of(i);
    return n;
}

static void aim(unsigned i)
{
    uint32_t block = 0;

    for (; i >= points_of(block); block++)
        i -= points_of(block);
    atomic_store(&table->target, block);
    atomic_store(&table->nth, i == 0 ? 1 : atomic_load(&table->blocks[block].recorded));
}

void kill_points_order(int point)
{
    forget_passes();
    if (point >= 0)
        aim((unsigned)point);
    atomic_store(&table->mode, point >= 0                    ? KILL
                               : point == KILL_POINTS_RECORD ? RECORD
                                                             : OFF);
}

void kill_points_arm(int point)
{
    kill_points_order(point);
    taking_part = true;
}

/* The block's place in the table; BLOCKS when that is full. */
static uint32_t find(uint64_t at)
{
    uint32_t i = (uint32_t)(at * UINT64_C(0x9e3779b97f4a7c15) >> 50);

    for (uint32_t n = 0; n < BLOCKS; n++, i = (i + 1) % BLOCKS) {
        uint64_t there = 0;

        if (atomic_load(&table->blocks[i].at) == at ||
            atomic_compare_exchange_strong(&table->blocks[i].at, &there, at) ||
            there == at)
            return i;
    }
    die("the table is full");
    return 0;
}

/* What the compiler has called before each block. */
void __sanitizer_cov_trace_pc(void)
{
    uint64_t at = (uint64_t)((const char *)__builtin_return_address(0) - __ehdr_start);
    uint32_t mode = taking_part ? atomic_load(&table->mode) : OFF, i;

    if (mode == OFF)
        return;
    i = find(at);
    if (atomic_fetch_add(&table->blocks[i].passes, 1) + 1 == atomic_load(&table->nth) &&
        mode == KILL && i == atomic_load(&table->target))
        kill(getpid(), SIGKILL);
}
