/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of this suite, which are in the program, so that no file can be missing. */
#include "watch/classify.h"

/* The build runs in the root, and mk/build.mk knows that this depends on the file. */
__asm__(".pushsection .rodata\n"
        "dlr_own_rules_text:\n"
        ".incbin \"etc/failures.conf\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char dlr_own_rules_text[] __attribute__((visibility("hidden")));

int dlr_class_rules_add_own(struct dlr_class_rules *r, struct dlr_err *err)
{
    return dlr_class_rules_parse(r, dlr_own_rules_text, err);
}
