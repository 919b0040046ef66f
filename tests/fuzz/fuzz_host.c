/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/agent/host,common/local,common/config */
/* Orders to the process that holds a node's place in the agents' step, one a line: what
 * is taken starts a program with options only, and is the same when it is written and
 * read again.
 */
#include <jansson.h>

#include "common/json/message.h"
#include "mpi_launcher/agent/host/host.h"
#include "tests/fuzz/fuzz.h"

static void check_again(const char *run, const char *cred, const char **words)
{
    const char *run2, *cred2 = NULL, **words2 = NULL;
    json_t *msg = NULL;
    unsigned n = 0;
    char *line;

    while (words && words[n])
        n++;
    line = dlr_host_order(run, cred, (char *const *)words, n);
    if (!line) /* as text it is longer than a line may be */
        return;
    FUZZ_CHECK(strlen(line) < DLR_HOST_LINE);
    FUZZ_CHECK(strchr(line, '\n') == line + strlen(line) - 1);
    FUZZ_CHECK(dlr_msg_parse(line, strlen(line) - 1, &msg, NULL) == 0);
    FUZZ_CHECK(dlr_host_parse(msg, &run2, &cred2, &words2, NULL) == 0);
    FUZZ_CHECK(strcmp(run, run2) == 0 && !words == !words2);
    FUZZ_CHECK(!words || strcmp(cred, cred2) == 0);
    for (unsigned i = 0; i < n; i++)
        FUZZ_CHECK(words2[i] && strcmp(words[i], words2[i]) == 0);
    FUZZ_CHECK(!words || !words2[n]);
    free(words2);
    json_decref(msg);
    free(line);
}

static void take(const char *line)
{
    const char *run = NULL, *cred = NULL, **words = NULL;
    json_t *msg = NULL;
    struct dlr_err err;

    if (dlr_msg_parse(line, strlen(line), &msg, &err) < 0)
        return;
    if (dlr_host_parse(msg, &run, &cred, &words, &err) == 0) {
        FUZZ_CHECK(run[0]);
        for (unsigned i = 0; words && words[i]; i++)
            FUZZ_CHECK(i < DLR_HOST_WORDS && strncmp(words[i], "--", 2) == 0);
        check_again(run, cred, words);
        free(words);
    }
    json_decref(msg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *rest = text, *line;

    while ((line = fuzz_line(&rest)))
        take(line);
    free(text);
    return 0;
}
