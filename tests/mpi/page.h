/* SPDX-License-Identifier: Apache-2.0 */
/* The watch page of the process, as tests see it; also for Fortran, by value. */
#ifndef DLR_TESTS_MPI_PAGE_H
#define DLR_TESTS_MPI_PAGE_H

#include "watch/look.h"
#include "watch/page.h"

struct dlr_watch_page *test_page(void);
long test_calls(void); /* counted so far */
struct dlr_look test_look(void);

/* The call of this name was made, and counted as many times; else says so, and
 * test_failed() is not 0.
 */
void test_counted(const char *name, long before, long times);
int test_failed(void);

/* Names of the table which the library that is loaded has, and which were not counted. */
void test_missing(void);

#endif
