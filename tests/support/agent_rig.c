/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/agent_rig.h"

#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/host/host.h"
#include "mpi_launcher/wire/identity.h"
#include "tests/support/private_munged.h"

static const struct dlr_run_id run = {"17", "run", 1};

/* --- start and end ---------------------------------------------------------------- */

static const char *other_program;
static struct rig *started; /* the last one */

void dlr_rig_use(const char *program)
{
    other_program = program;
}

static void agent_path(char *buf, size_t size)
{
    char here[4096];

    if (other_program) {
        dlr_format(buf, size, "%s", other_program);
        return;
    }
    assert_int_equal(dlr_install_path_sibling("..", here, sizeof(here)), 0);
    dlr_format(buf, size, "%s/dlrover-agent", here);
}

static void exec_agent(struct rig *r, const char *cred, const char *more)
{
    char path[4200], self[4096], words[13][4200];
    const char *argv[16] = {path};
    const char *vetted = getenv("DLR_TEST_VETTED");
    unsigned n = 0, kept = r->kept;

    agent_path(path, sizeof(path));
    dlr_install_path_sibling(program_invocation_short_name, self, sizeof(self));
    dlr_format(words[n++], 4200, "--control=127.0.0.1:%u", dlr_server_port(r->server));
    dlr_format(words[n++], 4200, "--job=%s", run.job);
    dlr_format(words[n++], 4200, "--run=%s", run.run);
    dlr_format(words[n++], 4200, "--gen=%u", run.gen);
    dlr_format(words[n++], 4200, "--memory=%s", r->memory);
    dlr_format(words[n++], 4200, "--run-dir=%s", r->dir);
    dlr_format(words[n++], 4200, "--key=c.17.run");
    dlr_format(words[n++], 4200, "--node=n1");
    dlr_format(words[n++], 4200, "--data-program=%s", self);
    dlr_format(words[n++], 4200, "--report-program=%s", self);
    dlr_format(words[n++], 4200, "--vetted-every=%s", vetted ? vetted : "0");
    dlr_format(words[n++], 4200, "--persist=off");
    dlr_format(words[n++], 4200, "--heartbeat=%dms:%d", RIG_EVERY_MS,
               (int)r->dead_ms / RIG_EVERY_MS);
    argv[1] = "--kept";
    for (unsigned i = 0; i < n; i++)
        argv[kept + i + 1] = words[i];
    argv[kept + n + 1] = more;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
    setenv("DLROVER_CRED", cred, 1);
    setenv("DLR_TEST_ROLE", "child", 1);
    setenv("DLR_TEST_LOG", r->log, 1);
    execv(path, (char *const *)argv);
    _exit(127);
}

static void welcome(struct rig *r)
{
    json_t *hello = dlr_rig_expect(r, "hello");
    char key[DLR_KEY_TEXT];
    struct dlr_err err = {0};

    while (dlr_streq(dlr_rig_str(hello, "key"), r->peer_key)) { /* its predecessor's */
        json_decref(hello);
        hello = dlr_rig_expect(r, "hello");
    }
    assert_int_equal(dlr_identity_verify(dlr_rig_str(hello, "cred"), &run, key, &err),
                     0);
    assert_string_equal(key, dlr_rig_str(hello, "key"));
    assert_string_equal(dlr_rig_str(hello, "node"), "n1");
    dlr_format(r->peer_addr, sizeof(r->peer_addr), "%s", dlr_rig_str(hello, "addr"));
    memcpy(r->peer_key, key, sizeof(key));
    json_decref(hello);
    dlr_rig_say(r, "welcome", "s:i, s:i, s:i", "gen", 1, "dead_ms", (int)r->dead_ms,
                "end_ms", 2000);
    dlr_rig_sync(r); /* what it knows is told again after a welcome: let that pass */
}

static void spawn_agent(struct rig *r, const char *more)
{
    DLR_AUTO_FREE char *cred = NULL;
    struct dlr_err err = {0};

    assert_int_equal(dlr_identity_credential(r->id, &run, &cred, &err), 0);
    r->pid = fork();
    if (r->pid == 0)
        exec_agent(r, cred, more);
    r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
}

void dlr_rig_replace(struct rig *r)
{
    struct rig old = *r;

    spawn_agent(r, NULL);
    sigqueue(old.pid, SIGTERM, (union sigval){.sival_int = DLR_HOST_END});
    assert_int_equal(dlr_rig_wait_end(&old), 0);
    welcome(r);
}

static void start(struct rig *r, const char *more, unsigned dead_ms, bool kept)
{
    struct dlr_err err = {0};

    memset(r, 0, sizeof(*r));
    started = r;
    r->kept = kept;
    if (!dlr_test_munged_runs())
        skip();
    dlr_format(r->dir, sizeof(r->dir), "/tmp/dlr-agent-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    dlr_format(r->memory, sizeof(r->memory), "%s/dlrover-0-17/run", r->dir);
    dlr_format(r->socket, sizeof(r->socket), "%s/agent.sock", r->memory);
    dlr_format(r->log, sizeof(r->log), "%s/log", r->dir);
    r->leasing = true;
    r->holding = false;
    r->dead_ms = dead_ms;
    assert_int_equal(dlr_identity_new(&r->id, &err), 0);
    assert_int_equal(dlr_server_new(r->id, "127.0.0.1", 0, 0, 0, &r->server, &err), 0);
    spawn_agent(r, more);
    welcome(r);
}

void dlr_rig_start(struct rig *r, const char *more)
{
    start(r, more, RIG_LEASE_MS, false);
}

void dlr_rig_start_leased(struct rig *r)
{
    start(r, NULL, RIG_DEAD_MS, false);
}

void dlr_rig_start_kept(struct rig *r, unsigned dead_ms)
{
    start(r, NULL, dead_ms, true);
}

int dlr_rig_wait_end(struct rig *r)
{
    struct pollfd p = {.fd = r->pidfd, .events = POLLIN};

    if (r->pidfd < 0)
        return r->status;
    assert_int_equal(poll(&p, 1, RIG_WAIT_MS), 1);
    waitpid(r->pid, &r->status, 0);
    close(r->pidfd);
    r->pidfd = -1;
    return r->status;
}

void dlr_rig_stop(struct rig *r)
{
    char cmd[128], job[128];

    if (r->pidfd >= 0) {
        sigqueue(r->pid, SIGTERM, (union sigval){.sival_int = DLR_HOST_END});
        assert_int_equal(dlr_rig_wait_end(r), 0);
    }
    dlr_format(job, sizeof(job), "%s/dlrover-0-17", r->dir);
    assert_int_equal(access(job, F_OK), -1);
    r->server = dlr_server_free(r->server);
    r->id = dlr_identity_free(r->id);
    dlr_format(cmd, sizeof(cmd), "rm -r '%s'", r->dir);
    assert_int_equal(system(cmd), 0);
    r->dir[0] = '\0';
}

void dlr_rig_abandon(struct rig *r)
{
    char cmd[128];

    if (r->pidfd >= 0 && r->pid > 0) {
        kill(r->pid, SIGKILL);
        waitpid(r->pid, NULL, 0);
        close(r->pidfd);
    }
    r->pidfd = -1;
    r->server = dlr_server_free(r->server);
    r->id = dlr_identity_free(r->id);
    dlr_format(cmd, sizeof(cmd), "rm -rf '%s'", r->dir);
    if (r->dir[0])
        (void)!system(cmd);
    r->dir[0] = '\0';
}

/* --- supervisor ------------------------------------------------------------------- */

static void take_beat(struct rig *r, const struct dlr_packet *p)
{
    unsigned char buf[DLR_HEARTBEAT_BYTES];
    struct dlr_heartbeat lease;

    assert_int_equal(dlr_heartbeat_unpack(p->data, p->size, &r->beat), 0);
    assert_int_equal(r->beat.kind, DLR_HEARTBEAT);
    if (!r->leasing)
        return;
    lease =
        (struct dlr_heartbeat){.kind = DLR_LEASE,
                               .gen = r->beat.gen,
                               .seq = r->beat.seq,
                               .sent_ns = r->beat.sent_ns,
                               .round = r->beat.round,
                               .lease_ms = r->holding ? DLR_LEASE_HELD : r->dead_ms};
    dlr_heartbeat_pack(&lease, buf);
    dlr_server_send(r->server, &p->from, buf, sizeof(buf));
}

/* The next JSON message before the deadline, NULL: none, or the agent is dead. */
static json_t *next(struct rig *r, int64_t deadline_ms)
{
    zmq_pollitem_t items[] = {
        {.socket = zsock_resolve(dlr_server_sock(r->server)), .events = ZMQ_POLLIN},
        {.fd = r->pidfd, .events = ZMQ_POLLIN}};
    int n = r->pidfd >= 0 ? 2 : 1;

    for (;;) {
        int64_t left = deadline_ms - dlr_now_ms();
        struct dlr_packet p;
        json_t *msg = NULL;

        if (left < 0 || zmq_poll(items, n, left) <= 0)
            return NULL;
        if (!items[0].revents)
            return NULL;
        if (dlr_server_recv(r->server, &p) <= 0)
            continue;
        r->agent = p.from;
        if (dlr_heartbeat_is(p.data, p.size))
            take_beat(r, &p);
        else
            assert_int_equal(dlr_msg_parse(p.data, p.size, &msg, NULL), 0);
        dlr_packet_done(&p);
        if (msg)
            return msg;
    }
}

static json_t *find(struct rig *r, const char *type, int64_t ms)
{
    int64_t deadline_ms = dlr_now_ms() + ms;
    json_t *msg;

    while ((msg = next(r, deadline_ms))) {
        if (getenv("DLR_TEST_TRACE")) {
            char *text = json_dumps(msg, JSON_COMPACT);

            print_message("got %.160s\n", text);
            free(text);
        }
        if (dlr_streq(dlr_msg_type(msg), type))
            return msg;
        json_decref(msg);
    }
    return NULL;
}

json_t *dlr_rig_expect_or_dead(struct rig *r, const char *type)
{
    json_t *msg = find(r, type, RIG_WAIT_MS);
    struct pollfd p = {.fd = r->pidfd, .events = POLLIN};

    if (!msg && poll(&p, 1, 0) != 1)
        fail_msg("no '%s' came", type);
    return msg;
}

json_t *dlr_rig_expect(struct rig *r, const char *type)
{
    json_t *msg = find(r, type, RIG_WAIT_MS);

    if (!msg)
        fail_msg("no '%s' came", type);
    return msg;
}

void dlr_rig_await(struct rig *r, const char *type)
{
    json_decref(dlr_rig_expect(r, type));
}

bool dlr_rig_silent(struct rig *r, const char *type, int64_t ms)
{
    json_t *msg = find(r, type, ms);

    json_decref(msg);
    return !msg;
}

void dlr_rig_say(struct rig *r, const char *type, const char *fmt, ...)
{
    DLR_AUTO_JSON json_t *msg = dlr_msg_new(type);
    char object[256];
    va_list ap;
    int rc;

    dlr_format(object, sizeof(object), "{%s}", fmt);
    va_start(ap, fmt);
    if (*fmt) {
        json_t *more = json_vpack_ex(NULL, 0, object, ap);

        assert_non_null(more);
        json_object_update(msg, more);
        json_decref(more);
    }
    va_end(ap);
    rc = dlr_server_send_json(r->server, &r->agent, msg);
    if (rc != -EHOSTUNREACH) /* its death is found when it does not answer */
        assert_int_equal(rc, 0);
}

void dlr_rig_round(struct rig *r, unsigned round, const char *ranks,
                   const char *restore)
{
    json_t *list = json_loads(ranks, 0, NULL);
    json_t *from = json_loads(restore, JSON_DECODE_ANY, NULL);

    dlr_rig_say(r, "round",
                "s:i, s:s, s:[{s:s, s:o, s:s}, {s:s, s:[i], s:s}], s:{s:[s], s:[s]}, "
                "s:o",
                "round", (int)round, "token", RIG_TOKEN, "nodes", "node", "n1", "ranks",
                list, "data", "aa", "node", "n2", "ranks", 9, "data", "bb", "partners",
                "n1", "n2", "n2", "n1", "restore", from);
}

/* An order for a round that cannot be is answered by nothing else. False: the agent is
 * dead.
 */
static bool ask_and_hear(struct rig *r)
{
    static int id = 1000000;
    bool mine = false;

    dlr_rig_say(r, "send", "s:i, s:I, s:i, s:i, s:i, s:s", "id", ++id, "round",
                (json_int_t)UINT32_MAX, "rank", 0, "vround", 0, "step", 0, "data", "");
    while (!mine) {
        json_t *msg = dlr_rig_expect_or_dead(r, "done");

        if (!msg)
            return false;
        mine = dlr_rig_int(msg, "id") == id;
        json_decref(msg);
    }
    return true;
}

/* The agent looks at all its sources before it looks at one again, in an order that we
 * do not know: its second answer is later than all that was there before the first.
 */
bool dlr_rig_alive(struct rig *r)
{
    return ask_and_hear(r) && ask_and_hear(r);
}

void dlr_rig_sync(struct rig *r)
{
    if (!dlr_rig_alive(r))
        fail_msg("the agent is dead");
}

void dlr_rig_begin(struct rig *r, const char *more, unsigned round, const char *ranks,
                   const char *restore)
{
    dlr_rig_start(r, more);
    dlr_rig_round(r, round, ranks, restore);
    dlr_rig_sync(r);
}

json_int_t dlr_rig_int(const json_t *msg, const char *key)
{
    const json_t *j = json_object_get(msg, key);

    if (!json_is_integer(j))
        fail_msg("no number '%s'", key);
    return json_integer_value(j);
}

const char *dlr_rig_str(const json_t *msg, const char *key)
{
    const char *text = json_string_value(json_object_get(msg, key));

    if (!text)
        fail_msg("no text '%s'", key);
    return text;
}

/* --- plugin and workers ----------------------------------------------------------- */

int dlr_rig_connect(struct rig *r)
{
    struct dlr_err err = {0};
    int fd = -1;

    if (dlr_local_connect(r->socket, RIG_WAIT_MS, &fd, &err) < 0)
        fail_msg("%s", err.text);
    return fd;
}

void dlr_rig_send(int fd, enum dlr_local_type type, unsigned round, int rank,
                  uint64_t step, uint64_t arg0, uint64_t arg1)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, type);
    m.round = round;
    m.rank = rank;
    m.step = step;
    m.arg[0] = arg0;
    m.arg[1] = arg1;
    assert_int_equal(dlr_local_send(fd, &m, NULL, 0), 0);
}

bool dlr_rig_recv(int fd, struct dlr_local_msg *ret, int ret_fds[DLR_LOCAL_FDS],
                  unsigned *ret_nfds)
{
    int rc;

    *ret_nfds = 0;
    rc = dlr_local_recv(fd, ret, ret_fds, ret_nfds);
    if (rc < 0 && rc != -ECONNRESET)
        fail_msg("nothing came: %s", strerror(-rc));
    return rc > 0;
}

bool dlr_rig_noted(struct rig *r, const char *line)
{
    int notify = inotify_init1(IN_CLOEXEC);
    struct pollfd p = {.fd = notify, .events = POLLIN};
    bool found = false;
    char buf[65536];

    inotify_add_watch(notify, r->dir, IN_MODIFY | IN_CREATE);
    for (int64_t end = dlr_now_ms() + RIG_WAIT_MS; !found && dlr_now_ms() < end;) {
        DLR_AUTO_CLOSE int fd = open(r->log, O_RDONLY);
        ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);

        buf[n > 0 ? n : 0] = '\0';
        found = strstr(buf, line) != NULL;
        if (!found && poll(&p, 1, (int)(end - dlr_now_ms())) > 0)
            (void)!read(notify, buf, sizeof(buf));
    }
    close(notify);
    return found;
}

int dlr_rig_clear(void **state)
{
    if (started)
        dlr_rig_abandon(started);
    return 0;
}

/* One program at a time, until it ends: an agent kills what carries its run's marks,
 * and all of them play the same run.
 */
static void take_turns(void)
{
    char path[PATH_MAX];
    int fd;

    assert_int_equal(dlr_install_path_sibling(".", path, sizeof(path)), 0);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
}

int dlr_rig_munged(void **state)
{
    take_turns();
    dlr_test_munged_start();
    return 0;
}

int dlr_rig_munged_end(void **state)
{
    dlr_test_munged_stop();
    return 0;
}
