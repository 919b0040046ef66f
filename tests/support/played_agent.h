/* SPDX-License-Identifier: Apache-2.0 */
/* The library under a job, against an agent played by this program: a thread while the
 * library waits for answers, the test itself after that.
 */
#ifndef DLR_TESTS_SUPPORT_PLAYED_AGENT_H
#define DLR_TESTS_SUPPORT_PLAYED_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/page.h"
#include "ckpt/ckpt.h"
#include "ckpt/slot/slot.h"
#include "common/local/message.h"

#define PLAYED_KEY "cluster.7.run"
#define PLAYED_ROUND 4
#define PLAYED_BYTES 1000000 /* bytes of "weights": with the rest two blocks */
#define PLAYED_WAIT_MS 30000

struct played_agent {
    char dir[64], path[96];
    int dirfd, listener, conn;
    int page_fd;
    struct dlr_page *page;
    struct dlr_slot *slots[2];
    struct dlr_local_msg msg; /* the last one received */

    /* what the thread does */
    pthread_t thread;
    bool offer, no_go, hang_up;
    struct dlr_version version;
    uint64_t offer_slot;
    const char *key;
    struct dlr_local_msg restored;
};

struct played {
    struct played_agent agent;
    struct dlr_ckpt *ck;
    unsigned char *weights;
    uint64_t count;
    char warned[256];
    atomic_bool was_warned;
};

int played_setup(void **state);
int played_teardown(void **state);

/* The agent's thread: it welcomes one worker. */
void played_start(struct played *f);
void played_regions(struct played *f);
/* A program that has opened its checkpoint and named its regions. */
void played_join(struct played *f);

/* The state of a step, and that it is there. */
void played_fill(struct played *f, uint64_t step);
void played_filled(struct played *f, uint64_t step);

/* The library's next message into agent.msg; 1 when there was one. */
int played_receive(struct played_agent *a);
/* The same, of this type, or the test fails. */
void played_expect(struct played *f, enum dlr_local_type type);
/* Sends two slots; those that are there and too small grow and keep what they hold. */
void played_give(struct played *f, uint64_t bytes);
/* Waits for RESERVE and answers it. */
void played_slots(struct played *f);
void played_order(struct played *f, uint64_t step, uint64_t slot);
/* Begins steps until one is saved: the slots may take a moment to arrive. Each step
 * that was ordered and not saved must be reported. Returns the saved step.
 */
uint64_t played_save_from(struct played *f, uint64_t step, uint64_t slot);

/* A sealed snapshot of step in slot k, by a former life of this rank. */
void played_former_life(struct played *f, uint64_t step, uint64_t k);
/* The next life is offered this version, said to be in slot k. */
void played_offer(struct played *f, uint64_t step, uint64_t k);

#endif
