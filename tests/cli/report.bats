#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# dlrover report as it is typed. Needs no Slurm.

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

# A journal of so many nodes, of which one is lost in each round.
make_journal() { # NODES ROUNDS
    mkdir -p "$HOME/.dlrover/job-77/big"
    python3 - "$1" "$2" >"$HOME/.dlrover/job-77/big/events.jsonl" <<'PYTHON'
import json, sys, time

nodes, rounds = int(sys.argv[1]), int(sys.argv[2])
now = 1795230000000

def event(name, ms, **fields):
    global now
    now += ms
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1000)) + ".%03dZ" % (now % 1000)
    print(json.dumps({"time": stamp, "event": name, **fields}, separators=(",", ":")))

names = ["node%05d" % i for i in range(nodes)]
leaf = {name: "leaf%03d" % (i // 32) for i, name in enumerate(names)}
spares = names[-rounds:]
places = names[:-rounds]
event("start", 0, job="77", run="big", nodes=names, places=len(places), spares=rounds, world=len(places), round=0)
for name in names:
    event("node_up", 1, node=name, leaf=leaf[name])
step = 0
for r in range(rounds):
    event("rendezvous", 100, mpi=True, candidates=[])
    event("plan", 2000, round=r, restore=[r - 1, step - 4] if r else None, spares=spares, out=[], places=[
        {"node": name, "leaf": leaf[name], "first": i, "tasks": 1, "moved": False} for i, name in enumerate(places)])
    event("launch", 500, round=r, world=len(places), nodes=len(places))
    event("running", 4000, round=r)
    event("first_step", 3000, round=r, step=step + 1)
    for _ in range(10):
        step += 10
        event("progress", 2000, round=r, step=step, rate=5.0, committed=[r, step - 2])
    event("node_dead", 1000, node=places[r], why="silent", silent_ms=1050)
    event("round_end", 5, round=r, cause="node", why="node %s was silent" % places[r], step=step)
    event("cleared", 200, round=r)
    places[r] = spares.pop(0)
PYTHON
}

# Markup as a browser reads it: well formed, nothing that loads or runs, every picture and table with its words.
check_page() { # FILE
    python3 - "$1" <<'PYTHON'
import html.parser, sys

text = open(sys.argv[1], "rb").read()
assert all(c == 10 or 32 <= c < 127 for c in text), "not printable ASCII"
assert len(text) <= 2 << 20, len(text)
text = text.decode()
assert "default-src 'none'; style-src 'unsafe-inline'" in text
known = set("html head meta title style body header main section footer h1 h2 h3 p span ul ol li table caption thead "
            "tbody tr th td details summary article svg path".split())

class Page(html.parser.HTMLParser):
    open_tags = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        assert tag in known, tag
        assert not set(attrs) - set("lang charset http-equiv content name class id role scope aria-labelledby aria-label "
                                    "aria-hidden viewbox preserveaspectratio d open data-l".split()), attrs
        assert tag != "svg" or "aria-hidden" in attrs or attrs.get("aria-label"), attrs
        assert tag != "th" or attrs.get("scope"), attrs
        if tag != "meta":
            self.open_tags.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag, tag

page = Page()
page.feed(text)
assert not page.open_tags, page.open_tags
PYTHON
}

@test "a trace: both formats, a part of it, bad words" {
    put_journal 41 r node-loss
    "$dlrover" trace 41 --out="$HOME/t.pftrace"
    [[ $(head -c 1 "$HOME/t.pftrace" | od -An -tx1) == " 0a" ]]
    "$dlrover" trace 41 --format=json --out=- | jq -e '[.traceEvents[]|select(.name=="round 1")]|length == 1'
    "$dlrover" trace 41 --format=perfetto --last=2s --out="$HOME/last"
    [[ $(stat -c %s "$HOME/last") -lt $(stat -c %s "$HOME/t.pftrace") ]]
    run -2 "$dlrover" trace 41
    [[ $output == "dlrover trace: where to? --out=FILE"* && ${#lines[@]} -eq 1 ]]
    run -2 "$dlrover" trace 41 --out=x --format=xml
    [[ $output == "dlrover trace: --format=xml: must be perfetto or json"* ]]
    run -2 "$dlrover" trace 41 --out=x --last=soon
    run -2 "$dlrover" trace 41 42
    run -1 "$dlrover" trace 42 --out=x
    run -1 "$dlrover" trace 41 --out="$HOME/none/t"
    [[ $output == "dlrover: cannot write '$HOME/none/t': No such file or directory" ]]
    run -1 bash -c '"$1" trace 41 --out=- >/dev/full' - "$dlrover"
}

@test "evidence: one archive without secrets, keys or snapshots, for its owner alone" {
    put_journal 41 r node-loss
    dir=$HOME/.dlrover/job-41
    sed -i '1s/"argv":\[[^]]*\]/"argv":["t.py","--api-key","s3cr3t"]/; t; 1s/"event":"start"/&,"argv":["t.py","--api-key","s3cr3t"]/' \
        "$dir/r/events.jsonl"
    grep -q s3cr3t "$dir/r/events.jsonl"
    echo "HF_TOKEN=s3cr3t and more" >"$dir/agents.log"
    echo s3cr3t >"$dir/r/state.json"
    ln -s /etc/passwd "$dir/r/other.log"
    mkfifo "$dir/r/pipe.log"
    run -0 "$dlrover" evidence 41 --tar="$HOME/e.tar"
    [[ $output == "$HOME/e.tar: 8 files, "*"; 2 values masked. Look at it before you send it." ]]
    [[ $(stat -c %a "$HOME/e.tar") == 600 ]]
    tar -C "$HOME" -xf "$HOME/e.tar"
    [[ $(cd "$HOME/dlrover-evidence" && echo *) == \
        "agents.log events.jsonl report.html report.json report.txt slurm.txt trace.pftrace version.txt" ]]
    [[ -z $(grep -rl s3cr3t "$HOME/dlrover-evidence") ]]
    grep -qx 'HF_TOKEN=\*\*\*\*\*\* and more' "$HOME/dlrover-evidence/agents.log"
    jq -es length "$HOME/dlrover-evidence/events.jsonl"
    run -2 "$dlrover" evidence 41
    [[ $output == "dlrover evidence: where to? --tar=FILE"* ]]
    run -1 "$dlrover" evidence 42 --tar="$HOME/f.tar"
    [[ ! -e $HOME/f.tar ]]
    run -1 "$dlrover" evidence 41 --tar="$HOME/none/e.tar"
    [[ $output == "dlrover: cannot write '$HOME/none/e.tar': No such file or directory" ]]
}

@test "a report as text says where the time went, what failed and what to do" {
    put_journal 41 r node-loss
    run -0 "$dlrover" report 41
    [[ $output == "job 41, run r"* ]]
    [[ $output == *"steps done again after a restore"*" 0.42 s "* ]]
    [[ $output == *"a node was lost: node n2 was silent for 1050 ms"*"the next step came after 1.61 s; steps to be done again: 2"* ]]
    [[ $output == *"| 03:00:13.620  round 1 is planned: 4 nodes; n5 takes rank 1"* ]]
    [[ $output == *"Look at its console"* ]]
    [[ $output == *"n5 "*"training"*"n2 "*"dead"* ]]
}

@test "parts of the time add up to the whole in each journal of the tests" {
    local n=0 journal
    for journal in tests/journals/*.jsonl; do
        put_journal $((++n)) r "$(basename "$journal" .jsonl)"
        "$dlrover" report $n --json >"$HOME/report.json"
        jq -e '([.causes_ms[]] | add) == .wall_ms and ([.causes_ms[]] | min) >= 0' "$HOME/report.json"
        "$dlrover" report $n --html="$HOME/page.html"
        check_page "$HOME/page.html"
    done
}

@test "JSON has rounds, incidents with their lines, nodes over time, checkpoints" {
    put_journal 41 r node-loss
    put_journal 41 s "done"
    run -0 "$dlrover" report 41 --run=r --json
    jq -e '.other_runs == 1 and .wall_ms == 22450 and .goodput > 0.79 and .goodput < 0.8' <<<"$output"
    jq -e '.incidents[0] | .cause == "node" and .node == "n2" and .steps_redone == 2 and (.lines | length) > 4' <<<"$output"
    jq -e '[.rounds[].last_step] == [122, 221] and .rounds[1].restore == [0, 120]' <<<"$output"
    jq -e '.nodes[] | select(.node == "n2") | [.roles[].role] == ["waiting", "ready", "training", "dead"]' <<<"$output"
    jq -e '.checkpoints | .committed == [1, 218] and .restores == 1' <<<"$output"
}

@test "a page is written whole or not at all, and wrong words are one line" {
    put_journal 41 r node-loss
    "$dlrover" report 41 --html=- >"$HOME/out"
    echo old >"$HOME/page.html"
    run -0 "$dlrover" report 41 --html="$HOME/page.html"
    [ -z "$output" ]
    cmp "$HOME/out" "$HOME/page.html"
    [ "$(find "$HOME" -maxdepth 1 -name 'page*' | wc -l)" -eq 1 ]
    run -1 "$dlrover" report 41 --html="$HOME/none/page.html"
    [[ $output == "dlrover: cannot write '$HOME/none/page.html': No such file or directory" ]]
    run -1 "$dlrover" report 42
    [[ $output == "dlrover: no journal: looked for '$HOME/.dlrover/job-42/"* ]]
    run -2 "$dlrover" report 41 --html=x --json
    [[ $output == "dlrover report: --html and --json exclude each other (see 'dlrover help report')" ]]
    run -2 "$dlrover" report 41 --html=
    run -2 "$dlrover" report 41 42
    # shellcheck disable=SC2016 # the other shell's
    run -1 bash -c '"$1" report 41 >/dev/full' - "$dlrover"
    [[ $output == "dlrover: cannot write: No space left on device" ]]
}

@test "a page of 16,384 nodes has leaf switches for lines, and names who is lost" {
    make_journal 16384 3
    "$dlrover" report 77 --html="$HOME/page.html"
    check_page "$HOME/page.html"
    grep -q 'Leaf switches (512)' "$HOME/page.html"
    grep -q '<li>node00001: dead, silent for 1.05 s' "$HOME/page.html"
    run -0 "$dlrover" report 77
    [ "${#lines[@]}" -lt 100 ]
    [[ $output == *"16384 nodes in all"* ]]
}

# What Chromium complains of on the page, in its own words.
chromium_says() { # ARGUMENT...
    timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr \
        --user-data-dir="$HOME/chromium" "$@" "file://$HOME/page.html" 2>&1 | grep -E 'CONSOLE|Refused|Content Security' || :
}

@test "a browser shows and prints the page without an error or a request" {
    command -v chromium >/dev/null || skip "no chromium here"
    put_journal 41 r node-loss
    "$dlrover" report 41 --html="$HOME/page.html"
    [ -z "$(chromium_says --window-size=1280,2400 --screenshot="$HOME/wide.png")" ]
    [ -z "$(chromium_says --window-size=390,2400 --screenshot="$HOME/narrow.png")" ]
    [ -z "$(chromium_says --print-to-pdf="$HOME/page.pdf")" ]
    [ -s "$HOME/wide.png" ]
    [ -s "$HOME/narrow.png" ]
    [ -s "$HOME/page.pdf" ]
    echo '<script>console.log(1)</script><img src="http://127.0.0.1:9/x">' >>"$HOME/page.html" # it would be seen
    [ -n "$(chromium_says --window-size=390,2400 --screenshot="$HOME/narrow.png")" ]
}
