/* SPDX-License-Identifier: Apache-2.0 */
/* Versions on a disk: files of ranks' slots, one for each node that wrote some, and a
 * manifest that names them. A version is there when its manifest is; files without one
 * mean nothing.
 */
#ifndef DLR_CKPT_MANIFEST_MANIFEST_H
#define DLR_CKPT_MANIFEST_MANIFEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "ckpt/manifest/plan_file.h"
#include "common/base/err.h"

#define DLR_PERSIST_NAME 64 /* of a manifest */

/* What a file of one write is called: no two writes use a name, also of the same
 * version, since what stands in a node's file is not the same each time.
 */
struct dlr_persist_write {
    struct dlr_version version;
    uint32_t tag; /* dlr_persist_tag() */
};
uint32_t dlr_persist_tag(void); /* drawn */

/* What stands in a file, by the first letter of its name. */
#define DLR_PERSIST_HELD 'n' /* ranks that node i holds, its own and others' */
#define DLR_PERSIST_MADE 'm' /* those that node i has made of parity */
/* those of node i, which its partner wrote in its place */
#define DLR_PERSIST_IN_PLACE 'p'
#define DLR_PERSIST_ALONE 'r' /* rank i */
#define DLR_PERSIST_KINDS "nmpr"

/* "<dir>/<kind><i>-<vround>-<step>-<tag>.safetensors" */
int dlr_persist_path(const char *dir, char kind, unsigned i,
                     const struct dlr_persist_write *write, char *buf, size_t size);

/* "manifest-<vround>-<step>.json" */
int dlr_persist_manifest(struct dlr_version version, char *buf, size_t size);

/* Looks at the files that n ranks are said to be in: each is as long as they need.
 * Their number, and the sum of their bytes. Blocking.
 */
int dlr_persist_count(const struct dlr_plan_file *files, unsigned n, unsigned *ret_n,
                      uint64_t *ret_bytes, struct dlr_err *err);

/* Writes the manifest of a version into dir, durably. files holds every rank once, all
 * of one layout, each in dir and already durable; -EINVAL otherwise. Then removes what
 * is older than the newest keep versions, and older files that no manifest names; keep
 * 0: nothing. A manifest that cannot be read is named in err, which is empty otherwise:
 * it stays, and so does what it may name. Blocking.
 */
int dlr_persist_save(const char *dir, const struct dlr_plan_file *files, unsigned n,
                     unsigned keep, struct dlr_err *err);

/* Reads every manifest of dir, newest version first; *ret_files is a heap array owned
 * by the caller, of *ret_n. Every field is checked; that the files are there and whole
 * is for who loads them. -ENOENT: none was written. A manifest that is malformed is
 * passed over and named in err, which is empty otherwise; with no other it is the
 * failure. Blocking. Foreign bytes: fuzz target manifest.
 */
int dlr_persist_load(const char *dir, struct dlr_plan_file **ret_files, unsigned *ret_n,
                     struct dlr_err *err);

/* Removes versions, whose files these are: first their manifests, durably, then their
 * files, so that a crash at any moment leaves no manifest whose files are gone. Without
 * manifests (of a program without a job) only the files, of which any that is gone
 * makes the version none. What is gone already is no failure; a file that cannot be
 * removed keeps no other. passed, which may be NULL, is called after each file.
 * Blocking.
 */
typedef void (*dlr_persist_passed_fn)(void *arg, uint64_t files);
int dlr_persist_remove(const char *dir, const struct dlr_plan_file *files, unsigned n,
                       bool manifests, dlr_persist_passed_fn passed, void *arg,
                       struct dlr_err *err);

/* Removes the files of a write that got no manifest, until *stop, which another thread
 * may set. Best effort. Blocking.
 */
void dlr_persist_forget(const char *dir, const struct dlr_persist_write *write,
                        const atomic_bool *stop);

#endif
