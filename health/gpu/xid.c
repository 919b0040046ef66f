/* SPDX-License-Identifier: Apache-2.0 */
#include "health/gpu/xid.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

#define RECOVERY 154u
#define RESET "drain the node, nvidia-smi --gpu-reset"
#define VENDOR ", to the vendor if it comes back"

// clang-format off
const struct dlr_xid dlr_xids[] = {
    {46,  DLR_HEALTH_DRAIN, "the GPU has stopped processing",        RESET VENDOR},
    {48,  DLR_HEALTH_DRAIN, "double bit memory error",               RESET VENDOR},
    {62,  DLR_HEALTH_DRAIN, "internal micro-controller halted",      RESET VENDOR},
    {63,  DLR_HEALTH_WARN,  "a memory row is to be remapped",        "see check gpu-memory"},
    {64,  DLR_HEALTH_DRAIN, "a memory row could not be remapped",    RESET VENDOR},
    {74,  DLR_HEALTH_FAIL,  "NVLink error",                          "reset all GPUs of the node" VENDOR},
    {79,  DLR_HEALTH_DRAIN, "the GPU has fallen off the bus",        "drain and power-cycle the node" VENDOR},
    {92,  DLR_HEALTH_WARN,  "many corrected memory errors",          "to the vendor if it comes back"},
    {94,  DLR_HEALTH_WARN,  "memory error, contained to a program",  "see check gpu-memory"},
    {95,  DLR_HEALTH_DRAIN, "memory error, not contained",           RESET VENDOR},
    {109, DLR_HEALTH_DRAIN, "context switch timed out",              RESET VENDOR},
    {110, DLR_HEALTH_DRAIN, "security engine fault",                 RESET VENDOR},
    {119, DLR_HEALTH_DRAIN, "the GPU's firmware (GSP) does not answer", RESET VENDOR},
    {120, DLR_HEALTH_DRAIN, "error of the GPU's firmware (GSP)",     RESET VENDOR},
    {121, DLR_HEALTH_WARN,  "error of the link to the CPU (C2C)",    "to the vendor if it comes back"},
    {140, DLR_HEALTH_DRAIN, "memory error that was not recovered",   RESET VENDOR},
    {143, DLR_HEALTH_DRAIN, "the GPU cannot be initialized",         RESET VENDOR},
    /* RESET_GPU, but intended changes of a link raise it, too: gpu-link tells them apart */
    {155, DLR_HEALTH_WARN,  "an NVLink went down",                   "see check gpu-link"},
    {156, DLR_HEALTH_DRAIN, "a part of the GPU is to be retired",    RESET},
    {157, DLR_HEALTH_WARN,  "a part of the GPU could not be retired", "to the vendor"},
    {0, DLR_HEALTH_OK, NULL, NULL},
};
// clang-format on

int64_t dlr_xid_time_us(const char *record)
{
    char *end;
    long long us;

    for (int commas = 0; commas < 2; record++) {
        if (*record != ',' && (*record < '0' || *record > '9'))
            return -1;
        commas += *record == ',';
    }
    us = strtoll(record, &end, 10);
    return end > record && (*end == ',' || *end == ';') && us >= 0 ? us : -1;
}

static unsigned hex(const char **at)
{
    char *end;
    unsigned long value = strtoul(*at, &end, 16);

    *at = end;
    return (unsigned)value;
}

/* "DOMAIN:BUS:DEVICE" */
static bool read_bus(const char *text, unsigned ret[3])
{
    for (int i = 0; i < 3; i++) {
        if (!strchr("0123456789abcdefABCDEF", *text) || !*text)
            return false;
        ret[i] = hex(&text);
        if (i < 2 && *text++ != ':')
            return false;
    }
    return true;
}

bool dlr_xid_is_bus(const char *logged, const char *nvml)
{
    unsigned a[3], b[3];

    return read_bus(logged, a) && read_bus(nvml, b) && memcmp(a, b, sizeof(a)) == 0;
}

static struct dlr_xid_of *of_gpu(struct dlr_xid_log *log, const char *bus)
{
    for (unsigned i = 0; i < log->n; i++)
        if (dlr_streq(log->of[i].bus, bus))
            return &log->of[i];
    if (log->n == DLR_XID_GPUS)
        return NULL;
    memset(&log->of[log->n], 0, sizeof(log->of[0]));
    dlr_format(log->of[log->n].bus, sizeof(log->of[0].bus), "%s", bus);
    return &log->of[log->n++];
}

static void count(struct dlr_xid_of *of, unsigned number,
                  enum dlr_health_verdict verdict, const char *what)
{
    of->n++;
    if (verdict <= of->verdict)
        return;
    of->verdict = verdict;
    of->number = number;
    of->what = what;
}

static void forget(struct dlr_xid_of *of)
{
    of->verdict = DLR_HEALTH_OK;
    of->number = of->n = 0;
    of->what = NULL;
}

/* "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)": the word
 * behind "to", numbers are not the same in all releases.
 */
static void recovery(struct dlr_xid_of *of, const char *text)
{
    const char *to = strstr(text, " to 0x");
    const char *word = to ? strchr(to, '(') : NULL;

    if (!word)
        return;
    if (dlr_after(word, "(None"))
        forget(of);
    else if (strstr(word, "Reboot"))
        count(of, RECOVERY, DLR_HEALTH_DRAIN, "the driver wants the node rebooted");
    else if (strstr(word, "Reset"))
        count(of, RECOVERY, DLR_HEALTH_DRAIN, "the driver wants the GPU reset");
    else
        count(of, RECOVERY, DLR_HEALTH_FAIL, "the driver wants an action");
}

/* "(PCI:0000:1b:00): 79, ..." */
static void take(struct dlr_xid_log *log, const char *text)
{
    const char *bus = dlr_after(text, "("), *close = strchr(text, ')');
    char name[sizeof(log->of[0].bus)];
    struct dlr_xid_of *of;
    unsigned long number;
    char *end;

    if (!bus || !close || !dlr_after(close, "): "))
        return;
    bus = dlr_after(bus, "PCI:") ? dlr_after(bus, "PCI:") : bus;
    if (dlr_format(name, sizeof(name), "%.*s", (int)(close - bus), bus) < 0)
        return;
    number = strtoul(close + 3, &end, 10);
    of = end > close + 3 ? of_gpu(log, name) : NULL;
    if (!of)
        return;
    if (number == RECOVERY)
        recovery(of, end);
    for (const struct dlr_xid *x = dlr_xids; x->number; x++)
        if (x->number == number)
            count(of, x->number, x->verdict, x->what);
}

void dlr_xid_record(struct dlr_xid_log *log, const char *record, int64_t now_us)
{
    const char *text = strchr(record, ';');
    int64_t us = dlr_xid_time_us(record);

    text = text ? dlr_after(text + 1, "NVRM: Xid ") : NULL;
    if (text && us >= 0 && now_us - us <= DLR_XID_WINDOW_S * INT64_C(1000000))
        take(log, text);
}
