/* SPDX-License-Identifier: Apache-2.0 */
/* A directory that checks read in place of "/". */
#ifndef DLR_TESTS_SUPPORT_FAKE_ROOT_H
#define DLR_TESTS_SUPPORT_FAKE_ROOT_H

/* A file with this text, its directories made; "-> NAME" is a link. Asserts. */
void fake_root_put(const char *root, const char *path, const char *text);
/* Removes what is in it. 0, or what system(3) says. */
int fake_root_clear(const char *root);

#endif
