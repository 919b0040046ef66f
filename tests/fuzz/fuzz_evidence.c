/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/evidence */
/* Text of a program, as `dlrover evidence` masks it by dlr_evidence_redact(): what is
 * not masked is as it was, and nothing that ends or escapes a string of JSON is masked.
 */
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/evidence/redact.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size ? size : 1);
    size_t found, masked = 0;

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    found = dlr_evidence_redact(text, size);
    for (size_t i = 0; i < size; i++) {
        if (text[i] == (char)data[i])
            continue;
        FUZZ_CHECK(text[i] == '*' && data[i] && !strchr("\"\\\n", data[i]));
        masked++;
    }
    FUZZ_CHECK(found || !masked);
    free(text);
    return 0;
}
