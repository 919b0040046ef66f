/* SPDX-License-Identifier: Apache-2.0 */
#ifdef DLR_HAVE_CUDA

#include "device/kernels.h"

#include <stdlib.h>

#include "device/device.h"
#include "device/kernel.h"

#define PIECES 16384u     /* of a half: more are copied one by one and not summed */
#define MOVED_MAX 16384u  /* bytes of a piece that is moved by a kernel */
#define SUM_THREADS 64u   /* of a group: few, so that groups spread over the device */
#define MOVE_THREADS 128u /* of a group, which moves a block */
#define BLOCKS (DLR_DEVICE_HALF / DLR_KERNEL_BLOCK + PIECES)

struct half {
    struct dlr_kernel_piece *list; /* pinned */
    CUdeviceptr list_dev;          /* a copy of it, on the device */
    uint32_t *sums;                /* pinned, written by the device; one per block */
    CUdeviceptr sums_dev;
    uint32_t n, blocks, moved;
};

struct dlr_kernels {
    unsigned what;
    const struct dlr_device_crc *crc;
    CUmodule module;
    CUfunction sum, move;
    CUdeviceptr table;
    struct half half[2];
};

static CUresult make_half(struct half *h)
{
    CUresult r = CU(cuMemHostAlloc)((void **)&h->list, PIECES * sizeof(*h->list), 0);

    if (r == CUDA_SUCCESS)
        r = CU(cuMemHostAlloc)((void **)&h->sums, BLOCKS * sizeof(*h->sums),
                               CU_MEMHOSTALLOC_DEVICEMAP);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemHostGetDevicePointer)(&h->sums_dev, h->sums, 0);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemAlloc)(&h->list_dev, PIECES * sizeof(*h->list));
    return r;
}

static CUresult make_table(struct dlr_kernels *k)
{
    uint32_t table[DLR_KERNEL_TABLE];
    CUresult r = CU(cuMemAlloc)(&k->table, sizeof(table));

    k->crc->table(table);
    return r == CUDA_SUCCESS ? CU(cuMemcpyHtoD)(k->table, table, sizeof(table)) : r;
}

CUresult dlr_kernels_new(unsigned what, const struct dlr_device_crc *crc,
                         struct dlr_kernels **ret)
{
    struct dlr_kernels *k = calloc(1, sizeof(*k));
    CUresult r =
        k ? CU(cuModuleLoadData)(&k->module, dlr_device_ptx) : CUDA_ERROR_OUT_OF_MEMORY;

    if (k)
        k->crc = crc;
    if (r == CUDA_SUCCESS)
        r = CU(cuModuleGetFunction)(&k->sum, k->module, "dlr_sum");
    if (r == CUDA_SUCCESS)
        r = CU(cuModuleGetFunction)(&k->move, k->module, "dlr_move");
    if (r == CUDA_SUCCESS)
        r = make_table(k);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < 2; i++)
        r = make_half(&k->half[i]);
    if (r != CUDA_SUCCESS)
        k = dlr_kernels_free(k);
    else
        k->what = what;
    *ret = k;
    return r;
}

struct dlr_kernels *dlr_kernels_free(struct dlr_kernels *k)
{
    for (unsigned i = 0; k && i < 2; i++) {
        if (k->half[i].list)
            CU(cuMemFreeHost)(k->half[i].list);
        if (k->half[i].sums)
            CU(cuMemFreeHost)(k->half[i].sums);
        if (k->half[i].list_dev)
            CU(cuMemFree)(k->half[i].list_dev);
    }
    if (k && k->table)
        CU(cuMemFree)(k->table);
    if (k && k->module)
        CU(cuModuleUnload)(k->module);
    free(k);
    return NULL;
}

void dlr_kernels_reset(struct dlr_kernels *k, unsigned half)
{
    struct half *h = &k->half[half];

    h->n = h->blocks = h->moved = 0;
}

/* One entry for each cut, as the host will look at it. Returns what there was no room
 * for.
 */
static uint64_t note(struct half *h, uint32_t at, CUdeviceptr src, uint64_t bytes,
                     bool moved)
{
    while (bytes > 0 && h->n < PIECES) {
        uint32_t room = DLR_DEVICE_CUT - at % DLR_DEVICE_CUT;
        uint32_t n = bytes < room ? (uint32_t)bytes : room;

        h->list[h->n++] =
            (struct dlr_kernel_piece){(uint64_t)src, n, at, h->blocks, moved};
        h->blocks += (n + DLR_KERNEL_BLOCK - 1) / DLR_KERNEL_BLOCK;
        h->moved += moved;
        src += n;
        at += n;
        bytes -= n;
    }
    return bytes;
}

bool dlr_kernels_add(struct dlr_kernels *k, unsigned half, uint32_t at, CUdeviceptr src,
                     uint64_t bytes)
{
    struct half *h = &k->half[half];
    bool moved = (k->what & DLR_DEVICE_GATHER) && bytes <= MOVED_MAX &&
                 PIECES - h->n >= 2; /* whole, or not at all */

    if (moved || (k->what & DLR_DEVICE_SUM))
        note(h, at, src, bytes, moved);
    return moved;
}

bool dlr_kernels_sum(struct dlr_kernels *k, unsigned half, uint32_t at, CUdeviceptr src,
                     uint64_t bytes)
{
    return (k->what & DLR_DEVICE_SUM) &&
           note(&k->half[half], at, src, bytes, false) == 0;
}

CUresult dlr_kernels_launch(struct dlr_kernels *k, unsigned half, CUdeviceptr to,
                            CUstream stream)
{
    struct half *h = &k->half[half];
    void *sum[] = {&h->list_dev, &h->n, &h->blocks, &k->table, &h->sums_dev};
    void *move[] = {&h->list_dev, &h->n, &to};
    CUresult r;

    if (h->n == 0)
        return CUDA_SUCCESS;
    r = CU(cuMemcpyHtoDAsync)(h->list_dev, h->list, h->n * sizeof(*h->list), stream);
    if (r == CUDA_SUCCESS && (k->what & DLR_DEVICE_SUM))
        r = CU(cuLaunchKernel)(k->sum, (h->blocks + SUM_THREADS - 1) / SUM_THREADS, 1,
                               1, SUM_THREADS, 1, 1, 0, stream, sum, NULL);
    if (r == CUDA_SUCCESS && h->moved > 0)
        r = CU(cuLaunchKernel)(k->move, h->blocks, 1, 1, MOVE_THREADS, 1, 1, 0, stream,
                               move, NULL);
    return r;
}

/* The entry that begins at 'at', of a list in ascending order; NULL. */
static const struct dlr_kernel_piece *find(const struct half *h, uint32_t at)
{
    uint32_t low = 0, high = h->n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (h->list[mid].at < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low < h->n && h->list[low].at == at ? &h->list[low] : NULL;
}

bool dlr_kernels_expect(const struct dlr_kernels *k, unsigned half, uint32_t at,
                        uint32_t bytes, uint32_t *ret_crc)
{
    const struct half *h = &k->half[half];
    const struct dlr_kernel_piece *p = find(h, at);
    uint32_t op, crc = 0;

    if (!(k->what & DLR_DEVICE_SUM) || !p || p->bytes != bytes)
        return false;
    op = bytes > DLR_KERNEL_BLOCK ? k->crc->op(DLR_KERNEL_BLOCK) : 0;
    for (uint32_t from = 0, i = p->first; from < bytes; from += DLR_KERNEL_BLOCK, i++) {
        uint32_t n = dlr_kernel_size(bytes, from);

        if (from == 0)
            crc = h->sums[i];
        else
            crc = k->crc->join(crc, h->sums[i],
                               n == DLR_KERNEL_BLOCK ? op : k->crc->op(n));
    }
    *ret_crc = crc;
    return true;
}

#else
typedef int dlr_no_device_kernels; /* a file may not be empty */
#endif
