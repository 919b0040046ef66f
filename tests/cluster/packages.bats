#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The packages as an administrator has them: built, judged by lintian, installed with dpkg and used
# by Slurm. They are installed over this machine's files in a mount namespace of its own, which no
# other process sees and which is gone with the test.
bats_require_minimum_version 1.5.0
load lib/suite

export BATS_TEST_TIMEOUT=900 # a build from nothing: a minute alone, five and more beside two other lanes

setup_file() {
    for tool in dpkg-buildpackage dh dh_python3 lintian rpmbuild; do
        command -v "$tool" >/dev/null || {
            echo "'$tool' is not installed" >"$BATS_FILE_TMPDIR/lacks"
            return 0
        }
    done
    # As a user who is not root builds: nothing of it may need to be.
    clone=$(mktemp -d /var/tmp/dlr-packages.XXXXXX)
    echo "$clone" >"$BATS_FILE_TMPDIR/where"
    git clone -q "file://$REPO" "$clone"
    chown -R nobody "$clone"
}

setup() {
    [ ! -e "$BATS_FILE_TMPDIR/lacks" ] || skip "$(cat "$BATS_FILE_TMPDIR/lacks")"
    clone=$(cat "$BATS_FILE_TMPDIR/where")
    debs=$clone/build/deb rpms=$clone/build/rpm
}

teardown_file() {
    [ ! -e "$BATS_FILE_TMPDIR/vc" ] || "$VC" down --dir "$BATS_FILE_TMPDIR/vc"
    [ ! -s "$BATS_FILE_TMPDIR/where" ] || rm -rf "$(cat "$BATS_FILE_TMPDIR/where")"
}

as_nobody() { setpriv --reuid=nobody --regid=nogroup --clear-groups env -u TMPDIR HOME=/nonexistent "$@"; }
# a test that is tried again, alone, has to have them made
have_debs() { compgen -G "$debs/*.deb" >/dev/null || as_nobody make -s -C "$clone" deb; }

@test "make deb: packages without a complaint of lintian" {
    as_nobody make -s -C "$clone" deb
    run -0 lintian --allow-root --fail-on error,warning "$debs"/*.changes
    echo "$output"
    run ! grep -E '^[EW]:' <<<"$output"
}

@test "the plugin's package names a release of Slurm and depends on it" {
    have_debs
    read -r release next < <("$REPO/packaging/slurm-release")
    deb=$debs/dlrover-slurm${release}_$(cat "$REPO/VERSION")_$(dpkg --print-architecture).deb
    run -0 dpkg-deb -f "$deb" Depends
    [[ $output == *"slurm-wlm-basic-plugins (>= $release~), slurm-wlm-basic-plugins (<< $next~)"* ]]
    run -0 dpkg-deb -c "$deb"
    [[ $output == *"/slurm-wlm/spank_dlrover-$release.so"* ]]
    run -0 dpkg-deb -f "$deb" Provides
    [ "$output" = dlrover-slurm-plugin ]
}

# The body of what runs over the installed packages: $1 is the directory of the packages.
installed() {
    cat <<'END'
set -euo pipefail
for dir in usr etc var opt; do
    mkdir -p "/mnt/over/$dir" "/mnt/work/$dir"
    mount -t overlay -o "lowerdir=/$dir,upperdir=/mnt/over/$dir,workdir=/mnt/work/$dir" none "/$dir"
done
dpkg -i "$1"/*.deb >/dev/null
END
}

in_new_root() { # SCRIPT ARGS...
    local script=$1

    shift
    unshare -m bash -c "mount -t tmpfs none /mnt && $(installed); $script" bash "$debs" "$@"
}

@test "installed with dpkg: the command, the library, the header and Python work" {
    have_debs
    in_new_root '
        dlrover version
        cd "$(mktemp -d /mnt/XXXXXX)"
        cc -o hello /usr/share/doc/libdlrover-dev/examples/ckpt_hello.c $(pkg-config --cflags --libs dlrover)
        ./hello --help >help || ./hello >help
        /usr/bin/python3 -c "import dlrover; print(dlrover.__file__)"
        man -w spank_dlrover dlrover libdlrover >/dev/null
        grep -q "^optional spank_dlrover-" /etc/slurm/plugstack.conf.d/dlrover.conf
        dpkg -r dlrover-slurm* python3-dlrover libdlrover-dev libdlrover0 dlrover 2>&1 || true' >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q "^/usr/lib/python3/dist-packages/dlrover/" "$BATS_TEST_TMPDIR/out"
}

@test "a cluster with the packages keeps a job running after its worker was killed" {
    have_debs
    in_new_root '
        vc=$2 dir=$3
        "$vc" up --nodes 2 --leaves 1 --dir "$dir"
        for host in ctl n1 n2; do
            "$vc" exec --dir "$dir" "$host" -- sh -c "echo \"optional spank_dlrover-$4.so\" >/etc/slurm/plugstack.conf"
        done
        "$vc" exec --dir "$dir" --user alice ctl -- sbatch -W -N2 --dlrover=on -o out --wrap \
            "srun -n2 bash -c \"[ \\\$DLROVER_ROUND -gt 0 ] || kill -9 \\\$\\\$; echo round \\\$DLROVER_ROUND\"" || status=$?
        "$vc" exec --dir "$dir" --user alice ctl -- cat out
        "$vc" down --dir "$dir"
        exit "${status:-0}"' "$VC" "$BATS_FILE_TMPDIR/vc" "$("$REPO/packaging/slurm-release" | cut -d' ' -f1)" \
        >"$BATS_TEST_TMPDIR/out" 2>&1 || { cat "$BATS_TEST_TMPDIR/out"; false; }
    cat "$BATS_TEST_TMPDIR/out"
    [ "$(grep -c "^round 1" "$BATS_TEST_TMPDIR/out")" -eq 2 ]
}

@test "make rpm: packages that need the release of Slurm they were built for" {
    [[ -n ${DLROVER_NIGHTLY-} ]] || skip "Debian's are made in the check (make nightly)"
    as_nobody make -s -C "$clone" rpm
    read -r release next < <("$REPO/packaging/slurm-release")
    run -0 rpm -qp --requires "$rpms"/dlrover-slurm"$release"-*.rpm
    [[ $output == *"slurm >= $release"* ]]
    [[ $output == *"slurm < $next"* ]]
    run -0 rpm -qpl "$rpms"/*.rpm
    for file in /usr/bin/dlrover "/slurm/spank_dlrover-$release.so" /libdlrover.so.0 /usr/include/dlrover/ckpt.h; do
        [[ $output == *"$file"* ]]
    done
}
