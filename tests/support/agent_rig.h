/* SPDX-License-Identifier: Apache-2.0 */
/* A real dlrover-agent with everything around it played by the test: supervisor,
 * slurmstepd, workers, data process (this program once more, see dlr_rig_role()).
 */
#ifndef DLR_TESTS_SUPPORT_AGENT_RIG_H
#define DLR_TESTS_SUPPORT_AGENT_RIG_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/local/message.h"
#include "mpi_launcher/wire/endpoint.h"
#include "mpi_launcher/wire/heartbeat.h"

#define RIG_WAIT_MS 30000 /* for what must come */
#define RIG_EVERY_MS 50
#define RIG_DEAD_MS 1500   /* of tests about it: we must not pause for so long */
#define RIG_LEASE_MS 45000 /* of all others */
#define RIG_TOKEN "00112233445566778899aabbccddeeff"

struct rig {
    struct dlr_identity *id;
    struct dlr_server *server;
    struct dlr_route agent;    /* of its last message */
    bool kept;                 /* pid is the parent that starts it again, not itself */
    bool leasing;              /* beats are answered */
    bool holding;              /* with a lease without end */
    unsigned dead_ms;          /* how long a lease is */
    struct dlr_heartbeat beat; /* the last one */
    pid_t pid;
    int pidfd, status;
    char memory[128], socket[160], log[128], peer_addr[64], peer_key[DLR_KEY_TEXT];
    char dir[64];
};

/* Plays data process or report program and does not return when started as one. */
void dlr_rig_role(int argc, char **argv);

/* From now on this build of the agent is started. */
void dlr_rig_use(const char *program);
/* Starts munged, server and agent, waits for its hello and welcomes it; skips the test
 * where there is no munged. more: a further option or NULL.
 */
void dlr_rig_start(struct rig *r, const char *more);
/* The same with leases that run out while the test waits for it: RIG_DEAD_MS. */
void dlr_rig_start_leased(struct rig *r);
/* The same as Slurm's task starts it: under a parent that starts it again when it dies.
 * Leases are dead_ms long.
 */
void dlr_rig_start_kept(struct rig *r, unsigned dead_ms);
/* Ends what is left, frees; fails the test when the agent left something behind. */
void dlr_rig_stop(struct rig *r);
/* Starts another agent in the place of the first, which is told to end meanwhile. */
void dlr_rig_replace(struct rig *r);
/* Takes away what a failed test has left; dlr_rig_clear() is the same as a test's
 * teardown, for the rig that was started last.
 */
void dlr_rig_abandon(struct rig *r);
int dlr_rig_clear(void **state);
/* The agent's end, waited for; its wait status. */
int dlr_rig_wait_end(struct rig *r);

/* The next message of this type; others are dropped, beats answered. The caller's. */
json_t *dlr_rig_expect(struct rig *r, const char *type);
/* The same, and nobody wants to know what it says. */
void dlr_rig_await(struct rig *r, const char *type);
/* The same; NULL: the agent has died before. */
json_t *dlr_rig_expect_or_dead(struct rig *r, const char *type);
/* True when no message of type comes within ms. */
bool dlr_rig_silent(struct rig *r, const char *type, int64_t ms);
/* {"v":1,"t":type} and the members of json_pack's format. */
void dlr_rig_say(struct rig *r, const char *type, const char *fmt, ...);
/* Returns when the agent has taken everything that we said before, and the next message
 * that each worker and the data process had sent. Drops what came meanwhile.
 */
void dlr_rig_sync(struct rig *r);
/* The same; false: it has died instead. */
bool dlr_rig_alive(struct rig *r);
/* A round in which this node ("n1") has these ranks, and "n2" the rank 9 whose copies
 * come here.
 */
void dlr_rig_round(struct rig *r, unsigned round, const char *ranks,
                   const char *restore);
/* dlr_rig_start(), and this round, which the agent has taken. */
void dlr_rig_begin(struct rig *r, const char *more, unsigned round, const char *ranks,
                   const char *restore);
json_int_t dlr_rig_int(const json_t *msg, const char *key);
const char *dlr_rig_str(const json_t *msg, const char *key);

/* Setup and teardown of a group of tests: a munged of their own. */
int dlr_rig_munged(void **state);
int dlr_rig_munged_end(void **state);

/* Local side: a connection; a message on it; the next one from the agent, false: end of
 * file.
 */
int dlr_rig_connect(struct rig *r);
void dlr_rig_send(int fd, enum dlr_local_type type, unsigned round, int rank,
                  uint64_t step, uint64_t arg0, uint64_t arg1);
bool dlr_rig_recv(int fd, struct dlr_local_msg *ret, int ret_fds[DLR_LOCAL_FDS],
                  unsigned *ret_nfds);
/* True once the fake data process has noted this line. */
bool dlr_rig_noted(struct rig *r, const char *line);

/* A whole program of such tests. */
#define RIG_TEST(name) cmocka_unit_test_teardown(name, dlr_rig_clear)
#define RIG_MAIN(...)                                                                  \
    int main(int argc, char **argv)                                                    \
    {                                                                                  \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                               \
                                                                                       \
        dlr_rig_role(argc, argv);                                                      \
        return cmocka_run_group_tests(tests, dlr_rig_munged, dlr_rig_munged_end);      \
    }

#endif
