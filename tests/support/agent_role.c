/* SPDX-License-Identifier: Apache-2.0 */
/* The data process and the report program as the agent's tests have them: real slots,
 * no UCX; each order is noted in a file, every transfer succeeds at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/slot.h"
#include "ckpt/slot/store.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "common/local/split.h"
#include "tests/support/agent_rig.h"

#define AGENT_FD 3

static int dir_fd = -1;

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *fmt, ...)
{
    int fd =
        open(getenv("DLR_TEST_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    va_list ap;

    va_start(ap, fmt);
    vdprintf(fd, fmt, ap);
    va_end(ap);
    close(fd);
}

/* "[4,9]"; of a long one how many and which is the last. */
static char *list_text(const json_t *list)
{
    size_t n = json_array_size(list);
    char *text = NULL;

    if (n <= 100)
        return json_dumps(list, JSON_COMPACT);
    if (asprintf(&text, "%zu ranks, the last %d", n,
                 (int)json_integer_value(json_array_get(list, n - 1))) < 0)
        return NULL;
    return text;
}

static void on_config(const struct dlr_local_msg *m)
{
    static struct dlr_split parts;
    int rc = dlr_split_take(&parts, m);
    DLR_AUTO_JSON json_t *conf = rc > 0 ? json_loads(parts.text, 0, NULL) : NULL;
    DLR_AUTO_FREE char *accept = list_text(json_object_get(conf, "accept"));

    DLR_AUTO_FREE char *fetch =
        json_array_size(json_object_get(conf, "fetch"))
            ? json_dumps(json_object_get(conf, "fetch"), JSON_COMPACT)
            : NULL;

    if (rc == 0)
        return;
    if (dir_fd >= 0)
        close(dir_fd);
    dir_fd =
        open(json_string_value(json_object_get(conf, "dir")), O_RDONLY | O_DIRECTORY);
    note("config %u %s %s %s%s%s\n", m->round,
         json_string_value(json_object_get(conf, "key")),
         json_string_value(json_object_get(conf, "token")), accept,
         fetch ? " brings " : "", fetch ? fetch : "");
}

static void on_reserve(const struct dlr_local_msg *m)
{
    struct dlr_local_msg reply;
    struct dlr_err err = {0};
    int rc = 0;

    note("reserve %d %llu\n", m->rank, (unsigned long long)m->arg[0]);
    dlr_local_init(&reply, DLR_LOCAL_D_RESERVED);
    reply.rank = m->rank;
    reply.arg[0] = m->arg[1];
    reply.arg[2] = m->arg[2];
    for (unsigned k = 0; rc == 0 && k < m->arg[1]; k++) {
        struct dlr_slot *slot = NULL;
        char name[64];

        dlr_store_name(m->rank, (unsigned)m->arg[2] + k, name, sizeof(name));
        rc = dlr_slot_create(dir_fd, name, m->arg[0], &slot, &err);
        dlr_slot_unmap(slot);
    }
    reply.arg[1] = (uint64_t)-rc;
    dlr_local_text(&reply, "%s", err.text);
    dlr_local_send(AGENT_FD, &reply, NULL, 0);
}

/* What the data process says of its devices at its first send, where a test has named
 * one.
 */
static void say_uses(void)
{
    const char *device = getenv("DLR_TEST_USES");
    static bool told;
    struct dlr_local_msg m;

    if (!device || told)
        return;
    told = true;
    dlr_local_init(&m, DLR_LOCAL_D_USES);
    dlr_local_text(&m, "{\"uses\":\"%s\",\"mbps\":1000,\"faster\":\"\",\"numa\":[0]}",
                   device);
    dlr_local_send(AGENT_FD, &m, NULL, 0);
}

static void end_transfer(const struct dlr_local_msg *m)
{
    struct dlr_local_msg reply = *m;

    reply.type = DLR_LOCAL_D_DONE;
    reply.arg[2] = 0;
    reply.text_len = 0;
    if (m->type == DLR_LOCAL_D_SEND && getenv("DLR_TEST_HOLE")) {
        reply.arg[2] = ETIMEDOUT;
        dlr_local_text(&reply, "nothing gets through");
    }
    dlr_local_send(AGENT_FD, &reply, NULL, 0);
}

/* The copy that it was asked to write has gone bad in memory, or has come there again.
 */
static void say_of(const struct dlr_local_msg *m, enum dlr_local_type type,
                   const char *text)
{
    struct dlr_local_msg said;

    dlr_local_init(&said, type);
    said.rank = m->rank;
    said.step = m->step;
    said.arg[0] = m->arg[0];
    dlr_local_text(&said, "%s", text);
    dlr_local_send(AGENT_FD, &said, NULL, 0);
}

static void on_transfer(const struct dlr_local_msg *m, const char *what)
{
    static struct dlr_local_msg held;

    note("%s %d %llu/%llu %s%s\n", what, m->rank, (unsigned long long)m->arg[0],
         (unsigned long long)m->step, m->text, m->arg[3] ? " .." : "");
    if (dlr_streq(m->text, "/hold")) {
        held = *m; /* it goes on until "/let-go" */
        return;
    }
    if (dlr_streq(m->text, "/bad"))
        say_of(m, DLR_LOCAL_D_BAD, "block 2 is corrupt in memory");
    if (dlr_streq(m->text, "/made"))
        say_of(m, DLR_LOCAL_D_COPIED, "");
    end_transfer(m);
    if (dlr_streq(m->text, "/let-go"))
        end_transfer(&held);
}

static void on_version(const struct dlr_local_msg *m, const char *what)
{
    note("%s %llu/%llu\n", what, (unsigned long long)m->arg[0],
         (unsigned long long)m->step);
}

static void obey(const struct dlr_local_msg *m)
{
    switch (m->type) {
    case DLR_LOCAL_D_CONFIG:
        on_config(m);
        return;
    case DLR_LOCAL_D_RESERVE:
        on_reserve(m);
        return;
    case DLR_LOCAL_D_SEND:
        say_uses();
        on_transfer(m, "send");
        return;
    case DLR_LOCAL_D_LOAD:
    case DLR_LOCAL_D_ADOPT:
        on_transfer(m, "load");
        return;
    case DLR_LOCAL_D_SAVE:
        on_transfer(m, "save");
        return;
    case DLR_LOCAL_D_COMMIT:
        on_version(m, "commit");
        return;
    case DLR_LOCAL_D_ABORT:
        on_version(m, "abort");
        return;
    case DLR_LOCAL_D_DROP:
        on_version(m, "drop");
        return;
    default:
        note("what is %u?\n", m->type);
    }
}

static void be_data_process(char **argv)
{
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds;

    dlr_local_init(&m, DLR_LOCAL_D_HELLO);
    dlr_local_text(&m, "c0ffee%d", (int)getpid());
    dlr_local_send(AGENT_FD, &m, NULL, 0);
    note("pid %d\n", (int)getpid());
    while (*++argv)
        note("word %s\n", *argv);
    while (dlr_local_recv(AGENT_FD, &m, fds, &nfds) > 0)
        obey(&m);
}

/* Whether the report program is told something, and by no file that needs room. */
static bool told_in_memory(const char *path)
{
    DLR_AUTO_JSON json_t *input = json_load_file(path, 0, NULL);
    char at[256] = "";

    return json_is_object(input) && readlink(path, at, sizeof(at) - 1) > 0 &&
           dlr_after(at, "/memfd:");
}

void dlr_rig_role(int argc, char **argv)
{
    if (!dlr_streq(getenv("DLR_TEST_ROLE"), "child"))
        return;
    if (argc > 1 && dlr_streq(argv[1], "--no-mpi"))
        printf("a line before\nDLROVER-REPORT {\"node\":\"n1\",\"told\":%s}\n",
               told_in_memory(dlr_after(argv[2], "--input=")) ? "true" : "false");
    else
        be_data_process(argv);
    exit(0);
}
