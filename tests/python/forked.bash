# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A Python that has imported what takes long, for a file of tests (forked.py).

# Writes $BATS_FILE_TMPDIR/python, which runs programs as this Python does.
start_python() { # PYTHON MODULE…
    local python=$1 socket=$BATS_FILE_TMPDIR/forked here
    shift

    here=$(cd "$BATS_TEST_DIRNAME" && pwd)
    "$python" "$here/forked.py" serve "$socket" "$@" >"$BATS_FILE_TMPDIR/python.pid" </dev/null 3>&- ||
        return 1
    printf '#!/bin/sh\nexec "%s" -IS "%s/forked.py" run "%s" "$@"\n' "$python" "$here" "$socket" \
        >"$BATS_FILE_TMPDIR/python"
    chmod +x "$BATS_FILE_TMPDIR/python"
}

stop_python() {
    [[ ! -s $BATS_FILE_TMPDIR/python.pid ]] || kill "$(<"$BATS_FILE_TMPDIR/python.pid")" || true
}

# Makes what says whom the watch pages of ranks blame: judge_pages.c.
make_judge() { # FILE
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -I. -o "$1" tests/python/judge_pages.c watch/read.c watch/judge/*.c \
        interpose/calls/calls.c common/base/str.c common/base/clock.c -lxxhash
}
