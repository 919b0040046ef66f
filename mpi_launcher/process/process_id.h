/* SPDX-License-Identifier: Apache-2.0 */
/* A process that others ask for later: a pid alone may be somebody else's by then. */
#ifndef DLR_MPI_LAUNCHER_PROCESS_PROCESS_ID_H
#define DLR_MPI_LAUNCHER_PROCESS_PROCESS_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DLR_PROCID_HOST 65
#define DLR_PROCID_TEXT 128

struct dlr_procid {
    pid_t pid;
    unsigned long long start;   /* clock ticks from the host's boot to the process's */
    char host[DLR_PROCID_HOST]; /* where pid and start mean something */
};

/* Of a process of this host. -ESRCH when there is none, or only what is left to be
 * reaped.
 */
int dlr_procid_of(pid_t pid, struct dlr_procid *ret);

/* Its parent, also of one that waits to be reaped; -ESRCH when it is gone. */
pid_t dlr_procid_parent(pid_t pid);

/* What proc(5) calls its state, 'Z' too, and its start as in struct dlr_procid; -ESRCH.
 */
int dlr_procid_state(pid_t pid, uint64_t *ret_start, char *ret_state);

/* True when that very process runs on this host. One of another host cannot be asked:
 * false.
 */
bool dlr_procid_alive(const struct dlr_procid *id);

/* "PID START HOST" and back; -EBADMSG. */
void dlr_procid_show(const struct dlr_procid *id, char text[DLR_PROCID_TEXT]);
int dlr_procid_parse(const char *text, struct dlr_procid *ret);

#endif
