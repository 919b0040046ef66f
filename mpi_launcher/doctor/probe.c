/* SPDX-License-Identifier: Apache-2.0 */
/* What the step over a job's nodes (across_nodes.c) runs on each of them. */
#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/doctor/doctor.h"

#define CONNECT_MS 2000 /* a node to reach the host that asks */
#define TOLD 2          /* problems a node tells: its line must come through whole */

static bool connects(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM},
                    *at = NULL;
    DLR_AUTO_CLOSE int fd =
        socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd pfd = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(int);
    int error = -1;

    if (fd < 0 || getaddrinfo(host, port, &hints, &at) != 0)
        return false;
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0)
        error = 0;
    else if (errno == EINPROGRESS && poll(&pfd, 1, CONNECT_MS) == 1)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    freeaddrinfo(at);
    return error == 0;
}

static json_t *problems_here(const struct dlr_doctor *d)
{
    json_t *list = json_array();

    for (const struct dlr_doctor_check *c = dlr_doctor_checks; c->name; c++) {
        struct dlr_doctor_result r;

        if (!(c->where & DLR_DOCTOR_NODE) || json_array_size(list) >= TOLD)
            continue;
        dlr_doctor_run(d, c, &r);
        r.text[300] = '\0';
        if (r.verdict == DLR_DOCTOR_PROBLEM)
            json_array_append_new(
                list, json_pack("{s:s,s:s}", "check", c->name, "text", r.text));
    }
    return list;
}

int dlr_doctor_probe(int argc, char **argv)
{
    struct dlr_doctor d = {
        .root = "", .limit_ms = DLR_DOCTOR_LIMIT_MS, .config_rc = -ENODATA};
    const char *name = getenv("SLURMD_NODENAME"),
               *back = getenv("SLURM_LAUNCH_NODE_IPADDR");
    DLR_AUTO_JSON json_t *j = NULL;
    DLR_AUTO_FREE char *text = NULL;
    char host[256] = "";
    int64_t now = dlr_wall_ns();

    if (argc != 6)
        return 2;
    gethostname(host, sizeof(host) - 1);
    dlr_format(d.plugstack, sizeof(d.plugstack), "%s", argv[1]);
    dlr_format(d.plugin_dirs, sizeof(d.plugin_dirs), "%s", argv[2]);
    dlr_format(d.release, sizeof(d.release), "%s", argv[3]);
    d.job = getenv("SLURM_JOB_ID");
    j = json_pack("{s:s,s:s,s:I,s:b,s:b,s:o}", "node", name ? name : host, "version",
                  DLR_VERSION, "ns", (json_int_t)now, "reach",
                  back ? connects(back, argv[4]) : 0, "state",
                  access(argv[5], F_OK) == 0, "problems", problems_here(&d));
    text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    printf(DLR_DOCTOR_MARK "%s\n", text ? text : "{}");
    return 0;
}
