/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/evidence lib=jansson */
/* Text of a program, as `dlrover evidence` masks it by dlr_evidence_redact(): what is
 * not masked is as it was, no line ends elsewhere, and JSON stays JSON.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/evidence/redact.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size ? size : 1);
    size_t found, masked = 0;
    json_t *was, *is;

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    found = dlr_evidence_redact(text, size);
    for (size_t i = 0; i < size; i++) {
        if (text[i] == (char)data[i])
            continue;
        FUZZ_CHECK(text[i] == '*' && data[i] && data[i] != '\n');
        masked++;
    }
    FUZZ_CHECK(found || !masked);
    was = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    is = json_loadb(text, size, JSON_DECODE_ANY, NULL);
    FUZZ_CHECK(!was || is);
    json_decref(was);
    json_decref(is);
    free(text);
    return 0;
}
