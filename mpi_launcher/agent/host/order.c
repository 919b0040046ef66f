/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/host/host.h"

char *dlr_host_order(const char *run, const char *cred, char *const *words, unsigned n)
{
    DLR_AUTO_JSON json_t *msg = dlr_msg_new(words ? "run" : "end");
    DLR_AUTO_FREE char *text = NULL;
    json_t *list = words ? json_array() : NULL;

    if (!msg || json_object_set_new(msg, "run", json_string(run)) < 0)
        return NULL;
    for (unsigned i = 0; list && i < n; i++)
        json_array_append_new(list, json_string(words[i]));
    if (words && (json_object_set_new(msg, "cred", json_string(cred)) < 0 ||
                  json_object_set_new(msg, "words", list) < 0))
        return NULL;
    text = dlr_msg_text(msg);
    return text && strlen(text) + 2 <= DLR_HOST_LINE ? dlr_format_new("%s\n", text)
                                                     : NULL;
}

static int check_words(const json_t *list, const char ***ret_words, struct dlr_err *err)
{
    DLR_AUTO_FREE const char **words = NULL;
    size_t n = json_array_size(list);

    if (n == 0 || n > DLR_HOST_WORDS)
        return dlr_fail(err, -EBADMSG, "an order with %zu arguments", n);
    words = calloc(n + 1, sizeof(*words));
    if (!words)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        words[i] = json_string_value(json_array_get(list, i));
        if (!dlr_after(words[i] ? words[i] : "", "--"))
            return dlr_fail(err, -EBADMSG,
                            "an order with an argument that is no option");
    }
    *ret_words = DLR_STEAL(words);
    return 0;
}

int dlr_host_parse(const json_t *msg, const char **ret_run, const char **ret_cred,
                   const char ***ret_words, struct dlr_err *err)
{
    const char *run, *cred = NULL;

    if (dlr_msg_str(msg, "run", &run) < 0 || !run[0])
        return dlr_fail(err, -EBADMSG, "an order for no run");
    if (dlr_streq(dlr_msg_type(msg), "end")) {
        *ret_words = NULL;
        *ret_run = run;
        return 0;
    }
    if (!dlr_streq(dlr_msg_type(msg), "run") || dlr_msg_str(msg, "cred", &cred) < 0)
        return dlr_fail(err, -EBADMSG, "an order of unknown kind");
    *ret_run = run;
    *ret_cred = cred;
    return check_words(json_object_get(msg, "words"), ret_words, err);
}
