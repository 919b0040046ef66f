/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves the user's hands has no secret that a name gives away, and is the same
 * text otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/evidence/redact.h"

static void values_of_secret_names_are_masked(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"--token=abc", "--token=***"},
        {"--token abc --steps 7", "--token *** --steps 7"},
        {"[\"train.py\",\"--api-key\",\"s3cr3t\",\"--lr\",\"1\"]",
         "[\"train.py\",\"--api-key\",\"******\",\"--lr\",\"1\"]"},
        {"HF_TOKEN=hf_123 WANDB_API_KEY='k1'", "HF_TOKEN=****** WANDB_API_KEY='**'"},
        {"{\"password\": \"pa-ss\", \"n\": 1}", "{\"password\": \"*****\", \"n\": 1}"},
        {"Authorization: Bearer abc.def", "Authorization: Bearer *******"},
        {"authorization: basic QWxh", "authorization: basic ****"},
        {"url?access_key=A1&n=2", "url?access_key=**&n=2"},
        {"{\\\"client_secret\\\":\\\"x\\\"}", "{\\\"client_secret\\\":\\\"*\\\"}"},
        {"[\"--passphrase\",\"correct horse\"]",
         "[\"--passphrase\",\"*************\"]"},
        {"--password='a;b&c' x", "--password='*****' x"},
        {"{\"secret\":\"a\\\"b\"}", "{\"secret\":\"****\"}"},
        {"Authorization: Token ghp_x", "Authorization: Token *****"},
        {"{\"e\":\"access token:\\nTraceback\"}",
         "{\"e\":\"access token:\\nTraceback\"}"},
        {"--secret=", "--secret="},
        {"Password:hunter2", "Password:*******"},
        /* not a secret */
        {"12 tokens per second", "12 tokens per second"},
        {"the token that it has", "the token that it has"},
        {"tokenizer=gpt2", "tokenizer=gpt2"},
        {"--tokens=12", "--tokens=12"},
        {"token", "token"},
        {"secretary: Ms. X", "secretary: Ms. X"},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[128];

        snprintf(text, sizeof(text), "%s", rows[i].text);
        assert_int_equal(dlr_evidence_redact(text, strlen(text)),
                         strchr(rows[i].want, '*') ? strstr(rows[i].want, "API") ? 2 : 1
                                                   : 0);
        assert_string_equal(text, rows[i].want);
    }
    (void)state;
}

/* The page behind the text is not there: a byte too far is a fault. */
static void text_that_ends_anywhere_is_not_read_beyond(void **state)
{
    static const char whole[] = "x --api-key \"Bearer abc\" token: y";

    for (size_t n = 0; n <= sizeof(whole) - 1; n++) {
        char *text = malloc(n ? n : 1);

        assert_non_null(text);
        memcpy(text, whole, n);
        dlr_evidence_redact(text, n);
        free(text);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_secret_names_are_masked),
        cmocka_unit_test(text_that_ends_anywhere_is_not_read_beyond),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
