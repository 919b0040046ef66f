/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/evidence/tar.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define BLOCK 512

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], time[12], sum[8], type;
    char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
    char prefix[155], room[12];
};
static_assert(sizeof(struct header) == BLOCK, "as the format has it");

static void put_sum(struct header *h)
{
    const unsigned char *bytes = (const unsigned char *)h;
    unsigned sum = 0;

    memset(h->sum, ' ', sizeof(h->sum));
    for (size_t i = 0; i < BLOCK; i++)
        sum += bytes[i];
    snprintf(h->sum, sizeof(h->sum), "%06o", sum);
    h->sum[7] = ' ';
}

static void pad(FILE *out, size_t size)
{
    static const char zeros[BLOCK];

    fwrite(zeros, 1, (BLOCK - size % BLOCK) % BLOCK, out);
}

int dlr_tar_file(FILE *out, const char *name, const void *data, size_t size,
                 int64_t time_s)
{
    struct header h = {.type = '0', .magic = "ustar", .version = {'0', '0'}};

    if (strlen(name) >= sizeof(h.name))
        return -ENAMETOOLONG;
    if (size >= (size_t)8 << 30)
        return -EFBIG;
    memcpy(h.name, name, strlen(name));
    snprintf(h.mode, sizeof(h.mode), "%07o", 0644u);
    snprintf(h.uid, sizeof(h.uid), "%07o", 0u);
    snprintf(h.gid, sizeof(h.gid), "%07o", 0u);
    snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)size);
    snprintf(h.time, sizeof(h.time), "%011llo",
             (unsigned long long)(time_s > 0 ? time_s : 0) & 077777777777);
    put_sum(&h);
    fwrite(&h, 1, sizeof(h), out);
    fwrite(data, 1, size, out);
    pad(out, size);
    return 0;
}

void dlr_tar_end(FILE *out)
{
    static const char zeros[2 * BLOCK];

    fwrite(zeros, 1, sizeof(zeros), out);
}
