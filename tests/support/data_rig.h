/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's side of dlrover-data, for tests and benchmarks: starts the program with a
 * directory of its own in node memory and speaks with it. Whatever fails ends the
 * caller with a line on stderr.
 */
#ifndef DLR_TESTS_SUPPORT_DATA_RIG_H
#define DLR_TESTS_SUPPORT_DATA_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ckpt/slot/slot.h"
#include "common/local/message.h"

#define RIG_ANSWER_MS 60000 /* limit of every wait for the program */
#define RIG_TOKEN "00112233445566778899aabbccddeeff"
#define RIG_KEY "cluster.1.run"
/* environment: of the processes that are started */
#define RIG_TRANSPORT "RIG_TRANSPORT"

/* Runs a group of tests over each transport. */
#define RIG_RUN(tests)                                                                 \
    ({                                                                                 \
        int failed_;                                                                   \
        setenv(RIG_TRANSPORT, "ucx", 1);                                               \
        failed_ = cmocka_run_group_tests_name("ucx", tests, NULL, NULL);               \
        setenv(RIG_TRANSPORT, "stream", 1);                                            \
        failed_ + cmocka_run_group_tests_name("stream", tests, NULL, NULL);            \
    })

struct rig_data {
    pid_t pid;
    int fd;
    bool alone; /* D_CONFIG says that no peer is on this host; rig_start() clears it */
    const char *hosts; /* and these, a JSON list; NULL: any. The same */
    char dir[64];
    char address[DLR_LOCAL_TEXT];
};

/* Starts it; option (may be NULL): words of its command line. dir NULL: a new one. */
void rig_start(struct rig_data *p, const char *dir, const char *option);
/* The same of another build of it. */
void rig_start_program(struct rig_data *p, const char *program, const char *dir,
                       const char *option);
/* Ends it: in order, by closing its socket, and it must end well; or by SIGKILL. */
void rig_end(struct rig_data *p);
void rig_kill(struct rig_data *p);
void rig_remove(struct rig_data *p); /* its directory */
/* Waits until it has taken what it was told before; false: it is dead. */
bool rig_alive(struct rig_data *p);

/* The next message, which must come within RIG_ANSWER_MS; its descriptors are closed.
 */
void rig_next(struct rig_data *p, struct dlr_local_msg *ret);
/* The next of this type; others before it are passed over. */
void rig_await(struct rig_data *p, enum dlr_local_type type, struct dlr_local_msg *ret);
/* True when nothing comes for so long but what it says of devices. */
bool rig_silent(struct rig_data *p, int ms);

/* accept: a JSON list, "[0,1]". */
void rig_config(struct rig_data *p, uint32_t round, const char *token,
                const char *accept);
/* The same with ranks that run there: own. */
void rig_config_own(struct rig_data *p, uint32_t round, const char *token,
                    const char *accept, const char *own);
/* The same with ranks whose copies are only read there. */
void rig_config_bring(struct rig_data *p, uint32_t round, const char *token,
                      const char *accept, const char *fetch);
/* The same where another number of ranks has made what the round begins from. */
void rig_config_resized(struct rig_data *p, uint32_t round, const char *token,
                        const char *accept, const char *fetch);
/* The slot for such a copy. */
int rig_reserve_fetched(struct rig_data *p, int32_t rank, uint64_t bytes);
/* Two slots for rank; the errno of the answer. Mapped by rig_slot(). */
int rig_reserve(struct rig_data *p, int32_t rank, uint64_t bytes);
struct dlr_slot *rig_slot(struct rig_data *p, int32_t rank, unsigned k);

/* Bytes of a slot file for a snapshot of one region of data bytes. */
uint64_t rig_slot_bytes(uint64_t data);
/* Makes a SEALED snapshot of pseudo-random bytes in slot. */
void rig_snapshot(struct dlr_slot *slot, int32_t rank, struct dlr_version v,
                  uint64_t data);

/* D_SEND, D_LOAD, D_SAVE (id: what D_DONE will carry); D_COMMIT, D_ABORT, D_DROP. */
void rig_order(struct rig_data *p, enum dlr_local_type type, uint32_t round,
               int32_t rank, struct dlr_version v, uint64_t id, const char *text);
/* D_SEND of a save's copy, which can wait. */
void rig_send_save(struct rig_data *p, uint32_t round, int32_t rank,
                   struct dlr_version v, uint64_t id, const char *address);
/* D_SAVE of a file that so many more of them, right behind it, write to. */
void rig_save(struct rig_data *p, uint32_t round, int32_t rank, struct dlr_version v,
              uint64_t id, const char *path, unsigned follow);
/* The errno of the next D_DONE; 0: it went well. text of it in why (may be NULL). */
int rig_done(struct rig_data *p, uint64_t id, char *why, size_t size);
/* The same of this request, others are passed over; -1: the process has ended. */
int rig_done_or_dead(struct rig_data *p, uint64_t id);
/* As rig_await(); false: the process has ended. */
bool rig_await_or_dead(struct rig_data *p, enum dlr_local_type type,
                       struct dlr_local_msg *ret);

/* Whether two whole slots have the same meta block and bytes. */
bool rig_same(const struct dlr_slot *a, const struct dlr_slot *b);

#endif
