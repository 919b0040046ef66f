/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/slurm/network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define TEXT_MAX (64u << 20) /* bytes of a description */

/* Without SLURM_TOPO_LEN, which makes it cut its lines. NULL: it says nothing. */
static char *ask_slurm(void)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0, got = 1;
    FILE *in;

    unsetenv("SLURM_TOPO_LEN");
    in = popen("scontrol show topology 2>/dev/null", "re");
    while (in && got && size < TEXT_MAX) {
        char *more = realloc(text, size + 65537);

        if (!more)
            break;
        text = more;
        got = fread(text + size, 1, 65536, in);
        size += got;
        text[size] = '\0';
    }
    if (in)
        pclose(in);
    return size ? DLR_STEAL(text) : NULL;
}

int dlr_network_paths(const char *file, struct dlr_topo_node *nodes, unsigned n,
                      struct dlr_network *ret)
{
    DLR_AUTO_FREE char *from_file = NULL, *from_slurm = ask_slurm();
    char note[DLR_TOPO_NOTE];
    struct dlr_topo_source sources[2];
    struct dlr_err err = {0};
    int at;

    if (file[0] && dlr_file_load(AT_FDCWD, file, TEXT_MAX, &from_file, NULL, &err) < 0)
        from_file = NULL;
    sources[0] = (struct dlr_topo_source){file, from_file};
    sources[1] = (struct dlr_topo_source){"Slurm", from_slurm};
    at = dlr_topo_paths_from_sources(sources, 2, nodes, n, note);
    if (at < -1)
        return at;
    ret->source = at < 0 ? NULL : sources[at].name;
    dlr_format(ret->note, sizeof(ret->note), "%.200s%s%.300s", err.text,
               err.text[0] && note[0] ? "; " : "", note);
    return 0;
}

void dlr_network_write(const struct dlr_network *network,
                       const struct dlr_topo_node *nodes, unsigned n, FILE *out)
{
    fprintf(out, "%s\n%s\n", network->source ? network->source : "-", network->note);
    for (unsigned i = 0; network->source && i < n; i++)
        fprintf(out, "%s %s\n", nodes[i].name, nodes[i].path);
}
