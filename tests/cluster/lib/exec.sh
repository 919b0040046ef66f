# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Running a command on a host: for "vcluster exec", and for tests, which do it some ten thousand times.

sane_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

frozen() { # PID
    local stat

    { stat=$(<"/proc/$1/stat"); } 2>/dev/null && [[ ${stat##*) } == T* ]]
}

# Becomes the command, on the host whose first process is PID.
exec_on() { # PID USER COMMAND…
    local pid=$1 user=$2 home=/home/$2

    shift 2
    [[ $user != root ]] || home=/root
    umask 022
    # Ctrl-C is for the command, not for the nsenter that waits for it; a kill
    # hits nsenter alone, which pdeathsig passes on.
    trap '' INT QUIT
    # The default fence of Slurm 22.05's pmix plugin loses about one MPI start in 20.
    exec nsenter -t "$pid" --mount --net --uts --ipc --pid -- \
        setpriv --reuid="$user" --regid="$user" --init-groups --pdeathsig=TERM \
        env -i --default-signal=INT,QUIT -C "$home" HOME="$home" USER="$user" LOGNAME="$user" \
        SHELL=/bin/bash LANG=C.UTF-8 TERM="${TERM:-dumb}" SLURM_PMIX_FENCE=ring \
        PATH="$sane_path:/opt/dlrover/bin" "$@"
}
