# SPDX-License-Identifier: Apache-2.0
# srun lines as people write them, each run as it is and supervised in the same job: ranks on the
# same nodes, the same environment, the same bytes, the same exit code. What may differ in the
# environment is listed in differs() with its reason.
# bats file_tags=production
load lib/suite

setup_file() {
    cluster_up 4 1
    put_programs
    RELEASE=$(ctl sinfo --version | cut -d' ' -f2)
    export RELEASE
}
teardown_file() { cluster_down; }

# show: who am I, and what does Slurm tell me. rows.sh: runs a table of lines both ways.
put_programs() {
    job_file show <<'SH'
#!/bin/bash
/usr/bin/env | /bin/grep -E '^(SLURM|SRUN|FOO)' | /usr/bin/sort >"env.$SLURM_PROCID"
echo "$SLURM_PROCID $SLURMD_NODENAME"
SH
    job_file rows.sh <<'SH'
# rows.sh DIR <table: each line NAME: SRUN WORDS
mkdir "$1" && cd "$1" || exit
printf '0-1 %s one %%t\n2-3 %s two %%o\n' /bin/echo /bin/echo >multi.conf
while IFS= read -r row <&3; do
    for mode in off on; do
        mkdir -p "${row%%:*}/$mode" && cd "${row%%:*}/$mode" || exit
        eval "srun --dlrover=$mode ${row#*:}" >stdout 2>stderr </dev/null
        echo $? >code
        cd ../..
    done
done 3<&0
SH
    chmod +x "$(alice_home)/show" "$(alice_home)/rows.sh"
}

# differs ROW NAME: a variable that is not the same, and why
differs() {
    case $2 in
    SLURM_NODEID | SLURM_TASKS_PER_NODE | SLURM_STEP_TASKS_PER_NODE)
        [[ $1 == arbitrary* ]] ;;                        # in rank order, not by name
    SLURM_GPUS_ON_NODE | SLURM_STEP_GPUS)
        [[ $1 == job ]] ;;                               # Slurm shares a total out as it likes
    SLURM_STEPID | SLURM_STEP_ID | SLURM_TASK_PID) ;;    # of this step
    *_PORT | SLURM_PMIX_MAPPING_SERV) ;;                 # of this step
    SLURM_JOB_NODELIST | SLURM_NODELIST) ;;              # the round's nodes, not the job's
    SLURM_JOB_NUM_NODES | SLURM_JOB_CPUS_PER_NODE*) ;;   # likewise
    SLURM_STEP_NODELIST) ;;                              # the same nodes, one by one
    SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover) ;;  # what the row is about
    SLURM_PMIX_FENCE) ;;                                 # set for every MPI step: srun.h
    *) return 1 ;;
    esac
}

# chosen DIR: a sed script that calls the nodes in its stdout by their order. Newer sruns give a step that is
# smaller than the job other nodes each time (the first that is idle after those of the step before).
chosen() {
    case $RELEASE:$(basename "$(dirname "$1")") in
    22.05*) ;;
    *:w | *:include | *:x | *:relative | *:arbitrary) ;; # named
    *) grep -owE 'n[1-9]' "$1/stdout" | sort -u | awk '{ print "s/\\<" $1 "\\>/node" NR "/g" }' ;;
    esac
}

# compare DIR: every row of it; says what is not the same
compare() {
    local row bad=0 file name mode
    for row in "$(alice_home)/$1"/*/; do
        for mode in off on; do
            cp -r "$row$mode" "$row$mode.named"
            sed -i -f <(chosen "$row$mode") "$row$mode.named"/*
        done
        for file in "$row"off.named/*; do
            name=$(basename "$file")
            case $name in
            stderr) continue ;; # srun's own warnings
            env.*) same_env "$(basename "$row")" "$file" "$row/on.named/$name" ;;
            *) diff <(sort "$file") <(sort "$row/on.named/$name") ;;
            esac && continue
            echo "^ $(basename "$row"): $name (< plain, > supervised)"
            sed 's/^/    plain: /' "$row/off/stderr"
            sed 's/^/    supervised: /' "$row/on/stderr"
            bad=1
        done
    done
    return $bad
}

same_env() { # ROW PLAIN SUPERVISED
    local line rc=0
    while read -r line; do
        differs "$1" "$(sed 's/^. //; s/=.*//' <<<"$line")" && continue
        echo "$line"
        rc=1
    done < <(diff "$2" "$3" | grep '^[<>]')
    return $rc
}

# table DIR "SBATCH OPTIONS" <<rows: runs them in one job and compares
table() {
    local dir=$1 job
    { printf '#!/bin/bash\n#SBATCH -o out.%%j --dlrover-max-restarts=0 %s\n' "$2"
        echo "export FOO=foo; ./rows.sh $dir <<'ROWS'"
        cat
        echo ROWS
    } | job_file "$dir.sh"
    job=$(submit "$dir.sh")
    [ "$(await_job "$job")" = "COMPLETED 0:0" ] || { cat "$(alice_home)/out.$job"; return 1; }
    compare "$dir"
}

row() { cat "$(alice_home)/$1/$2/on/${3:-stdout}"; }

@test "sizes and nodes by name" {
    table sizes "-N4 --exclusive" <<'ROWS'
bare: ~/show
n: -n 6 ~/show
few: -n 2 ~/show
one: -N1 -n1 ~/show
N: -N 2-3 ~/show
pernode: --ntasks-per-node=2 -N2 ~/show
w: -w n3,n2 -N2 ~/show
include: -w n4 -N2 -n3 ~/show
x: -x n1 -N2 ~/show
relative: -r 1 -N2 -n4 ~/show
arbitrary: -m arbitrary -w n3,n3,n1 ~/show
block: -m block -n8 ~/show
plane: -m plane=2 -N2 -n4 ~/show
cyclic: -m cyclic -N3 ~/show
ROWS
    [ "$(row sizes include | sort | paste -sd,)" = "0 n1,1 n1,2 n4" ] # not the first by chance
}

@test "ranks dealt out over nodes" {
    table dealt "-N4 --exclusive" <<'ROWS'
cyclic: -m cyclic -n6 ~/show
cyclic2: -m cyclic:cyclic -N2 -n4 ~/show
block2: -m block:cyclic -N2 -n4 ~/show
plane: -m plane=1 -N2 -n4 ~/show
uneven: -m plane=2 -N2 -n3 ~/show
full: -m plane=4 -N2 -n4 ~/show
arbitrary: -m arbitrary -w n3,n1,n3 ~/show
ROWS
    [ "$(row dealt cyclic2 | sort | paste -sd,)" = "0 n1,1 n2,2 n1,3 n2" ]
}

@test "dealt ranks: a node that is lost leaves its ranks to the spare, and no other moves" {
    job_file moved.sh <<'SH'
#!/bin/bash
#SBATCH -o moved.out --dlrover=on --dlrover-spares=1 -w n[1-3] -N3 --exclusive
srun -m cyclic -n4 bash -c 'echo "$RANK $SLURMD_NODENAME $GROUP_RANK $LOCAL_RANK" >new.$RANK
    mv new.$RANK seat.$DLROVER_ROUND.$RANK
    [ $DLROVER_ROUND = 1 ] || read -r <> <(:)'
SH
    job=$(submit moved.sh)
    await "$job" running
    wait_until '[ "$(find "$(alice_home)" -maxdepth 1 -name "seat.0*" | wc -l)" = 4 ]'
    "$VC" kill n2
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(cat "$(alice_home)"/seat.0.* | paste -sd,)" = "0 n1 0 0,1 n2 1 0,2 n1 0 1,3 n2 1 1" ]
    [ "$(cat "$(alice_home)"/seat.1.* | paste -sd,)" = "0 n1 0 0,1 n3 1 0,2 n1 0 1,3 n3 1 1" ]
    [[ $(alice dlrover events "$job") == *"n3 takes ranks 1,3"* ]]
    heal_cluster
}

# What other steps have is not taken: by name, and by waiting for it, for longer than a launch may take.
@test "resources, and how steps share them" {
    job_file bound <<'SH'
#!/bin/bash
echo "$(taskset -cp $$ | sed 's/.*: //') $SLURM_STEP_GPUS" >"bound.$1.$2"
for i in {1..300}; do # both are there at once
    [ ! -e "bound.$1.$((3 - $2))" ] || exit 0
    read -rt 0.1 <> <(:) || :
done
exit 1
SH
    job_file turn <<'SH'
#!/bin/bash
[ "$SLURM_PROCID" = 0 ] || exit 0
echo begin >>"turns.$1"
read -rt "$2" <> <(:) || :
echo end >>"turns.$1"
SH
    batch packed.sh "-N1 --exclusive --gres=gpu:2 --dlrover-set=launch-timeout=3s" <<'SH'
chmod +x bound turn
for mode in off on; do
    for share in --exclusive -c1; do
        for i in 1 2; do srun --dlrover=$mode $share -N1 -n1 --gres=gpu:1 ./bound $mode$share $i & done
        wait
    done
    [ $mode = on ] && long=8 || long=1
    for i in 1 2; do srun --dlrover=$mode -N1 -n2 ./turn $mode $long $i & done
    wait
done
SH
    packed=$(submit packed.sh)
    table shares "-N2 --exclusive" <<'ROWS'
c: -c 2 ~/show
exact: --exact -c 1 ~/show
exclusive: --exclusive ~/show
overlap: --overlap -n4 ~/show
time: -t 5 ~/show
cpubind: --cpu-bind=none ~/show
mem: --mem=100 ~/show
ROWS
    [ "$(await_job "$packed")" = "COMPLETED 0:0" ]
    output "$packed"
    cd "$(alice_home)"
    for share in --exclusive -c1; do
        for column in 1 2; do
            diff <(cut -d' ' -f$column bound.off$share.[12] | sort) <(cut -d' ' -f$column bound.on$share.[12] | sort)
            [ "$(cut -d' ' -f$column bound.on$share.[12] | sort -u | wc -l)" -eq 2 ]
        done
    done
    for mode in off on; do
        [ "$(paste -sd' ' turns.$mode)" = "begin end begin end" ]
    done
    [ "$(output "$packed" | grep -c "^dlrover: round")" -eq 0 ]
}

@test "output, labels, programs and exit codes" {
    table out "-N2 -n4 --exclusive" <<'ROWS'
label: --label /bin/echo hello
files: -o out.%t -e err.%n bash -c 'echo $SLURM_PROCID; echo $SLURM_PROCID >&2'
onefile: -o all --open-mode=append /bin/echo line
input: -i ~/show /usr/bin/md5sum
toone: -i 1 -o from.%t /bin/cat
multi: -n4 --multi-prog ../../multi.conf
code: bash -c 'exit $((SLURM_PROCID == 2 ? 7 : 0))'
signal: bash -c 'kill -SEGV $$'
missing: no-such-program
pty: -N1 -n1 --pty /bin/echo terminal
bcast: --bcast=/tmp/shown.%u ~/show
quiet: -Q -u -K1 -W 5 ~/show
ROWS
    grep -x "dlrover: srun --pty is run without supervision: a terminal cannot be carried over to a new round" \
        "$(alice_home)/out/pty/on/stderr"
}

@test "a file that is there: replaced or added to as without us, and added to by later rounds" {
    job_file files.sh <<'SH'
cd "$1" || exit
for o in "" --open-mode=append --open-mode=truncate; do
    echo old >file
    srun $o -n1 -o file -e errors bash -c 'echo "round $DLROVER_ROUND"
        until grep -q "round $DLROVER_ROUND" file; do read -rt 0.1 <> <(:) || :; done
        [ $DLROVER_ROUND = 1 ]'
    echo "$o:" $(cat file)
done
SH
    mode_job() { # DIR [sbatch options]: prints the job
        mkdir "$(alice_home)/$1" && chown 3001:3001 "$(alice_home)/$1"
        { echo '#!/bin/bash'; [ -z "$2" ] || echo "#SBATCH $2"
            echo ". ./files.sh $1"; } | job_file "$1.sh"
        submit -o "$1.out" -N1 "$1.sh"
    }
    job=$(mode_job modes --dlrover=on)
    also=$(mode_job asked "--dlrover=on --open-mode=append")
    [ "$(await_job "$job")" = "COMPLETED 0:0" ]
    [ "$(await_job "$also")" = "COMPLETED 0:0" ]
    diff <(grep -Ev '^(dlrover|srun):' "$(alice_home)/modes.out") - <<'END'
: round 0 round 1
--open-mode=append: old round 0 round 1
--open-mode=truncate: round 0 round 1
END
    diff <(grep -Ev '^(dlrover|srun):' "$(alice_home)/asked.out") - <<'END'
: old round 0 round 1
--open-mode=append: old round 0 round 1
--open-mode=truncate: round 0 round 1
END
}

@test "environment of tasks, kinds of MPI" {
    table vars "-N2 --ntasks-per-node=2 --exclusive" <<'ROWS'
bare: ~/show
all: --export=ALL,BAR=b ~/show
none: --export=NONE /home/alice/show
list: --export=BAR=b,HOME /home/alice/show
pmix: --mpi=pmix ~/show
pmi2: --mpi=pmi2 ~/show
nompi: --mpi=none ~/show
ROWS
    [ "$(row vars none env.0 | grep -c '^FOO')" -eq 0 ]
    [ "$(row vars all env.0 | grep '^FOO')" = FOO=foo ]
}

@test "sruns inside a task, and a job that a task submits, are as without us" {
    table nested "-N2 -n2 --exclusive" <<'ROWS'
steps: --overlap bash -c '[ $SLURM_PROCID = 0 ] || exit 0; srun --overlap -N1 -n1 -w $SLURMD_NODENAME hostname; srun --overlap hostname; srun --overlap -n2 -l hostname'
ROWS
    { printf '#!/bin/bash\n#SBATCH -N1 -o chain.out --exclusive --dlrover=on\n'
        # under task/affinity a job submitted by a task inherits that task's binding, plain or not
        echo "srun bash -c 'unset \${!SLURM_CPU_BIND@}; sbatch --parsable -H -N1 -o chained.out --wrap \"srun -n1 ~/show; env | grep -c DLROVER_ROUND\" >chain.id'"
    } | job_file chain.sh
    [ "$(await_job "$(submit chain.sh)")" = "COMPLETED 0:0" ]
    job=$(cut -d';' -f1 "$(alice_home)/chain.id")
    ctl scontrol release "$job"
    await_job "$job"
    [[ $(paste -sd" " "$(alice_home)/chained.out") =~ ^0\ n[0-9]+\ 0$ ]] # on whichever node was free
    [ -z "$(journal "$job")" ] # it did not ask for supervision
}

@test "what a round cannot keep is refused by name, before anything starts" {
    { printf '#!/bin/bash\n#SBATCH -N2 -o refused.out --exclusive --dlrover=on\n'
        echo 'for o in "-m block,pack -n4" "-w n9" "-N3" --het-group=1 --gpus=3 --spread-job; do'
        echo '    srun $o true; echo "code $?"; done'
    } | job_file refused.sh
    [ "$(await_job "$(submit refused.sh)")" = "COMPLETED 0:0" ]
    diff "$(alice_home)/refused.out" - <<'END'
dlrover: srun --distribution=block,pack cannot be supervised: a round spreads its tasks evenly over its nodes; leave Pack out, or list the nodes in rank order (arbitrary)
code 2
dlrover: srun --nodelist: node n9 is not in this job
code 2
dlrover: srun --nodes=3 needs more nodes than there are: the allocation of 2 has 2 beside its 0 spare(s) (--dlrover-spares)
code 2
dlrover: srun --het-group cannot be supervised: a component of a heterogeneous job cannot do without a node; add --dlrover=off to this srun
code 2
dlrover: srun --gpus=3 does not divide over 2 nodes: say --gpus-per-node or --gpus-per-task
code 2
dlrover: srun --spread-job cannot be supervised: the round places tasks by node; say --nodes and --ntasks
code 2
END
    run alice bash -c "cd; sbatch -W -N1 --dlrover=on --wrap 'srun true' -o het.out : -N1"
    grep -x "dlrover: SLURM_HET_SIZE is set: a heterogeneous job cannot do without a node; add --dlrover=off to this srun" \
        "$(alice_home)/het.out"
}

@test "arrays and salloc" {
    job_file array.sh <<'SH'
#!/bin/bash
#SBATCH -N2 -n2 --array=0-1 -o out.%j
./rows.sh array.$SLURM_ARRAY_TASK_ID <<'ROWS'
bare: ~/show
ROWS
SH
    alice sbatch -W array.sh
    compare array.0
    compare array.1
    alice bash -c "cd; salloc -Q -N3 -n6 ./rows.sh shell" <<<'bare: ~/show'
    compare shell
}

@test "generic resources" {
    [[ $PROFILE == production ]] || skip "the plain profile has none"
    table gres "-N2 -n4 --gpus=4" <<'ROWS' # 3 and 1
job: ~/show
gpus: --gpus=2 ~/show
pernode: --gpus-per-node=1 ~/show
pertask: -n2 --gpus-per-task=1 ~/show
gres: --gres=gpu:1 ~/show
nogres: --gres=none ~/show
ROWS
}
