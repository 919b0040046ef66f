/* SPDX-License-Identifier: Apache-2.0 */
/* Supervisor and agent, killed at the Nth of what they say, hear and write. Linked into
 * $(BUILD)/stepped/dlrover-{supervisor,agent} alone, whose objects are the product's: the
 * calls are taken at the link seam (DAEMON_POINTS in mk/check.mk).
 *
 * A point is a journal event or a state just handed to its writer, the state of a
 * take-over just saved, a JSON message to another node about to be sent or just taken,
 * and the same of a message to a process of the node. Beats and leases are none.
 *
 * The environment names a file of orders, a line each: "PROGRAM HOST LIFE POINT", all
 * counted from 1; a life is a process of that program on that host which came to a
 * point. Each point is a line of FILE.log, with what it is at the end:
 * "PROGRAM HOST LIFE POINT WHAT"; the last one of a process that was killed as ordered
 * has "killed: " before that. FILE.PROGRAM.HOST has a byte for each life.
 */
#ifndef DLR_TESTS_FAULTS_DAEMON_POINTS_H
#define DLR_TESTS_FAULTS_DAEMON_POINTS_H

#define DAEMON_POINTS_ENV "STEPPED_ORDERS"

#endif
