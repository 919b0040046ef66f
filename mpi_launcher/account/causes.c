/* SPDX-License-Identifier: Apache-2.0 */
/* What causes are called. */
#include "mpi_launcher/account/account.h"

static const struct {
    const char *name, *words;
} causes[DLR_ACCOUNT_CAUSES] = {
    [DLR_ACCOUNT_FIRST] = {"first", "steps done for the first time"},
    [DLR_ACCOUNT_REDONE] = {"redone", "steps done again after a restore"},
    [DLR_ACCOUNT_SAVE] = {"save", "steps held up by saves"},
    [DLR_ACCOUNT_DETECT] = {"detect", "failures that were not known yet"},
    [DLR_ACCOUNT_END] = {"end", "processes of a round go away"},
    [DLR_ACCOUNT_RENDEZVOUS] = {"rendezvous", "nodes meet and are checked"},
    [DLR_ACCOUNT_PREPARE] = {"prepare", "copies of the state move into place"},
    [DLR_ACCOUNT_LAUNCH] = {"launch", "srun starts the tasks"},
    [DLR_ACCOUNT_LOAD] = {"load", "the program starts and loads its checkpoint"},
    [DLR_ACCOUNT_START] = {"start", "the program's way to its first step"},
    [DLR_ACCOUNT_HEALTH] = {"health", "agents start and check their nodes"},
    [DLR_ACCOUNT_QUEUE] = {"queue", "in the queue, suspended, or slurmctld away"},
    [DLR_ACCOUNT_UNKNOWN] = {"unknown", "no line of the journal explains it"},
};

const char *dlr_account_cause_name(enum dlr_account_cause cause)
{
    return causes[cause].name;
}

const char *dlr_account_cause_words(enum dlr_account_cause cause)
{
    return causes[cause].words;
}
