/* SPDX-License-Identifier: Apache-2.0 */
/* Who may connect to the ports that libraries of this process open: listen(2) is this module's here, so that no port
 * is open for a moment to everybody.
 */
#ifndef DLR_CKPT_DATA_LISTEN_H
#define DLR_CKPT_DATA_LISTEN_H

#include <stdbool.h>

/* Whether processes of this host may, which are another user's as a rule: not before this is said. Of a port
 * that is open, too, and of connections that are made from then on.
 */
void dlr_listen_local(bool admit);

#endif
