# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# A virtual environment of Debian's own Python that is there whole or not at all. Sourced by what makes one, which sets
# dir (where), wheels (NAME==VERSION…) and loads (Python that must run in it).

work=
whole=0

die() {
    echo "install-deps: $*" >&2
    exit 1
}

cleanup() {
    [[ -z $work ]] || rm -rf "$work"
    ((whole)) || rm -rf "$dir"
}

is_there() {
    "$dir/bin/python" - "$loads" "${wheels[@]}" <<'PY' >/dev/null 2>&1
import importlib.metadata as have, sys
for name, version in (wheel.split("==") for wheel in sys.argv[2:]):
    if have.version(name).partition("+")[0] != version:
        raise SystemExit(1)
exec(sys.argv[1])
PY
}

begin_venv() {
    /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null ||
        die "no python3-venv: run scripts/install-deps first"
    work=$(mktemp -d)
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    /usr/bin/python3 -m venv --clear "$dir" || die "cannot make a virtual environment in '$dir'"
}

end_venv() {
    is_there || die "what is in '$dir' does not load, or is not ${wheels[*]}"
    whole=1
    echo "install-deps: ${wheels[*]} in $dir"
}

install() { # PIP'S ARGUMENTS…
    "$dir/bin/pip" install -q --no-cache-dir --disable-pip-version-check "$@" >"$work/log" 2>&1 && return
    tail -n 5 "$work/log" >&2
    die "cannot install ${wheels[*]} into '$dir' (pip's last lines are above)"
}

# What these packages say they need beside themselves and PyTorch, a line each; of CUDA only what PyTorch calls without
# a GPU. Whoever lets pip follow what they say gets all of CUDA.
needs_of() { # NAME…
    "$dir/bin/python" - "$@" <<'PY'
import importlib.metadata, re, sys
ours = re.compile("|".join([r"torch$", "nvidia-", "triton", "cuda-bindings", *(f"{name}$" for name in sys.argv[1:])]))
for package in sys.argv[1:]:
    for need in importlib.metadata.requires(package) or ():
        name, _, marker = need.partition(";")
        plain = re.match(r"[\w.-]*", name).group().lower().replace("_", "-")
        if "extra" not in marker and not ours.match(plain):
            print(re.sub(r"^(cuda-toolkit)\[.*\]", r"\1[cudart,cupti]", name.strip()))
PY
}
