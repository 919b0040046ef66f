/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a process by SIGKILL at a chosen place of the code under test, one place after
 * the other.
 *
 * That code is compiled by $(BUILD)/steps/: the compiler puts a call to here before
 * each basic block, so no source knows of it and no step is forgotten. A first run that
 * is left alone records which blocks it comes through and how often; each of them is a
 * point then.
 *
 * The table lies in a file, so that it serves forked children and programs that are
 * started.
 */
#ifndef DLR_TESTS_FAULTS_KILL_POINTS_H
#define DLR_TESTS_FAULTS_KILL_POINTS_H

#include <stdbool.h>

/* A fork costs ten times as much under the address sanitizer, which has nothing to say
 * about kills: it is shown every fifth point.
 */
#ifdef __SANITIZE_ADDRESS__
#define KILL_POINTS_STRIDE 5
#else
#define KILL_POINTS_STRIDE 1
#endif

/* of a started program: the table's path */
#define KILL_TABLE_ENV "DLR_TEST_KILL_TABLE"

/* A new table at path. The points are the first pass of each block and, if last_too,
 * the last.
 */
void kill_points_new(const char *path, bool last_too);

/* What the processes that have the table do from now on: they count what they pass, end
 * at point i (from 0), or neither. The caller counts as one of them from its first
 * arming on, a program by its environment; other processes pass by unseen.
 */
enum { KILL_POINTS_OFF = -2, KILL_POINTS_RECORD = -1 };
void kill_points_order(int point); /* of other processes */
void kill_points_arm(int point);   /* of this one, too */
/* After a recorded run the points are known then. */
void kill_points_off(void);
unsigned kill_points_count(void);

#endif
