#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The dlrover command as it is typed: help, slips, completion, manual. Needs no Slurm.
# shellcheck disable=SC2030,SC2031 # each test is a shell of its own

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    dlrover=$(readlink -f "${BUILD:-build}/dlrover")
    unset SLURM_JOB_ID DLROVER_STATE_DIR
    export HOME=$BATS_TEST_TMPDIR TZ=UTC
}

put_journal() { # JOB RUN FIXTURE
    mkdir -p "$HOME/.dlrover/job-$1/$2"
    cp "tests/journals/$3.jsonl" "$HOME/.dlrover/job-$1/$2/events.jsonl"
}

# What Tab would offer behind these words; the last is the one being typed.
complete_words() {
    bash -c '
        PATH=$1:$PATH
        source completions/dlrover.bash
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _dlrover
        printf "%s\n" "${COMPREPLY[@]}"' - "${dlrover%/*}" "$@"
}

@test "a build for another Slurm finds that one's library when it runs" {
    run make -n -B LDFLAGS=-L/opt/slurm/lib "BUILD=$BATS_TEST_TMPDIR/b" "$BATS_TEST_TMPDIR/b/dlrover-slurm"
    grep -q -- '-Wl,-rpath,/opt/slurm/lib .*-lslurm' <<<"$output"
}

@test "without words it prints its commands and fails" {
    run -2 "$dlrover"
    [[ $output == *"usage: dlrover COMMAND"* ]]
    run -0 "$dlrover" --help
    for command in status events report trace evidence metrics topo stacks check doctor simulate classify chunk version help; do
        [[ $output == *"  $command "* ]]
    done
}

@test "a slip is one line with what was meant" {
    run -2 "$dlrover" stauts
    [[ $output == "dlrover: unknown command 'stauts', did you mean 'status'?" ]]
    run -2 "$dlrover" frobnicate
    [[ $output == "dlrover: unknown command 'frobnicate' (see 'dlrover help')" ]]
    run -2 "$dlrover" help evnts
    [[ $output == "dlrover: unknown command 'evnts', did you mean 'events'?" ]]
}

@test "a run of another user steers no terminal by its name" {
    mkdir -p "$HOME/.dlrover/job-7/a"$'\e[2J'
    echo nonsense >"$HOME/.dlrover/job-7/a"$'\e[2J/events.jsonl'
    run -0 "$dlrover" events 7
    [[ $output == "dlrover: 1 lines of '"*"/a?[2J/events.jsonl' are no events" ]]
    run -0 "$dlrover" status --once 7
    echo "$output"
    [[ $output == *'run a?[2J'* && $output != *$'\e'* ]]
}

@test "help of each command is the same by both ways" {
    for command in status events report trace evidence metrics topo stacks check doctor simulate classify chunk version; do
        run -0 "$dlrover" help "$command"
        [[ $output == "usage: dlrover $command"* ]]
        [[ $output == "$("$dlrover" "$command" --help)" ]]
    done
}

@test "help settings prints those of the job that are no options of their own" {
    run -0 "$dlrover" help settings
    grep -E '^(KEY|heartbeat|net|partition-grace) ' <<<"$output" | sed -E 's/ +/ /g' >"$BATS_TEST_TMPDIR/some"
    diff "$BATS_TEST_TMPDIR/some" - <<'END'
KEY DEFAULT VALUE MEANING
heartbeat 200ms:5 TIME[:MISSED] time between beats, and how many missed ones make a node dead
net - DEV[,DEV] network devices for copies, such as mlx5_0:1 or eth1; the fastest when empty
partition-grace 10s TIME when more nodes than spares, or half of all, fall silent: wait this much longer
END
    run ! grep -E '^(enable|spares|max-restarts|state-dir) ' <<<"$output"
}

@test "version names the suite and the Slurm it was built for" {
    run -0 "$dlrover" --version
    [[ ${lines[0]} == "dlrover    $(cat VERSION)" ]]
    [[ ${lines[1]} =~ ^for\ Slurm\ \ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    run -0 "$dlrover" version --json
    [[ $(jq -r .dlrover <<<"$output") == "$(cat VERSION)" ]]
}

@test "doctor knows its words, and tells of a host without Slurm what is missing" {
    run -0 "$dlrover" doctor --list
    [[ ${lines[0]} == "plugstack "* ]]
    page=$(scdoc <man/dlrover.1.scd | groff -man -rHY=0 -rLL=400n -Tascii -P-cbou 2>/dev/null)
    for check in $("$dlrover" doctor --list | sed 's/ .*//'); do
        grep -qw "$check" <<<"$page" || { echo "dlrover(1) does not name $check"; return 1; }
    done
    run -2 "$dlrover" doctor --checks=plugstack,nonsense
    [[ $output == "dlrover doctor: unknown check 'nonsense', known are those of --list (see 'dlrover help doctor')" ]]
    run -2 "$dlrover" doctor --limit=0s
    export SLURM_CONF=$BATS_TEST_TMPDIR/slurm.conf
    run -1 "$dlrover" doctor --checks=plugstack,plugin,nodes --limit=5s
    [[ ${lines[0]} == "problem  plugstack    '$BATS_TEST_TMPDIR/plugstack.conf' has no line that loads the plugin: add 'optional "* ]]
    [[ ${lines[1]} == "skip     plugin       no line loads the plugin" ]]
    [[ ${lines[2]} == "skip     nodes        not inside a job" ]]
    run -1 "$dlrover" doctor --checks=plugstack --json
    [[ $(jq -r '.checks[0].verdict, .problems' <<<"$output" | paste -sd' ') == "problem 1" ]]
}

@test "simulate says a goodput in each form, and refuses what it cannot play in one line" {
    run -0 "$dlrover" simulate --gpus=64 --days=20 --spares=1 --redundancy=rs:4+2 --seed=3
    [[ ${lines[0]} == "64 GPUs on 8 nodes, 1 spares, redundancy rs:4+2, 20 days" ]]
    run -0 "$dlrover" simulate --gpus=64 --days=20 --json
    jq -e '.goodput > 0.9 and .low <= .goodput and .high >= .goodput and .keys.gpus == 64' <<<"$output"
    "$dlrover" simulate --gpus=64 --days=20 --svg | python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.stdin)'
    run -0 "$dlrover" simulate --gpus=64 --days=20 --advise
    [ "$(grep -c 'take this' <<<"$output")" -eq 4 ]
    page=$(scdoc <man/dlrover.1.scd | groff -man -rHY=0 -rLL=400n -Tascii -P-cbou 2>/dev/null)
    for key in $("$dlrover" simulate --keys | sed -nE 's/^  ([a-z-]+) .*/\1/p'); do
        grep -qE "(^|[^a-z-])$key([^a-z-]|\$)" <<<"$page" || { echo "dlrover(1) does not name $key"; return 1; }
    done
    printf 'JobID|State|NNodes|ElapsedRaw\n1|NODE_FAIL|8|864000\n' >"$BATS_TEST_TMPDIR/jobs"
    run -0 "$dlrover" simulate --gpus=64 --days=20 --sacct="$BATS_TEST_TMPDIR/jobs" --json
    jq -e '.keys."node-rate" == 12.5' <<<"$output"
    echo nonsense >"$BATS_TEST_TMPDIR/jobs"
    while IFS=';' read -r words says; do
        # shellcheck disable=SC2086 # words
        run -2 "$dlrover" simulate ${words//@/$BATS_TEST_TMPDIR/jobs}
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == "dlrover simulate: "*"$says"*" (see 'dlrover help simulate')" ]] || { echo "$output"; return 1; }
    done <<'END'
--gpus=0;a job has one GPU at least
--set=start=47;start is '47', which is not a time such as 30s or 2h
--set=strt=4s;unknown key, 'start' may be meant
--set=start;'start' is not KEY=VALUE
--redundancy=two;redundancy
--seed=x;seed is 'x', which is not a number
--json --svg;exclude each other
--advise --svg;--advise has no picture
--sacct=@;its first line names no column JobID
--node-events=@;its first line names no column NodeName
--bench=@;no rows of a benchmark are in it
--bench=/nowhere;cannot open '/nowhere'
more;'more' is one argument too many
END
}

@test "classify says the class of an ending, and refuses bad rules with their line" {
    log=$BATS_TEST_TMPDIR/stderr
    printf 'step 3\n\e[31mtorch.OutOfMemoryError: CUDA out of memory.\e[0m\n' >"$log"
    run -0 "$dlrover" classify --exit=1 "$log"
    [[ ${lines[0]} == "class   memory" && ${lines[1]} == "rule    gpu-out-of-memory" ]]
    [[ ${lines[2]} == "line    ?[31mtorch.OutOfMemoryError: CUDA out of memory.?[0m" && ${lines[3]} == "action  stop" ]]
    run -0 "$dlrover" classify --json --signal=SEGV - </dev/null
    jq -e '.class == "program" and .rule == "signal-segmentation" and .action == "restart"' <<<"$output"
    run -1 "$dlrover" classify --exit=7
    [[ ${lines[0]} == "class   unknown" ]]
    printf 'rule ours\n class setup\n action stop\n advice Ask us.\n code 7\n' >"$BATS_TEST_TMPDIR/rules"
    run -0 "$dlrover" classify --rules="$BATS_TEST_TMPDIR/rules" --exit=7
    [[ ${lines[1]} == "rule    ours" && ${lines[3]} == "advice  Ask us." ]]
    [ "$("$dlrover" classify --rules="$BATS_TEST_TMPDIR/rules" --list | sed -n 3p)" = "| ours | setup, stop | code 7 | Ask us. |" ]
    echo ' colour red' >>"$BATS_TEST_TMPDIR/rules"
    while IFS=';' read -r words says; do
        # shellcheck disable=SC2086 # words
        run -2 "$dlrover" classify ${words//@/$BATS_TEST_TMPDIR}
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == "dlrover classify: "*"$says"* ]] || { echo "$output"; return 1; }
    done <<'END'
;a FILE, or --exit
--exit=300;--exit=300: 0 to 255
--signal=FOO;--signal=FOO: KILL, SEGV or 1 to 64
--xid=0;--xid=0: 1 to 999
--exit=1 a b;one file: 'b' is one too many
/nowhere;cannot open '/nowhere'
--rules=/nowhere --exit=1;cannot open '/nowhere'
--rules=@/rules --exit=1;/rules': line 6: 'colour' is no word of a rule
END
}

@test "chunk plan says whether a model fits, by a sum, and refuses what it cannot count in one line" {
    words=(chunk plan --params 13e9 --nodes 2 --gpus 16 --gpu-mem 80g --layers 40)
    run -0 "$dlrover" "${words[@]}"
    diff - <(echo "$output" | sed -E 's/ +/ /g') <<'END'
13000000000 parameters are 1550 chunks of 8388608, 97 for a rank; 8 ranks on a node
memory of each node
 16-bit parameters, or gradients 12.1 GiB = 776 x 16 MiB
 optimizer state 72.8 GiB = 776 x 96 MiB
 the version before 72.8 GiB = 776 x 96 MiB
 frames to spare, 10 % 7.3 GiB = 78 x 96 MiB
 for other nodes, partner 145.5 GiB = 1552 x 96 MiB
 for chunks that are not full, 1/20 15.5 GiB
 programs 32.0 GiB = 8 x 4096 MiB
 sum 358.0 GiB
memory of each GPU
 one of 40 layers, 2 chunks ahead 0.6 GiB = 41 x 16 MiB
 for chunks that are not full, 1/20 0.0 GiB = 3 x 16 MiB
 left for activations, and chunks that stay 79.3 GiB of 80.0
fits, where a node has that memory
for the script: #SBATCH --mem=358G
a save on each step: depends on the step; what limits it: the network, when a step is shorter than 7.3 s
 each node sends 72.8 GiB, the fullest gets 72.8: 7.3 s at 10.0 GiB/s
END
    run -0 "$dlrover" "${words[@]}" --mem=512g --step=8s --spare=100 --json
    [[ $(jq -r '.fits, .save.each_step, .limit' <<<"$output" | paste -sd' ') == "true true nothing" ]]
    [[ $(jq '.node.sum == ([.node | to_entries[] | select(.key != "sum").value] | add)' <<<"$output") == true ]]
    run -0 "$dlrover" "${words[@]}" --step=8s
    [[ $output == *"a save on each step: yes; what limits it: frames to spare, when a commit is late"* ]]
    run -0 "$dlrover" "${words[@]}" --nodes=8 --redundancy=xor:4 --step=4s # 1.8 s to send, four times that to get
    [[ $output == *"a save on each step: no; what limits it: the network"*"sends 18.2 GiB, the fullest gets 72.8: 7.3 s"* ]]
    run -0 "$dlrover" "${words[@]}" --step=2s --json
    [[ $(jq -r '.save.each_step, .limit' <<<"$output" | paste -sd' ') == "false the network" ]]
    run -0 "$dlrover" "${words[@]}" --redundancy=none --json
    [[ $(jq -c '[.save.each_step, .save.bytes, .node.others]' <<<"$output") == "[true,0,0]" ]]
    run -0 "$dlrover" "${words[@]}" --no-ckpt --json
    [[ $(jq -c '[.save.each_step, .node.before]' <<<"$output") == "[false,0]" ]]
    run -1 "$dlrover" "${words[@]}" --mem=300g
    [[ $output == *"does not fit: each node misses 58.0 GiB"* ]]
    run -1 "$dlrover" "${words[@]}" --layers=1 --gpu-mem=8g
    [[ $output == *"does not fit: each GPU misses 17.5 GiB"* ]]
    while IFS=';' read -r line says; do
        read -ra wrong <<<"$line"
        run -2 "$dlrover" "${wrong[@]}"
        [[ $output == "dlrover chunk: "*"$says"*" (see 'dlrover help chunk')" ]] || { echo "$output"; return 1; }
        [[ ${#lines[@]} -eq 1 ]]
    done <<'END'
chunk;'plan' is missing
chunk plan;--params is missing
chunk trace;'trace' is not 'plan'
chunk plan twice;'twice' is not 'plan'
chunk plan --params=13e9;--gpu-mem is missing
chunk plan --params=many;--params=many: 1 to 1e13
chunk plan --params=1e14;--params=1e14: 1 to 1e13
chunk plan --params=1e9 --gpu-mem=8g;copies on 1 other nodes need more than 1 nodes
chunk plan --params=1e9 --gpu-mem=8g --nodes=4 --gpus=3;3 GPUs on 4 nodes
chunk plan --params=1e9 --gpu-mem=8g --nodes=4 --spare=200;200 % of frames to spare
chunk plan --params=1e9 --gpu-mem=much;gpu-mem
chunk plan --params=1e9 --gpu-mem=0;--gpu-mem=0: it must be above 0
chunk plan --params=1e9 --gpu-mem=8g --gpus=0;--gpus=0: it must be above 0
chunk plan --params=1e9 --gpu-mem=8g --mem=0k;--mem=0k: it must be above 0
chunk plan --params=1e9 --gpu-mem=8g --gpus=4294967295;4294967295 GPUs: it must be 1048576 at most
chunk plan --params=1e9 --gpu-mem=8g --no-ckpt --gpus=4 --program-mem=2097152t;a node would need more bytes than there are
END
}

@test "the manual names every option of every command" {
    page=$(scdoc <man/dlrover.1.scd | groff -man -rHY=0 -rLL=400n -Tascii -P-cbou 2>/dev/null)
    for command in status events report trace evidence metrics topo stacks check doctor simulate classify chunk version; do
        for option in $("$dlrover" help "$command" | sed -nE 's/^ +(--[a-z-]+).*/\1/p'); do
            [[ $option == --help ]] || grep -qE -e "(^|[^a-z-])$option([^a-z-]|$)" <<<"$page" || {
                echo "dlrover(1) does not name $option of $command"
                return 1
            }
        done
    done
}

@test "the manual and the completion name every event of the journal" {
    page=$(scdoc <man/dlrover.1.scd | groff -man -rHY=0 -rLL=400n -Tascii -P-cbou 2>/dev/null)
    sed -nE 's/^\| ([a-z_]+) \|.*/\1/p' docs/journal.md | grep -vx event >"$BATS_TEST_TMPDIR/events"
    [[ -s $BATS_TEST_TMPDIR/events ]]
    while read -r event; do
        grep -qw "$event" <<<"$page" || { echo "dlrover(1) does not name $event"; return 1; }
        complete_words dlrover events --event = "$event" | grep -qx "$event"
    done <"$BATS_TEST_TMPDIR/events"
}

@test "every field of status --json is in the manual" {
    page=$(scdoc <man/dlrover.1.scd | groff -man -t -rHY=0 -rLL=400n -Tascii -P-cbou 2>/dev/null |
        sed -n '/JSON OF STATUS/,/EXIT STATUS/p')
    put_journal 7 r node-loss
    for field in $("$dlrover" status --json | jq -r 'keys[]'); do
        grep -qw "$field" <<<"$page" || { echo "dlrover(1) does not name $field"; return 1; }
    done
}

@test "status says what a requeued job waits for" {
    put_journal 7 r requeue
    mkdir "$HOME/bin"
    printf '#!/bin/sh\necho "$*" >>"$HOME/asked"\necho "JobId=$4 JobState=PENDING Reason=Priority ExcNodeList=n[2-3]"\n' \
        >"$HOME/bin/scontrol"
    chmod +x "$HOME/bin/scontrol"
    export PATH=$HOME/bin:$PATH
    run -0 "$dlrover" status --once 7
    [[ $output == *"waits for"*"its turn (Priority); not on n[2-3] (ExcNodeList"* ]]
    [[ $("$dlrover" status --json 7 | jq -r .waits_for) == "its turn (Priority); not on"* ]]
    [[ $(uniq "$HOME/asked") == "-o show job 43" ]]
    printf '#!/bin/sh\necho error >&2\nexit 1\n' >"$HOME/bin/scontrol"
    run -0 "$dlrover" status --once 7
    [[ $output != *"waits for"* ]]
    put_journal 8 r "done"
    run -0 "$dlrover" status --once 8
    [[ $output != *"waits for"* && $(wc -l <"$HOME/asked") == 2 ]]
}

@test "stacks merges what the nodes of a round say, and names who says nothing" {
    put_journal 41 one node-loss
    mkdir "$HOME/bin"
    cat >"$HOME/bin/srun" <<'END'
#!/bin/sh
echo "$*" >"$HOME/asked"
echo '0: [0,-1,"train","0",1]'
echo '1: [0,-1,"train","1",1]'
echo '1: [1,0,"read_batch","1",1]'
echo '0: [1,0,"MPI_Allreduce","0",1]'
echo '1: {"note":"rank 1: a note"}'
echo '0: {"end":"n1"}'
[ ! -e "$HOME/short" ] || { echo 'srun: error: no node' >&2; exit 1; }
echo '1: {"end":"n5"}'
END
    chmod +x "$HOME/bin/srun"
    export PATH=$HOME/bin:$PATH SLURM_JOB_ID=41 SLURM_NTASKS=9
    run -0 "$dlrover" stacks --ranks=0-1
    [[ ${lines[0]} == "job 41, run one, round 1: 2 nodes" ]]
    [[ ${lines[*]:1} == *"train"*"rank 0"*"MPI_Allreduce"*"rank 1"*"read_batch n5: rank 1: a note" ]]
    read -r asked <"$HOME/asked"
    [[ $asked == *"--jobid=41 --nodes=2 --ntasks=2 --nodelist="*" --overlap "*"dlrover-stacks --job 41 --ranks 0-1" ]]
    run -0 "$dlrover" stacks --ranks=0-1 --json
    [[ $(jq -r '.tree[2] | [.frame, .ranks, .parent, .threads] | join(" ")' <<<"$output") == "MPI_Allreduce 0 0 1" ]]
    touch "$HOME/short"
    run -1 "$dlrover" stacks --ranks=0-1
    [[ $output == *"1 of 2 nodes have answered; srun says: srun: error: no node"* ]]
    [[ $output == *"n5 has not answered"*"dlrover: not all nodes have answered" ]]
    run -2 "$dlrover" stacks --ranks=one
    [[ $output == "dlrover stacks: 'one' is no list of ranks like 0-4,6 (see 'dlrover help stacks')" ]]
    put_journal 42 two 'done'
    run -1 "$dlrover" stacks 42
    [[ $output == "dlrover: run two of job 42 is over" ]]
}

@test "completion offers commands, options, jobs and runs" {
    put_journal 41 one node-loss
    put_journal 412 two 'done'
    [[ $(complete_words dlrover stat) == status ]]
    [[ $(complete_words dlrover help v) == version ]]
    [[ $(complete_words dlrover help se) == settings ]]
    [[ $(complete_words dlrover status --j) == --json ]]
    [[ $(complete_words dlrover events --s) == $'--since=\n--state-dir=' ]]
    [[ $(complete_words dlrover status 41) == $'41\n412' ]]
    [[ $(complete_words dlrover status --run = "") == $'one\ntwo' ]]
    [[ $(complete_words dlrover check --li) == --list ]]
    [[ $(complete_words dlrover check --checks = cl) == clock ]]
    [[ $(complete_words dlrover doctor --checks = slurmd) == slurmd ]]
    [[ $(complete_words dlrover doctor --checks = no) == nodes ]]
    [[ $(complete_words dlrover status --state-dir = /nowhere "") == "" ]]
}

@test "a view on a terminal follows the journal and leaves the screen as it was" {
    put_journal 7 r node-loss
    journal=$HOME/.dlrover/job-7/r/events.jsonl
    python3 - "$dlrover" "$journal" <<'PYTHON'
import os, pty, select, signal, sys, time

out = b""

def until(text, fd, limit=10):
    global out
    end = time.time() + limit
    while text not in out:
        assert time.time() < end, (text, out)
        if select.select([fd], [], [], 0.1)[0]:
            out += os.read(fd, 65536)

os.environ["TERM"] = "xterm"
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ["dlrover", "status", "--interval=60s"])
until(b"\033[?1049h", fd)
until(b"saves begin", fd)
with open(sys.argv[2], "a") as journal:
    journal.write('{"time":"2026-11-21T03:02:00.000Z","event":"node_dead","node":"n4","why":"silent"}\n')
until(b"n4 is dead: silent", fd)
os.write(fd, b"\003")
until(b"\033[?25h\033[?1049l", fd)
until(b"n4 is dead", fd)
status = os.waitpid(pid, 0)[1]
assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 128 + signal.SIGINT, status
PYTHON
}

@test "the list of limits is that of the sources" {
    run -0 tests/checks/check_limits.sh
}

# shellcheck disable=SC2016 # backquotes are text
# Rows of common/config/job_config.c: NAME DEFAULT, which may be empty
job_options() { sed -nE 's/^ *\{"([a-z-]+)", DLR_OPT_[A-Z]*, FIELD\([a-z_]*\), "([^"]*)".*/\1 \2/p' common/config/job_config.c; }

@test "every default of a job's options is the same in the README, the manual and the site's sample" {
    local n=0 bad=0 row option entry
    readme=$(sed -n 's/\\|/,/g; s/^| `--dlrover\([^`]*\)` | \([^|]*\) |.*/\1 | \2/p' README.md)
    while read -r name default; do
        n=$((n + 1)) option=-$name entry=--dlrover-$name
        [ "$name" != enable ] || option='' entry=--dlrover
        grep -qE "^\*$entry\*" man/spank_dlrover.8.scd || entry=$name # a setting
        grep -qE "^#   $name=$default( |\$)" etc/plugstack.conf.d/dlrover.conf ||
            { echo "etc/plugstack.conf.d/dlrover.conf does not have $name=$default"; bad=1; }
        [ -n "$default" ] || continue # then it is words, in the two below
        sed -n "/^\*$entry\*/,/Default: /p" man/spank_dlrover.8.scd | tail -n 1 | grep -qF "Default: $default." ||
            { echo "spank_dlrover(8) does not say $name: Default: $default."; bad=1; }
        row=$(grep -E "^$option(\[?=)" <<<"$readme" || :)
        case $name:$row in
        *: | net-traffic-class:*"the network's") ;; # not there, or 0 in words
        *" | $default") ;;
        *) echo "README.md says '$row', the default is $default"; bad=1 ;;
        esac
    done < <(job_options)
    [ "$n" -eq "$(grep -c '^    {"' common/config/job_config.c)" ]
    [ "$bad" -eq 0 ]
    [ "$(wc -l <<<"$readme")" -eq 12 ] # but --dlrover-set, which has no default
}

# Rows of ckpt/client/conf.c
library_options() { sed -nE 's/^ *\{"(DLROVER_[A-Z_]*)", *DLR_OPT_[A-Z]*, *FIELD\([a-z_]*\), *"([^"]*)".*/\1 \2/p' ckpt/client/conf.c; }

@test "every variable of the library is in its manual, with its default" {
    local n=0
    while read -r name default; do
        n=$((n + 1))
        sed -n "/^\*$name\*\$/,/^\$/p" man/libdlrover.3.scd | grep -qE "Default(, or)? _?${default}[_.;:]" ||
            { echo "libdlrover(3) does not say $name: Default $default"; return 1; }
    done < <(library_options)
    [ "$n" -eq "$(grep -c '^    {"DLROVER_' ckpt/client/conf.c)" ]
}

@test "the library needs neither MPI nor CUDA nor UCX" {
    needs=$(readelf -dW "${dlrover%/*}/libdlrover.so" | sed -nE 's/.*NEEDED.*\[lib([a-z]*).*/\1/p' | sort | paste -sd' ')
    [ "$needs" = "c isal xxhash" ]
}

@test "the README names what is there" {
    while read -r path; do
        [[ -e $path || -e docs/$path ]] || { echo "README.md links to '$path'"; return 1; }
    done < <(grep -oE '\]\([a-z][^):]*\)' README.md docs/*.md | sed -E 's/^[^(]*\(//; s/(#.*)?\)$//' | sort -u)
    for folder in $(sed -n '/^## Folders/,$p' README.md | grep -oE '^\| [^|]*' | grep -oE '`[a-z_]+/`' | tr -d '`'); do
        [[ -d $folder ]] || { echo "README.md names $folder"; return 1; }
    done
}
