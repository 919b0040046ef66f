#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# dlrover metrics as it is typed. Needs no Slurm.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    dlrover=$(readlink -f "${BUILD:-build}/dlrover")
    unset SLURM_JOB_ID DLROVER_STATE_DIR
    export HOME=$BATS_TEST_TMPDIR TZ=UTC
    journal=$HOME/.dlrover/job-41/r/events.jsonl
    mkdir -p "${journal%/*}"
    grep -v '"event":"end"' tests/journals/done.jsonl >"$journal"
}

teardown() {
    [[ -z ${pid:-} ]] || kill "$pid" 2>/dev/null || :
}

# Runs it beside the test until the run is over; sets pid, and port where it listens.
begin() { # OPTION…
    "$dlrover" metrics 41 --interval=1s "$@" >"$HOME/out" 2>"$HOME/err" 3>&- &
    pid=$!
}

until_true() { # COMMAND…
    timeout 20 bash -c 'until eval "$1"; do sleep 0.05; done' - "$*" || { cat "$HOME/out" "$HOME/err"; return 1; }
}

listen() { # OPTION…
    begin --listen=0 "$@"
    until_true "grep -q '^dlrover: port [1-9]' '$HOME/out'"
    port=$(sed -n 's/^dlrover: port //p' "$HOME/out")
}

@test "a run's numbers, once, in both formats" {
    run -0 "$dlrover" metrics 41
    [[ $output == *$'\ndlrover_run_state{slurm_job="41",run="r",state="done"} 0\n'* ]]
    [[ $output != *"# EOF"* ]]
    run -0 "$dlrover" metrics 41 --run=r --openmetrics
    [[ $output == *$'\n# EOF' ]]
    run -1 "$dlrover" metrics 42
    [[ $output == "dlrover: "* && ${#lines[@]} -eq 1 ]]
    run -1 bash -c '"$1" metrics 41 >/dev/full' - "$dlrover"
}

@test "bad words to metrics are one line each" {
    while read -r words; do
        # shellcheck disable=SC2086
        run -2 "$dlrover" metrics $words
        [[ ${#lines[@]} -eq 1 && $output == "dlrover metrics: "* ]] || { echo "$words: $output"; false; }
    done <<'END'
41 42
--file=
--interval=0
--interval=900ms
--interval=soon
--openmetrics --file=x
--openmetrics --listen=0
END
    for where in x 70000 :80 ::1:80 localhost:80 1.2.3:80:90 '[::1' 127.0.0.1: ''; do
        run -1 "$dlrover" metrics 41 "--listen=$where"
        echo "$where: $output"
        [[ ${#lines[@]} -eq 1 && $output == *"'$where' is no place to listen at"* ]]
    done
    run -1 "$dlrover" metrics 41 --listen=203.0.113.7:0
    [[ $output == "dlrover: cannot listen at "* ]]
}

@test "a file is whole at any time, follows the run, and the command ends with it" {
    begin "--file=$HOME/run.prom"
    until_true "[[ -s '$HOME/run.prom' ]]"
    grep -q 'state="done"} 0' "$HOME/run.prom"
    [[ $(stat -c %a "$HOME/run.prom") == 644 ]]
    grep '"event":"end"' tests/journals/done.jsonl >>"$journal"
    wait "$pid"
    pid=''
    grep -q 'state="done"} 1' "$HOME/run.prom"
    grep -q '^dlrover_exit_code{.*} 0$' "$HOME/run.prom"
    [[ ! -s $HOME/err && $(find "$HOME" -name 'run.prom*' | wc -l) -eq 1 ]]
}

@test "a run that does not exist yet is waited for" {
    mv "$journal" "$journal.later"
    begin "--file=$HOME/run.prom"
    until_true "[[ -s '$HOME/err' ]]"
    grep -q '^dlrover: no run yet, it is waited for: ' "$HOME/err"
    mv "$journal.later" "$journal"
    until_true "[[ -s '$HOME/run.prom' ]]"
    kill -TERM "$pid"
    run wait "$pid"
    pid=''
}

@test "a file that cannot be written is told once, and Ctrl-C ends it" {
    begin "--file=$HOME/none/run.prom"
    until_true "[[ -s '$HOME/err' ]]"
    kill -INT "$pid"
    run wait "$pid"
    pid=''
    [[ $(wc -l <"$HOME/err") -eq 1 ]]
    grep -q "^dlrover: cannot write '$HOME/none/run.prom': No such file" "$HOME/err"
}

@test "over HTTP: the format that is asked for, one page, ten times a second" {
    listen
    at=http://127.0.0.1:$port
    curl -sf -D "$HOME/head" "$at/metrics" >"$HOME/page"
    grep -qi '^content-type: text/plain; version=0.0.4; charset=utf-8' "$HOME/head"
    grep -q '^dlrover_ranks{slurm_job="41",run="r"} ' "$HOME/page"
    curl -sf -D "$HOME/head" -H 'Accept: application/openmetrics-text; version=1.0.0' "$at/metrics" | tail -n 1 |
        grep -qx '# EOF'
    grep -qi '^content-type: application/openmetrics-text; version=1.0.0; charset=utf-8' "$HOME/head"
    [[ $(curl -s -o /dev/null -w '%{http_code}' "$at/etc/passwd") == 404 ]]
    [[ $(curl -s -o /dev/null -w '%{http_code}' -X POST --data x=1 "$at/metrics") == 405 ]]
    [[ $(curl -s -o /dev/null -w '%{http_code}' -I "$at/metrics") =~ ^(200|429)$ ]]
    for _ in $(seq 25); do curl -s -o /dev/null -w '%{http_code}\n' "$at/metrics"; done >"$HOME/codes"
    [[ -z $(grep -vE '^(200|429)$' "$HOME/codes") ]]
    run -1 "$dlrover" metrics 41 "--listen=$port"
    [[ $output == "dlrover: cannot listen at '$port': Address already in use" ]]
    # Who says nothing, or half a word, holds up nobody.
    exec 7<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /metrics HT' >&7
    until_true "curl -sf '$at/metrics' | grep -q dlrover_ranks"
    exec 7>&-
    kill -TERM "$pid"
    run wait "$pid"
    pid=''
}

@test "the manual's table, rules and dashboard name the metrics that there are" {
    "$dlrover" metrics 41 | sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' | sort >"$HOME/have"
    sed -nE 's/^\| `(dlrover_[a-z_]+)`.*/\1/p' docs/metrics.md | sort >"$HOME/told"
    diff "$HOME/have" "$HOME/told"
    grep -ohE 'dlrover_[a-z_]+[a-z]' etc/prometheus/dlrover.rules.yml etc/grafana/dlrover.json | sort -u >"$HOME/used"
    [[ -s $HOME/used && -z $(comm -13 "$HOME/have" "$HOME/used") ]]
    python3 -m json.tool etc/grafana/dlrover.json /dev/null
}

@test "promtool takes the pages and the rules, and the rules' own tests pass" {
    command -v promtool >/dev/null || skip "promtool is not installed (Debian: prometheus)"
    for journal in tests/journals/*.jsonl; do
        cp "$journal" "$HOME/.dlrover/job-41/r/events.jsonl"
        run -0 promtool check metrics < <("$dlrover" metrics 41)
        [[ -z $output ]]
    done
    promtool check rules etc/prometheus/dlrover.rules.yml
    promtool test rules etc/prometheus/dlrover.tests.yml
}

@test "a Prometheus scrapes a run, and every expression of rules and dashboard answers" {
    command -v prometheus >/dev/null || skip "prometheus is not installed"
    listen
    printf '%s\n' 'global: {scrape_interval: 1s, evaluation_interval: 1s}' \
        "rule_files: ['$PWD/etc/prometheus/dlrover.rules.yml']" \
        "scrape_configs: [{job_name: dlrover, static_configs: [{targets: ['127.0.0.1:$port']}]}]" >"$HOME/prometheus.yml"
    mkdir "$HOME/tsdb"
    prometheus --config.file="$HOME/prometheus.yml" --storage.tsdb.path="$HOME/tsdb" \
        --web.listen-address=127.0.0.1:19399 >"$HOME/prometheus.log" 2>&1 3>&- &
    server=$!
    api=http://127.0.0.1:19399/api/v1
    until_true "curl -s '$api/query?query=dlrover_ranks' | jq -e '.data.result|length == 1'" ||
        { kill "$server"; false; }
    bad=$(python3 - "$api" <<'PYTHON'
import json, sys, urllib.parse, urllib.request

api = sys.argv[1]
board = json.load(open("etc/grafana/dlrover.json"))
asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
for words in (("$slurm_job", "41"), ("$run", "r"), ("$__rate_interval", "1m")):
    asked = [text.replace(*words) for text in asked]
for text in asked:
    with urllib.request.urlopen(f"{api}/query?" + urllib.parse.urlencode({"query": text})) as answer:
        if json.load(answer)["status"] != "success":
            print(text)
with urllib.request.urlopen(f"{api}/rules") as answer:
    for group in json.load(answer)["data"]["groups"]:
        for rule in group["rules"]:
            if rule["health"] == "err":
                print(rule["name"], rule["lastError"])
PYTHON
    ) || bad=failed
    kill "$server"
    [[ -z $bad ]] || { echo "$bad"; false; }
}
