/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps are saved where no job says so: each N-th, or as many as the time that
 * saves cost allows. Rank 0 learns it and leaves it in the directory that the ranks
 * share (man/dlr_persist.5.scd draws the file); the others take it from there.
 *
 * A version is there when every rank has saved it, and nobody tells rank 0 who has read
 * its word. So every stride is a power of two: of two strides one is a multiple of the
 * other, and a rank that reads late saves, beside steps that count for nothing, all
 * that the others save (or they do). Whatever each rank knows, the steps of the longest
 * stride among them are whole. That nothing is saved in vain as a rule, a stride holds
 * from a step on that lies LEAD strides ahead, and each rank looks at each step that it
 * saves.
 */
#ifndef DLR_CKPT_STANDALONE_SAVE_INTERVAL_H
#define DLR_CKPT_STANDALONE_SAVE_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/commit/cadence.h"

#define DLR_SAVE_INTERVAL_MAX (1u << 20)

struct dlr_save_interval {
    unsigned given; /* each so many-th step, 0: what is learned */
    unsigned budget_ppm;
    int dirfd;
    bool leads, alone; /* is rank 0; and there is no other */

    unsigned every;
    uint64_t next_from; /* from this step on */
    unsigned next;      /* it is so many; 0: nothing is to come */
    bool begun, told;
    uint64_t prev; /* the last step that began */

    /* of rank 0: since the last look */
    uint64_t saves, blocked_ns, waited_ns, steps;
    int64_t at_ns, free_ns;
    struct dlr_save_interval_open {
        uint64_t saves, steps, held_ns;
        int64_t took_ns;
    } open; /* a save whose file is still being written */
    struct dlr_mean blocked_ms, longer_ms,
        step_ms;       /* a save: held up, and seen from outside */
    double write_ms;   /* the last file, beside the program */
    bool plain;        /* step_ms is of steps without a save */
    int64_t looked_ns; /* at the file; rank 0: at the steps */
};

/* given 0: learned. dirfd stays the caller's. */
void dlr_save_interval_init(struct dlr_save_interval *s, unsigned given,
                            unsigned budget_ppm, int dirfd, int rank, int world);

/* What an earlier start has left must not be taken for this one's: rank 0, before it
 * begins.
 */
void dlr_save_interval_forget(const struct dlr_save_interval *s);

/* Whether step, which is after all that began, is saved. The first is when it is a
 * multiple.
 */
bool dlr_save_interval_due(const struct dlr_save_interval *s, uint64_t step);

/* What saving has cost this rank so far. */
struct dlr_save_interval_cost {
    uint64_t saves, blocked_ns;
    /* of it, for a file before: a longer stride ends that, so it counts for no save */
    uint64_t waited_ns;
    bool writing;     /* a file is being written beside the program, right now, */
    int64_t write_ns; /* and the last one took so long; 0: there was none */
};

/* step begins at now_ns, after what dlr_save_interval_due() has said of it: what is
 * learned or read counts for later steps. Blocking, for the file.
 */
void dlr_save_interval_begin(struct dlr_save_interval *s, uint64_t step, int64_t now_ns,
                             const struct dlr_save_interval_cost *cost);

/* The file's text, rank 0's word. False for any other text, and nothing is set.
 * Foreign bytes: fuzz target save_interval.
 */
bool dlr_save_interval_parse(const char *text, uint64_t *ret_from, unsigned *ret_every);

#endif
