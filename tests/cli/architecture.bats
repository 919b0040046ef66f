#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The gate that compares the picture of docs/architecture.md with mk/layers, over three folders.

setup() {
    gate=$BATS_TEST_DIRNAME/../checks/check_architecture.py
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/{mk,docs}
    cd "$tree" || exit
    printf 'base:\ntop/mid: base\ntop/high: base top/mid\n' >mk/layers
    cat >docs/architecture.md <<'END'
A page.

    top/ -> base/ | a block
      high -> mid  | words
      mid  -> base
    shared         | a heading
      base
END
}

# check STATUS [LINE...]: the gate says these lines, and no more
check() {
    local want=$1

    shift
    run "$gate" "$tree"
    echo "$output"
    [ "$status" -eq "$want" ]
    [ "$output" = "$(printf '%s\n' "$@")" ]
}

@test "a picture that shows the table passes; what an arrow implies need not be drawn" {
    check 0
}

@test "an arrow of the table that the picture lacks fails" {
    sed -i 's/^      high -> mid/      high/; s/^      mid  -> base/      mid/' docs/architecture.md
    check 1 'docs/architecture.md: the picture has no way from top/high to base, which mk/layers lets it see' \
        'docs/architecture.md: the picture has no way from top/high to top/mid, which mk/layers lets it see' \
        'docs/architecture.md: the picture has no way from top/mid to base, which mk/layers lets it see'
}

@test "an arrow of the picture that the table lacks fails" {
    sed -i 's/^top\/high: base.*/top\/high: base/' mk/layers
    check 1 'docs/architecture.md: top/high -> top/mid is no arrow of mk/layers'
}

@test "a folder that the picture lacks, and one that the table lacks, fail" {
    echo 'top/new: base' >>mk/layers
    sed -i 's/^      base$/      gone\n&/' docs/architecture.md
    check 1 'docs/architecture.md: the picture has no folder top/new' 'docs/architecture.md: mk/layers has no folder gone'
}

@test "an arrow upwards fails" {
    sed -i -e '/^      high/d' -e 's/^      mid.*/&\n      high -> mid/' docs/architecture.md
    check 1 'docs/architecture.md: top/high -> top/mid does not point down'
}

@test "a block whose arrows differ from its folders' fails" {
    sed -i 's/top\/ -> base\//top\/ -> other\//' docs/architecture.md
    check 1 'docs/architecture.md: top/ sees base/, the picture says other/'
}

@test "a file that is not there fails" {
    echo 'It is in `top/high/gone.c`.' >>docs/architecture.md
    check 1 'docs/architecture.md: there is no file top/high/gone.c'
}
