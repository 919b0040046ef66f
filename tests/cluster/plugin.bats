#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The Slurm plugin on a real Slurm, up to the keeper and from the task on: what lies between has
# tests of its own. Needs root and the packages of scripts/install-deps. Takes the plugin from
# DLR_STAGE (what "make install" left there) or builds it. Under production run the hooks inside slurmd
# and slurmstepd, which have an extern step and cgroups there; what sbatch and srun make of options is
# read from the same command lines with any configuration.

# Scripts are written here that expand elsewhere; bats sets stderr.
# shellcheck disable=SC2016,SC2154
bats_require_minimum_version 1.5.0

vcluster=$BATS_TEST_DIRNAME/vcluster
root=$BATS_TEST_DIRNAME/../..
limit_s=20

setup_file() {
    export VCLUSTER_DIR=$BATS_FILE_TMPDIR/vc
    local lacks
    if [[ ${DLROVER_PROFILE:-plain} == production ]]; then
        lacks=$(source "$BATS_TEST_DIRNAME/lib/cgroup.sh" && cgroup_lacks)
        [[ -z $lacks ]] || skip "profile production cannot be had: $lacks"
    fi
    stage "$BATS_FILE_TMPDIR/stage/opt/dlrover"
    "$BATS_TEST_DIRNAME/vcluster" up --nodes 2 --leaves 1 --profile "${DLROVER_PROFILE:-plain}" \
        --prefix "$BATS_FILE_TMPDIR/stage" --plugin-args "checks=none max-restarts=7" \
        >"$BATS_FILE_TMPDIR/up"
    as alice tee -a agent.py >/dev/null <"$BATS_TEST_DIRNAME/lib/agent.py"
}

teardown_file() {
    "$BATS_TEST_DIRNAME/vcluster" down
}

# The plugin and its helpers as built, and a keeper that says what it was given.
stage() { # PREFIX
    local built=$BATS_FILE_TMPDIR/build

    mkdir -p "$1/lib/slurm" "$1/libexec/dlrover" "$1/bin"
    if [[ -n ${DLR_STAGE:-} ]]; then
        cp "$DLR_STAGE/opt/dlrover/lib/slurm/spank_dlrover.so" "$1/lib/slurm/"
        cp "$DLR_STAGE"/opt/dlrover/libexec/dlrover/{dlrover-{stderr,slurm},libdlrover-mpi.so} "$1/libexec/dlrover/"
    else
        make -C "$root" -s BUILD="$built" PREFIX=/opt/dlrover \
            "$built"/{spank_dlrover.so,dlrover-stderr,dlrover-slurm,libdlrover-mpi.so} >/dev/null
        cp "$built/spank_dlrover.so" "$1/lib/slurm/"
        cp "$built"/{dlrover-stderr,dlrover-slurm,libdlrover-mpi.so} "$1/libexec/dlrover/"
    fi
    cat >"$1/libexec/dlrover/dlrover-keeper" <<'END'
#!/bin/bash
echo "keeper $$"
printf 'word <%s>\n' "$@"
sed -n '/^Sig\(Blk\|Ign\)/s/:\s*/ /p' /proc/self/status
fds=$(ls /proc/self/fd) # and one of ls itself
echo "fds" $fds
[[ -z $KEEPER_ENV ]] || tr '\0' '\n' </proc/$$/environ >"$KEEPER_ENV"
[[ -z $KEEPER_CAT ]] || sed 's/^/stdin /'
exit "${KEEPER_RC:-0}"
END
    chmod 755 "$1/libexec/dlrover/dlrover-keeper"
}

as() { # USER COMMAND…
    local user=$1

    shift
    timeout "$limit_s" "$vcluster" exec --user "$user" ctl -- "$@"
}

on() { # HOST COMMAND…
    local host=$1

    shift
    timeout "$limit_s" "$vcluster" exec "$host" -- "$@"
}

# A file in alice's home, from stdin.
put() { # NAME
    as alice tee "$1" >/dev/null
}

# What sbatch -v says it asks for: the three options supervision needs.
asked() {
    grep -oE '(no-kill|open-mode|requeue) +: .*' | sed 's/ *: /=/' | sort | paste -sd' '
}
wanted="no-kill=set open-mode=a requeue=requeue"

plain_script() { # [DIRECTIVE…]
    printf '#!/bin/bash\n'
    [[ $# -eq 0 ]] || printf '#SBATCH %s\n' "$@"
    echo 'echo "script $*"'
}

@test "sbatch, salloc and srun --help have a line for each of thirteen options" {
    for command in sbatch salloc srun; do
        run -0 as alice "$command" --help
        names=$(sed -nE 's/^ *--(dlrover[a-z-]*)=.*/\1/p' <<<"$output" | paste -sd' ')
        [ "$names" = "dlrover dlrover-spares dlrover-nodes dlrover-group dlrover-save dlrover-persist dlrover-redundancy dlrover-restore-from dlrover-name dlrover-max-restarts dlrover-on dlrover-state-dir dlrover-set" ]
    done
}

@test "an #SBATCH line turns on no-kill, requeue and append" {
    plain_script --dlrover=on | put on.sh
    run -0 as alice sbatch -v on.sh
    [ "$(asked <<<"$output")" = "$wanted" ]
    run -0 as alice scontrol show job "$(grep -oE 'job [0-9]+' <<<"$output" | tail -n1 | cut -d' ' -f2)"
    [[ $output == *Requeue=1* ]]
}

@test "so does a script on stdin, the command line, and the environment" {
    run -0 as alice sbatch -v < <(plain_script --dlrover=on)
    [ "$(asked <<<"$output")" = "$wanted" ]
    plain_script | put off.sh
    run -0 as alice sbatch -v -N 2 --dlrover=on off.sh
    [ "$(asked <<<"$output")" = "$wanted" ]
    run -0 as alice sbatch -v -J name --dlrover on --wrap true
    [ "$(asked <<<"$output")" = "$wanted" ]
    run -0 as alice env DLROVER=on sbatch -v off.sh
    [ "$(asked <<<"$output")" = "$wanted" ]
}

@test "nothing is turned on without the option, by a script's own arguments, or with off" {
    plain_script | put off.sh
    plain_script --dlrover=on | put on.sh
    run -0 as alice sbatch -v off.sh
    [ "$(asked <<<"$output")" = "" ]
    run -0 as alice sbatch -v off.sh --dlrover=on
    [ "$(asked <<<"$output")" = "" ]
    run -0 as alice sbatch -v --dlrover=off on.sh --dlrover=on
    [ "$(asked <<<"$output")" = "" ]
    run -0 as alice sbatch -v < <(plain_script --dlrover=on --dlrover=off)
    [ "$(asked <<<"$output")" = "" ]
}

@test "what the user asks for himself is kept" {
    plain_script --dlrover=on | put on.sh
    run -0 as alice sbatch -v --no-requeue --open-mode=truncate on.sh
    [ "$(asked <<<"$output")" = "no-kill=set open-mode=t requeue=no-requeue requeue=no-requeue" ]
    run -0 as alice env SBATCH_NO_REQUEUE=1 sbatch -v on.sh
    [ "$(asked <<<"$output")" = "no-kill=set open-mode=a requeue=no-requeue" ]
}

# bats test_tags=production
@test "salloc turns on no-kill and its srun is supervised" {
    run -0 as alice salloc -v -N 2 --dlrover=on bash -c 'env; srun prog'
    [[ $output == *"no-kill             : set"* ]]
    [[ $output != *SALLOC_NO_KILL* ]]
    [[ $output == *"word <prog>"* ]]
}

# bats test_tags=production
@test "srun becomes the keeper: same pid, words, stdin, exit code" {
    plain_script '-N 2 --dlrover=on --dlrover-spares=1' | put job.sh
    put job.sh <<'END'
#!/bin/bash
#SBATCH -N 2 --dlrover=on
#SBATCH --dlrover-spares=1
env >batch.env
export KEEPER_ENV=keeper.env KEEPER_CAT=1 KEEPER_RC=7
env >srun.env
bash -c 'echo "srun $$"; exec srun -n2 --mpi=none --dlrover-set=heartbeat=100ms:8 prog "a b" "" c' <<<"some input" 3</dev/null
echo "rc $?"
END
    run -0 as alice sbatch -W -o out job.sh
    run -0 as alice cat out
    [ "${lines[1]#keeper }" = "${lines[0]#srun }" ]
    words=$(grep -A99 -Fx 'word <-->' <<<"$output" | grep ^word | paste -sd' ')
    [ "$words" = 'word <--> word <srun> word <-n2> word <--mpi=none> word <--dlrover-set=heartbeat=100ms:8> word <prog> word <a b> word <> word <c>' ]
    grep -Fx 'word <--spares=1>' <<<"$output"
    grep -Fx 'word <--heartbeat=100ms:8>' <<<"$output"
    grep -Fx 'word <--checks=none>' <<<"$output" # plugstack.conf's
    grep -Fx 'word <--max-restarts=7>' <<<"$output"
    grep -Fx 'word <--state-dir=>' <<<"$output"
    grep -Fx 'SigBlk 0000000000000000' <<<"$output"
    grep -Fx 'SigIgn 0000000000000000' <<<"$output"
    grep -Fx 'fds 0 1 2 3' <<<"$output"
    grep -Fx 'stdin some input' <<<"$output"
    grep -Fx 'rc 7' <<<"$output"
}

# bats test_tags=production
@test "the keeper's environment is the one srun was started with, the job's holds no option of ours" {
    run -0 as alice bash -c 'diff <(grep -vE "^(SHLVL|_)=" srun.env | sort) <(grep -vE "^(SHLVL|_)=" keeper.env | sort)'
    run -1 as alice grep -E '^(SBATCH|SALLOC)_' batch.env
}

@test "nohup'd stays nohup'd" {
    run -0 as alice salloc -N 2 --dlrover=on bash -c 'trap "" HUP; srun prog'
    [[ $output == *"SigIgn 0000000000000001"* ]]
}

@test "a setting comes from site, environment, script and command line in this order" {
    word() { # SRUN-PREFIX OPTION…
        as alice salloc -N 2 --dlrover=on "$@" 2>/dev/null | grep -E 'max-restarts='
    }
    [ "$(word srun prog)" = "word <--max-restarts=7>" ]
    [ "$(word env DLROVER_MAX_RESTARTS=5 srun prog)" = "word <--max-restarts=5>" ]
    [ "$(word --dlrover-max-restarts=4 env DLROVER_MAX_RESTARTS=5 srun prog)" = "word <--max-restarts=4>" ]
    [ "$(word --dlrover-max-restarts=4 env DLROVER_MAX_RESTARTS=5 \
        srun --dlrover-max-restarts=2 prog | head -n1)" = "word <--max-restarts=2>" ]
}

# Slurm hands a script's options to each srun in it, and the shell's variables with the rest of
# its environment.
@test "each source overrides the ones before it, from sbatch to the srun inside" {
    put chain.sh <<'END'
#!/bin/bash
#SBATCH -N 2 --dlrover=on
srun prog
DLROVER_MAX_RESTARTS=5 srun prog
srun --dlrover-max-restarts=2 prog
END
    as alice cat chain.sh | sed '2a #SBATCH --dlrover-max-restarts=4' | put chain4.sh
    chain() { # ENVIRONMENT SCRIPT OPTION…
        local env=$1 script=$2

        shift 2
        as alice rm -f out # it would be appended to
        as alice env "$env" sbatch -W -o out "$@" "$script" >/dev/null || return
        as alice sed -n 's/^word <--max-restarts=\(.*\)>$/\1/p' out | paste -sd' '
    }
    [ "$(chain A=b chain.sh)" = "7 5 2" ]                    # the site's
    [ "$(chain DLROVER_MAX_RESTARTS=6 chain.sh)" = "6 5 2" ] # the shell's that typed sbatch
    [ "$(chain DLROVER_MAX_RESTARTS=6 chain4.sh)" = "4 4 2" ] # the script's
    [ "$(chain DLROVER_MAX_RESTARTS=6 chain4.sh --dlrover-max-restarts=3)" = "3 3 2" ]
}

# The keeper that wrote into this file is done.
ended() { as alice grep -q '^fds ' "$1" 2>/dev/null; }

# Slurm keeps the last one of an option, each list has to reach the srun all the same.
@test "settings add up from script, command line and srun, and the last word on each holds" {
    put sets.sh <<'END'
#!/bin/bash
#SBATCH -N 2 --dlrover=on --dlrover-set=heartbeat=300ms:9,net=eth0,eth1
#SBATCH --dlrover-set=checks=disk,pace=1m
srun --dlrover-set=end-timeout=9s,launch-timeout=9s,heartbeat=400ms prog
END
    as alice rm -f out
    run -0 as alice sbatch --export=NONE -o out --dlrover-set=pace=auto --dlrover-set stream-threads=7 sets.sh
    [[ $output == *"dlrover: no spare node: "* ]]
    becomes_true ended out
    run -0 as alice sed -nE 's/^word <--(heartbeat|checks|pace|net|stream-threads|end-timeout|launch-timeout|persist-count)=(.*)>$/\1=\2/p' out
    [ "$(sort <<<"$output" | paste -sd' ')" = "checks=disk end-timeout=9s heartbeat=400ms:5 launch-timeout=9s net=eth0,eth1 pace=auto persist-count=2 stream-threads=7" ]
    run -0 as alice salloc -N 2 --dlrover=on --dlrover-spares=0 --dlrover-set=pace=auto,checks=disk \
        env DLROVER_SET=pace=off,persist-count=5 srun prog
    [[ $output != *"no spare node"* ]]
    grep -Fx 'word <--pace=auto>' <<<"$output"
    grep -Fx 'word <--checks=disk>' <<<"$output"
    grep -Fx 'word <--persist-count=5>' <<<"$output"
}

@test "a job submitted from inside another does not inherit its options" {
    plain_script '-N 1 -o inner' | sed 's/^echo.*/srun echo plain/' | put inner.sh
    run -0 as alice salloc -Q -N 1 --dlrover=on sbatch -W inner.sh
    run -0 as alice cat inner
    [ "$output" = plain ]
}

@test "what a site forbids or limits is one clear line and no job" {
    on ctl sed -i 's/$/ forbid=state-dir max-spares=2 min-heartbeat=100ms/' /etc/slurm/plugstack.conf
    run ! as alice sbatch < <(plain_script --dlrover-spares=3)
    [ "${lines[0]}" = "sbatch: error: dlrover: --dlrover-spares: 3 is more than this site allows: at most 2" ]
    run ! as alice sbatch --dlrover-set=heartbeat=50ms --wrap true
    [ "${lines[0]}" = "sbatch: error: dlrover: --dlrover-set: heartbeat: 50ms:5 is less than this site allows: at least 100ms" ]
    run ! as alice srun --dlrover-state-dir=/tmp -n1 true
    [ "${lines[0]}" = "srun: error: dlrover: --dlrover-state-dir: this site does not let jobs set it; it is '' here" ]
    # nor by what Slurm itself would have put there
    run ! as alice env SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover_spares=9 srun -n1 true
    [ "${lines[0]}" = "srun: error: dlrover: --dlrover-spares: 9 is more than this site allows: at most 2" ]
    run -0 as alice env DLROVER_STATE_DIR=/tmp srun -n1 echo runs
    [ "${lines[0]}" = "srun: error: dlrover: ignoring DLROVER_STATE_DIR in the environment: this site does not let jobs set it; it is '' here" ]
    run -0 as alice srun --dlrover-spares=2 -n1 echo runs
    [ "$output" = runs ]
    on ctl sed -i 's/ forbid=.*$//' /etc/slurm/plugstack.conf
}

@test "an srun of a supervisor, an srun with off and an srun outside run as they are" {
    run -0 as alice salloc -N 2 -n 2 --dlrover=on bash -c \
        'DLROVER_SUPERVISED=$SLURM_JOB_ID.0.run srun -n2 echo inner
         srun --dlrover=off -n2 echo alone'
    [ "$(grep -cx inner <<<"$output")" = 2 ]
    [ "$(grep -cx alone <<<"$output")" = 2 ]
    [[ $output != *keeper* ]]
    run -0 --separate-stderr as alice srun --dlrover=on -n1 echo outside
    [ "$output" = outside ]
    [ "$stderr" = "srun: dlrover: supervision needs an allocation (sbatch or salloc); running without" ]
}

@test "another job's mark does not count" {
    run -0 as alice salloc -N 2 --dlrover=on bash -c 'DLROVER_SUPERVISED=9$SLURM_JOB_ID.0.run srun prog'
    [[ $output == *"word <prog>"* ]]
}

@test "a bad option is one clear line and no job" {
    run ! as alice sbatch --dlrover-spares=many --wrap true
    [ "${lines[0]}" = "sbatch: error: dlrover: --dlrover-spares: bad value 'many': must be a whole number from 0 to 4294967295" ]
    run ! as alice sbatch < <(plain_script --dlrover=perhaps)
    [ "${lines[0]}" = "sbatch: error: dlrover: --dlrover: bad value 'perhaps': must be 'on' or 'off'" ]
    run ! as alice srun --dlrover-state-dir=here -n1 true
    [[ ${lines[0]} == "srun: error: dlrover: --dlrover-state-dir: bad value 'here': must be an absolute path"* ]]
    run -0 as alice env DLROVER_SPARES=-1 srun -n1 echo runs
    [[ ${lines[0]} == "srun: error: dlrover: ignoring DLROVER_SPARES in the environment: bad value '-1'"* ]]
    [ "${lines[1]}" = runs ]
}

@test "a bad word in plugstack.conf is said and ignored" {
    on ctl sed -i 's/$/ colour=red/' /etc/slurm/plugstack.conf
    run -0 as alice srun -n1 echo runs
    on ctl sed -i 's/ colour=red$//' /etc/slurm/plugstack.conf
    [[ ${lines[0]} == "srun: error: dlrover: ignoring 'colour=red' in plugstack.conf: unknown option 'colour'"* ]]
    [ "${lines[1]}" = runs ]
}

@test "without a keeper srun says so and goes on" {
    keeper=$BATS_FILE_TMPDIR/stage/opt/dlrover/libexec/dlrover/dlrover-keeper
    mv "$keeper" "$keeper.away"
    run -0 as alice salloc -Q -N 2 -n 2 --dlrover=on srun -n2 echo runs
    mv "$keeper.away" "$keeper"
    [ "${lines[0]}" = "srun: error: dlrover: cannot run '/opt/dlrover/libexec/dlrover/dlrover-keeper': No such file or directory: running without supervision" ]
    [ "$(grep -cx runs <<<"$output")" = 2 ]
}

# Everything an srun without our option leaves behind, but for what differs between any two jobs.
trace() { # NAME
    as alice rm -f "$1".*
    as alice sbatch -W -N 2 -n 2 -o "$1.out" plain.sh "$1" >/dev/null
    as alice bash -c "cat $1.out $1.env.*" |
        sed -E '/^SLURM_(JOB_ID|JOBID|JOB_SLUID|JOB_START_TIME|JOB_END_TIME|TASK_PID|SRUN_COMM_PORT|STEP_LAUNCHER_PORT|LAUNCHER_PORT)=/d'
}

@test "without the option everything is, to the byte, as without the plugin" {
    put plain.sh <<'END'
#!/bin/bash
export SLURM_MPI_TYPE=none # PMIx would name step and ports in dozens of variables
env | sort >env.batch
srun -l bash -c 'env | grep -v ^_= | sort >$0.env.$SLURM_PROCID; ls -l /proc/self/fd | sed "s/.*-> //; s/[0-9]*//g" >>$0.env.$SLURM_PROCID; echo out; echo err >&2; exit $SLURM_PROCID' "$1" >words 2>err
echo "rc $?"
sort words err
END
    with=$(trace same)
    for host in ctl n1 n2; do
        on "$host" mv /etc/slurm/plugstack.conf /etc/slurm/away
    done
    run ! as alice srun --dlrover=on -n1 true # it is out
    without=$(trace same)
    for host in ctl n1 n2; do
        on "$host" mv /etc/slurm/away /etc/slurm/plugstack.conf
    done
    diff <(echo "$with") <(echo "$without")
    grep -q SLURM_PROCID=1 <<<"$with"
    grep -q '^rc 1$' <<<"$with"
}

# An allocation with stand-ins for the agents and the environment a supervisor gives to the step of
# round 3: two tasks on n2, one on n1. The body is run there.
round_job() { # BODY
    cat <<END
#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2
export D=/dev/shm/dlrover-\$UID-\$SLURM_JOB_ID/r DLROVER_SUPERVISED=\$SLURM_JOB_ID.0.r
unset SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE
rm -f agent.n?
exec 3< <(exec srun --overlap -N2 -n2 bash -c 'umask 077; mkdir -p \$D; exec python3 agent.py \$D/agent.sock agent.\$SLURMD_NODENAME')
agents=\$!
read -ru3 && read -ru3
printf 'n2\nn2\nn1\n' >hosts
export SLURM_HOSTFILE=\$PWD/hosts SLURM_NTASKS=3 DLROVER_ROUND=3 DLROVER_RUN=r DLROVER_KEY=k \\
    DLROVER_ROUND_NODES=n2,n1 DLROVER_TASKS=2,1 DLROVER_MASTER_PORT=2900 DLROVER_AGENT_SOCKET=\$D/agent.sock
round() { srun --overlap -m arbitrary -n3 "\$@"; }
$1
kill \$agents
END
}

# bats test_tags=production
@test "a round's tasks see the round and the agents see the tasks" {
    round_job "round -K0 bash -c 'env >env.\$SLURM_PROCID; echo \"last words of \$RANK\" >&2; exit \$((RANK * 3))' 2>err; echo \"rc \$?\"" | put round.sh
    run -0 as alice sbatch -W -o out round.sh
    run -0 as alice cat out
    [[ $output == *"rc 6"* ]]
    run -0 as alice cat env.2
    for var in SLURM_JOB_NODELIST=n2,n1 SLURM_STEP_NODELIST=n2,n1 SLURM_NODEID=1 SLURM_NTASKS=3 RANK=2 \
        WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=1 GROUP_WORLD_SIZE=2 MASTER_ADDR=n2 \
        MASTER_PORT=2900 SLURM_TASKS_PER_NODE=2,1 SLURM_PROCID=2 SLURM_LOCALID=0; do
        grep -qFx "$var" <<<"$output"
    done
    run -1 grep -E '^(DLROVER_(NODES|TASKS)|SLURM_HOSTFILE|SLURM_OVERLAP)=' <<<"$output"
    run -0 as alice grep -h 'last words' err
    [ "$(sort <<<"$output" | paste -sd,)" = "last words of 0,last words of 1,last words of 2" ]
    run -0 as alice sed 's/ [0-9]* .TASK./ /' agent.n1
    [[ $output == *"STEPD 3 -1 0 ''"* ]]
    [[ $output == *"TASK 3 2 "* ]]
    [[ $output == *"STDERR 3 2 0 'last words of 2\n'"* ]]
    [[ $output == *"EXIT 3 2 1536 ''"* ]]
    [ "${lines[-1]}" = EOF ]
    run -0 as alice grep -c TASK agent.n2
    [ "$output" = 2 ]
}

# A program that says whether it has our library, and what those that it starts would preload.
watched_programs() {
    cat >"$BATS_TEST_TMPDIR/shows.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int ours = 0;

    while (maps && fgets(line, sizeof(line), maps))
        ours |= strstr(line, "libdlrover-mpi.so") != NULL;
    printf("%s %s\n", ours ? "watched" : "plain", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "-");
    return 0;
}
END
    mpicc -Wl,--no-as-needed -o "$BATS_TEST_TMPDIR/mpi" "$BATS_TEST_TMPDIR/shows.c"
    gcc -static -o "$BATS_TEST_TMPDIR/static" "$BATS_TEST_TMPDIR/shows.c"
    for name in mpi static setuid; do
        put "$name" <"$BATS_TEST_TMPDIR/${name/setuid/mpi}"
        as alice chmod 755 "$name"
    done
    as alice chmod u+s setuid
}

@test "a round's program that is linked with MPI is watched, and hears nothing of it" {
    watched_programs
    round_job 'envs() { round bash -c "env | grep -vE \"^SLURM_(STEP_?ID|TASK_PID|SRUN_COMM_PORT|STEP_LAUNCHER_PORT|LAUNCHER_PORT)=|PMIX|precondition_transports=|^_=\" | sort >env.$1.\$SLURM_PROCID"; }
{ envs off; round ./mpi | sort -u
export DLROVER_WATCH=auto
envs auto
round ./mpi | sort -u; round ./static | sort -u; round ./setuid | sort -u
LD_PRELOAD=libm.so.6 round ./mpi | sort -u
DLROVER_WATCH=all round bash -c ./mpi | sort -u; } >seen 2>err' | put round.sh
    run -0 as alice sbatch -W -o out round.sh
    run -0 as alice cat seen err
    [ "$(paste -sd, <<<"$output")" = "plain -,watched -,plain -,plain -,watched libm.so.6,watched -" ]
    for rank in 0 1 2; do
        as alice diff "env.off.$rank" "env.auto.$rank"
        as alice grep -q ^RANK= "env.off.$rank"
    done
}

@test "a lot of stderr comes through whole, through srun and into files" {
    # of a step that is killed srun 22.05 itself loses some, with and without the plugin; and a plain
    # srun of such words loses its connection to a slurmstepd about once in eight times, and says so
    round_job 'words="seq -f \"\$RANK %.0f\" 50000 >&2"
for again in $(seq 20); do
    round bash -c "$words" 2>err
    grep -q "unexpected eof" err || break
done
round -e err.%t bash -c "$words; kill -9 \$\$"' | put round.sh
    as alice sbatch -W -o out round.sh || true
    # srun may cut into lines when it merges tasks; it adds lines of its own
    run -0 as alice bash -c 'grep -v "srun:" err | tr -cd 0-9 | wc -c'
    [ "$output" -eq "$(for r in 0 1 2; do seq -f "$r%.0f" 50000; done | tr -d '\n' | wc -c)" ]
    for r in 0 1 2; do
        run -0 as alice bash -c "cmp err.$r <(seq -f '$r %.0f' 50000)"
    done
    run -0 as alice grep -hE '^EXIT' agent.n2
    [ "$(sort -u <<<"$output" | paste -sd,)" = "EXIT 3 0 0 '',EXIT 3 0 9 '',EXIT 3 1 0 '',EXIT 3 1 9 ''" ]
}

@test "no agent, no dlrover-stderr: the round runs" {
    tap=$BATS_FILE_TMPDIR/stage/opt/dlrover/libexec/dlrover/dlrover-stderr
    mv "$tap" "$tap.away"
    round_job 'export DLROVER_AGENT_SOCKET=/tmp/nobody; round bash -c "echo said \$RANK >&2" 2>err' | put round.sh
    run -0 as alice sbatch -W -o out round.sh
    mv "$tap.away" "$tap"
    run -0 as alice grep -c said err
    [ "$output" = 3 ]
}

# Looks again until it is so, with a limit.
becomes_true() { # COMMAND…
    local end=$((SECONDS + limit_s))

    until "$@"; do
        ((SECONDS < end)) || return 1
        read -rt 0.05 <> <(:) || true
    done
}

said_go() {
    [[ $(as alice cat err 2>/dev/null | grep -c go) == 3 ]]
}

no_tap() { # HOST
    ! on "$1" pgrep -x dlrover-stderr >/dev/null
}

no_sleep() { ! on "$1" pgrep -xf 'sleep 300' >"$BATS_TEST_TMPDIR/sleep"; }

# bats test_tags=production
@test "a cancelled round leaves no process" {
    round_job 'round bash -c "echo go >&2; sleep 300 & sleep 300" 2>err' | put round.sh
    as alice rm -f err
    as alice sbatch --parsable -o out round.sh >"$BATS_TEST_TMPDIR/job"
    becomes_true said_go
    as alice scancel "$(cat "$BATS_TEST_TMPDIR/job")"
    for host in n1 n2; do
        becomes_true no_tap "$host"
        becomes_true no_sleep "$host"
    done
}

# No job is on a node any more: the epilogs have run.
is_idle() {
    [[ $(on ctl sinfo -h -N -o %T | sort -u) == idle ]]
}

# bats test_tags=production
@test "the epilog removes a job's memory and nothing else" {
    uid=$(as alice id -u)
    on n1 install -d -o alice -g alice -m 0700 /tmp/precious
    on n1 install -o alice -g alice -m 0600 /dev/null /tmp/precious/file
    put memory.sh <<'END'
#!/bin/bash
#SBATCH -N 2 --dlrover=off
srun -n2 -N2 bash -c 'd=/dev/shm/dlrover-$(id -u)-$SLURM_JOB_ID; mkdir -m 700 -p $d/run $d/../dlrover-$(id -u)-9; echo x >$d/run/p0; ln -s /tmp/precious $d/run/link'
END
    run -0 as alice sbatch -W --parsable -o out memory.sh
    job=${lines[0]}
    becomes_true is_idle
    for host in n1 n2; do
        run -2 on "$host" ls -d "/dev/shm/dlrover-$uid-$job"
        run -0 on "$host" ls -d "/dev/shm/dlrover-$uid-9"
    done
    run -0 on n1 ls /tmp/precious/file
}

# bats test_tags=production
@test "a link in place of the memory's name is left, with a line in slurmd's log" {
    put link.sh <<'END'
#!/bin/bash
#SBATCH -N 1 -w n1
ln -s /tmp/precious "/dev/shm/dlrover-$(id -u)-$SLURM_JOB_ID"
END
    run -0 as alice sbatch -W --parsable -o out link.sh
    job=${lines[0]}
    becomes_true is_idle
    run -0 on n1 ls /tmp/precious/file
    run -0 on n1 grep "cannot remove '/dev/shm/dlrover-.*-$job'" /var/log/slurm/slurmd.log
}
