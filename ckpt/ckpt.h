/* SPDX-License-Identifier: Apache-2.0 */
/* libdlrover: checkpoints in memory, made beside the training step and kept on two
 * nodes.
 *
 * A program names the memory that is its state once, then says once per step where that
 * memory is at rest. Under a job started with --dlrover the snapshots live in the
 * node's memory and in a partner node's; the supervisor decides which steps are saved,
 * and after a failure every rank loads the same version. Without such a job the same
 * calls write files in a directory, so that a program can be developed on a laptop.
 *
 *     struct dlr_ckpt *ck;
 *     uint64_t step = 0;
 *
 *     if (dlr_ckpt_open(NULL, &ck) < 0)
 *         die(dlr_ckpt_error(NULL));
 *     dlr_ckpt_add_array(ck, "weights", DLR_CKPT_SHARD, "f32", sizeof(float), w, nw);
 *     dlr_ckpt_add_array(ck, "moments", DLR_CKPT_SHARD, "f32", sizeof(float), m, nm);
 *     if (dlr_ckpt_restore(ck, &step) < 0)      // 1: loaded, step is set; 0: fresh
 *     start
 *         die(dlr_ckpt_error(ck));
 *     while (step < last) {
 *         compute_gradients();                  // reads the state
 *         dlr_ckpt_fence(ck, NULL);             // the copies of the last begin are
 *         done
 *         update_weights();                     // writes the state
 *         step++;
 *         dlr_ckpt_begin(ck, step, NULL);       // the state is that of 'step' from
 *         here on
 *     }
 *     dlr_ckpt_fence(ck, NULL);
 *     dlr_ckpt_close(ck);
 *
 * Link with -ldlrover (pkg-config dlrover). The library links neither MPI, CUDA nor
 * UCX. It is not thread-safe: one handle is used by one thread at a time; it starts
 * helper threads of its own. Every function returns a negative errno on failure and
 * keeps a line of text for dlr_ckpt_error(). No failure of saving ever ends or blocks
 * the program: begin and fence report it and the next steps go on. After fork(2) a
 * handle is the parent's alone: in the child begin, fence, flush, progress, save_now and
 * close do nothing, what names, reads, marks or waits for something is -EBUSY.
 */
#ifndef DLR_CKPT_CKPT_H
#define DLR_CKPT_CKPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLR_CKPT_NAME_MAX 255
#define DLR_CKPT_DIMS_MAX 8
#define DLR_CKPT_DTYPE_MAX 15

struct dlr_ckpt; /* opaque */

/* Where and who. Fields left 0 or NULL are taken from the environment; all of conf may
 * be NULL. Strings are copied.
 */
struct dlr_ckpt_conf {
    const char *dir;   /* standalone: directory of the files. DLROVER_CKPT_DIR, else
                          "./dlrover-ckpt" */
    int rank, world;   /* world 0: from RANK/WORLD_SIZE, OMPI_COMM_WORLD_RANK/SIZE,
                          PMI_RANK/SIZE, SLURM_PROCID/SLURM_NTASKS, else 0 of 1 */
    unsigned every;    /* standalone: save each N-th step, or the first after it when a
                          program leaves steps out. DLROVER_CKPT_EVERY, else as many
                          as DLROVER_CKPT_BUDGET allows, the same on all ranks */
    unsigned fence_ms; /* budget of one fence: after it the snapshot is given up.
                          Where only a stream waits: of the copies, from when it has
                          come to begin. DLROVER_CKPT_FENCE_MS, else 10000 */
    /* copy threads, 0: DLROVER_CKPT_THREADS, else 1; from a device 4, or as many as the
     * process has CPUs
     */
    unsigned threads;
};

enum dlr_ckpt_kind {
    DLR_CKPT_SHARD = 0,      /* this rank's box of a global array */
    DLR_CKPT_REPLICATED = 1, /* the same on every rank, bit for bit, and named by each:
                                under a job the ranks of a node save a part each */
    DLR_CKPT_LOCAL = 2, /* this rank's own: generator state, position in the data */
    DLR_CKPT_BLOB = 3,  /* bytes copied at once in begin; may change their length up
                                to the length they were added with */
};

/* A box of memory. global_shape, offset and local_shape have ndim entries, in items;
 * stride is in bytes, 0 throughout for a contiguous box in C order. Others name a view
 * of a larger array (a slice, a transposed matrix): it is gathered and put back item by
 * item, items must not overlap, a stride may be negative (addr is the box's first item
 * then, not its lowest), and a BLOB has none.
 */
struct dlr_ckpt_region {
    const char *name; /* unique in this rank, <= DLR_CKPT_NAME_MAX bytes, UTF-8 */
    enum dlr_ckpt_kind kind;
    /* "f32", "bf16", "u8": text kept with the data, not interpreted */
    const char *dtype;
    uint32_t item_size; /* bytes */
    uint32_t ndim;      /* 0: one item */
    uint64_t global_shape[DLR_CKPT_DIMS_MAX];
    uint64_t offset[DLR_CKPT_DIMS_MAX];
    uint64_t local_shape[DLR_CKPT_DIMS_MAX];
    int64_t stride[DLR_CKPT_DIMS_MAX];
    void *addr; /* stays the program's; host or CUDA device memory */
};

struct dlr_ckpt_version {
    uint32_t round; /* of the run that made it; 0 when alone */
    uint64_t step;
    uint64_t bytes; /* this rank saved; 0 when it was no rank of that world */
    uint32_t world; /* ranks that made it */
};

/* Opens the checkpoint of this rank. Blocking: when DLROVER_AGENT_SOCKET is set it
 * connects to the node's agent (<= 5 s) and waits until what is to be restored has come
 * to this node (<= DLROVER_RESTORE_MS); else it creates dir. *ret_ck: dlr_ckpt_close().
 */
int dlr_ckpt_open(const struct dlr_ckpt_conf *conf, struct dlr_ckpt **ret_ck);

/* Names a region. The same box at the same address under another name (tied weights) is
 * stored once, under the first. -EEXIST for a name given twice, -EINVAL for a malformed
 * box.
 *
 * After the first begin, too: the regions as they are at the next begin make another
 * layout (optimizer state that is there from step 1 on). Such a call waits for the
 * copies of the last begin, -EBUSY when they take longer than a fence may. Larger
 * snapshots get more memory beside the steps; until it is here nothing is saved.
 * Versions of the old layout stay what is restored until one of the new layout is
 * committed: the program that restores names the regions of the version it gets, or
 * allows names that are missing.
 */
int dlr_ckpt_add(struct dlr_ckpt *ck, const struct dlr_ckpt_region *region);

/* Shorthand for a one-dimensional region of n items whose box is the whole array. */
int dlr_ckpt_add_array(struct dlr_ckpt *ck, const char *name, enum dlr_ckpt_kind kind,
                       const char *dtype, uint32_t item_size, void *addr, uint64_t n);

/* Forgets all regions, so that those named after it make the layout of the next begin:
 * regions that are gone or lie elsewhere now. Waits as dlr_ckpt_add() does, -EBUSY.
 */
int dlr_ckpt_clear(struct dlr_ckpt *ck);

/* Sets the length in bytes of a BLOB for the begins that follow. -ENOENT, -ERANGE. */
int dlr_ckpt_blob_size(struct dlr_ckpt *ck, const char *name, uint64_t bytes);

/* The versions restore could take, newest first: at most max, their number is returned.
 * Under a job that is the one version all ranks agreed on, -EBADMSG when its head is
 * not sound here; alone only the files' heads are looked at, by rank 0 those of all, by
 * others their own and rank 0's: restore may find one corrupt.
 */
int dlr_ckpt_list(struct dlr_ckpt *ck, struct dlr_ckpt_version *ret, unsigned max);

/* What a rank of the version that restore takes (or has taken) had, region by region in
 * the order of the version, so that a program can allocate before it names its regions
 * and restores: at most max of them into ret, and, where ret_bytes is not NULL, their
 * bytes, of a BLOB its length then (its local_shape is the room it had). Their number
 * is returned. A region that the ranks of a node kept between them is described whole;
 * a further name of tied weights is not among them; addr is NULL. Names and dtypes are
 * the handle's until the next call of this, or dlr_ckpt_close().
 *
 * After open and before the first begin; regions need not be named. rank is one of the
 * version's (dlr_ckpt_version.world), which may have been another number than now:
 * boxes are those of then. -ENOENT: there is nothing to restore, no such rank, or no
 * copy of it within reach (as dlr_ckpt_peek()); -EBADMSG: its head is corrupt. Under a
 * job only this node's memory and the heads of files are looked at, and another rank's
 * copy is fetched if need be; alone the version is chosen now, as restore would and for
 * it, with what that waits for and reads. Blocking.
 */
int dlr_ckpt_regions(struct dlr_ckpt *ck, int rank, struct dlr_ckpt_region *ret,
                     uint64_t *ret_bytes, unsigned max);

/* Names that only one side has: in the version and not named here (left over), or named
 * here and not in the version (missing; such a region is left as it is). Either is an
 * error of restore unless what (a sum of these) allows it. -EBUSY: after a restore that
 * went well, or the first begin.
 */
enum dlr_ckpt_unmatched { DLR_CKPT_LEFTOVER = 1, DLR_CKPT_MISSING = 2 };
int dlr_ckpt_allow(struct dlr_ckpt *ck, unsigned what);

/* The names that restore found on one side only, whether that was allowed or made it
 * fail: at most max of them, their number is returned. They are the handle's. -EINVAL
 * for another what.
 */
int dlr_ckpt_unmatched(const struct dlr_ckpt *ck, enum dlr_ckpt_unmatched what,
                       const char **ret_names, unsigned max);

/* Loads the newest version that every rank holds whole, verified by CRC32C, into the
 * regions. Collective in effect: all ranks load the same version or none returns. 1
 * with *ret_step set; 0 when there is nothing to restore (regions untouched); -EBADMSG
 * when the data does not match the regions named (text says which region). Blocking,
 * bounded by the supervisor's restore limit. Call once, before the first begin.
 *
 * A version that another number of ranks made is loaded too, and one whose SHARDs were
 * cut otherwise: a SHARD's box is put together from the boxes of the same name and
 * global shape, a REPLICATED region comes from any rank or from ranks that have a part
 * of it, LOCAL and BLOB are those of the rank with this number (missing when there was
 * none: dlr_ckpt_allow(), dlr_ckpt_peek()). Boxes that several ranks had must be equal
 * there: -EBADMSG when they are not.
 */
int dlr_ckpt_restore(struct dlr_ckpt *ck, uint64_t *ret_step);

/* In place of restore, for a program without a job that has read the version of step by
 * itself (another format, a subset, one rank for all): what it saves goes on from that
 * version, as after a restore, so that both count among those that are kept and what is
 * newer is set aside. Looks at one file's head and reads no data; no region is touched
 * or has to be named. All ranks call it before their first begin, or rank 0 before the
 * others' first begin. -ENOENT: rank 0 has no file of step; -EBADMSG: its head is
 * corrupt; -EBUSY: another program saves there, or after restore or begin. Under a job
 * -ENOTSUP: all ranks restore there. Blocking, at most 10 s, for a program that is
 * being ended.
 */
int dlr_ckpt_go_on(struct dlr_ckpt *ck, uint64_t step);

/* Reads a region of any rank of the version that restore loaded, or before it will, a
 * rank that is no more included (one that a node's ranks kept between them whole): up
 * to room bytes into buf, the region's bytes in *ret_bytes (buf may be NULL: only how
 * many) and what it was in *ret_region (may be NULL; name and dtype are the handle's
 * until the next call, addr is NULL). After open and before the first begin; what was
 * read before restore counts once that has returned 1. -ENOENT: there is nothing to
 * restore, or no such rank, region, or copy within reach (under a job: of any node,
 * which may have to be fetched, or a written file); -ERANGE: buf is too small;
 * -EBADMSG: a block is corrupt. Blocking.
 */
int dlr_ckpt_peek(struct dlr_ckpt *ck, int rank, const char *name, void *buf,
                  uint64_t room, uint64_t *ret_bytes,
                  struct dlr_ckpt_region *ret_region);

/* 1 when the begin of step is one that may save, 0 when a save of it was not decided:
 * then dlr_ckpt_progress() does as much. For programs to which getting their state
 * ready costs something. The first begin, and the first after dlr_ckpt_clear(), always
 * is one. Does not block.
 */
int dlr_ckpt_due(const struct dlr_ckpt *ck, uint64_t step);

/* Says that the regions hold the state of step and stay as they are until fence. Starts
 * copying when a save of this step was decided, otherwise the step is only reported.
 * stream: a cudaStream_t whose work precedes the copies, NULL for host memory. 1 when a
 * snapshot was started, 0 when none is due, or when under a job the last one is not
 * over: then no rank's save of this step counts. Steps must increase. Does not block,
 * except that alone it waits (at most fence_ms) while two snapshots are still being
 * written to files. -EBUSY (alone), -ENODEV and the like: the step was due and could
 * not be saved. -EINPROGRESS: the stream is captured into a graph; the call counts for
 * nothing, make it after the graph's launch.
 */
int dlr_ckpt_begin(struct dlr_ckpt *ck, uint64_t step, void *stream);

/* After it the regions may change. Host memory: waits for the copies of the last begin,
 * at most fence_ms; then that version is given up (-ETIMEDOUT, counted) and memory may
 * change all the same. Device memory, with at most 16 MiB of host memory beside it that
 * is not pinned: makes stream wait for the copies. The host waits until the device has
 * all of them to do: they are given to it at once, but for what needs the staging
 * buffer more than once. Nothing waits where all was copied in begin (64 KiB of host
 * memory, BLOBs). 0 when nothing was pending. -EBADMSG: DLROVER_CKPT_AUDIT found that a
 * region changed since begin (the text names it); the version is given up unless all
 * ranks committed it meanwhile. -EINPROGRESS: the stream is captured into a graph,
 * which would not wait for later copies: make it before the graph's launch. Alone,
 * files are written behind the program: a later fence returns the failure of one.
 */
int dlr_ckpt_fence(struct dlr_ckpt *ck, void *stream);

/* Waits until what was begun and fenced is durable (standalone: in files), at most 5
 * minutes: -ETIMEDOUT. Returns the failure of one that is not, as a later fence would.
 * For a copy it waits at most fence_ms. Under a job it waits for the copies only: stats
 * say what is committed. Close does the same.
 */
int dlr_ckpt_flush(struct dlr_ckpt *ck);

/* Asks for a save point of the program's own, whatever is due. Under a job the
 * supervisor orders a save at the next step that all ranks still hear of in time, a few
 * steps from now, for all of them: the steps must go on until then. One rank's word is
 * enough. Where a version of this rank's next step or a later one is ordered by then it
 * is that one, where an older one is undecided the order comes when it is decided, and
 * what is given up is ordered again: who asks with every step has one save after the
 * other, never two at a time. What was asked for ends with the round. Alone the next
 * begin is due, of this rank: all ranks ask before the same begin, or no version is
 * whole. 0. Does not block; a signal handler and other threads may call it while the
 * handle is open.
 */
int dlr_ckpt_save_now(struct dlr_ckpt *ck);

/* Waits until a version of step or a later one is safe (under a job committed, as
 * committed_step in the stats; alone in this rank's durable file), at most limit_ms: 1
 * when it is, 0 when it is not by then. What was restored is safe. It does not wait for
 * what cannot come while it waits: -ENODATA, where no step from step on was begun and is
 * being saved, or it was given up. -ECONNRESET: the agent is gone. Alone the failure of
 * a file that could not be written, as a later fence would return it. Uses no CPU time.
 * The regions may change only after a fence, as ever.
 */
int dlr_ckpt_wait(struct dlr_ckpt *ck, uint64_t step, unsigned limit_ms);

/* Reports a step to the supervisor without saving: for programs that save nothing.
 * begin does this by itself. Does not block.
 */
int dlr_ckpt_progress(struct dlr_ckpt *ck, uint64_t step);

/* Says that the state was bad from step on (a loss that is no number): no version of
 * step or later that was made up to now is restored by anybody, in this round or after
 * a requeue; the newest older one is. It does not end the round: the program exits with
 * an error then, and is started again. One rank's word is enough. 0 when the supervisor
 * is told (standalone: when this rank's files are set aside). -ECONNRESET, -ETIMEDOUT
 * and the like: nobody could be told.
 */
int dlr_ckpt_mark_bad(struct dlr_ckpt *ck, uint64_t step);

/* What this handle did so far. Later versions of the library append counters: a program
 * is to be compiled with the header of the library that it runs with.
 */
struct dlr_ckpt_stats {
    uint64_t saves, given_up;    /* snapshots started; of them given up */
    uint64_t committed_step;     /* newest step known as safe on two nodes (standalone:
                                    in a durable file); 0 none */
    uint64_t begin_ns, fence_ns; /* total time spent in these calls */
    uint64_t copied_bytes;
    uint64_t changed; /* fences that found a region changed (DLROVER_CKPT_AUDIT) */
    uint64_t skipped; /* under a job: ordered steps not saved, no slot being free */
    uint64_t held_ns; /* fences held the device stream; known to a later begin */
    uint64_t load_ns; /* of restore, without waiting for other ranks */
};
void dlr_ckpt_stats(const struct dlr_ckpt *ck, struct dlr_ckpt_stats *ret);

/* The last failure's text: of this handle, or of dlr_ckpt_open() in this thread when ck
 * is NULL. Never NULL.
 */
const char *dlr_ckpt_error(const struct dlr_ckpt *ck);

/* Waits for pending copies as fence does and for files as flush does, tells the agent,
 * frees. Accepts NULL. Where a device does not come to a snapshot's copies, or within
 * 10 s to what a fence put behind them, their memory stays, and says a warning.
 */
void dlr_ckpt_close(struct dlr_ckpt *ck);

#ifdef __cplusplus
}
#endif
#endif
