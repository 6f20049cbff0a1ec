#!/bin/bash
# torch.sh DIR: puts the pinned libtorch of wheels.txt into DIR (DIR/torch/{lib,include}, DIR/nvidia/...), unless it is
# there. DIR lies outside the checkout, so a second checkout downloads nothing. Every wheel is checked against its sha256;
# DIR appears by one rename, so an interrupted run leaves no half of it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) dir=$1
say() { echo "espalier: deps: $*"; }
pins=$(grep -v '^#' "$here/wheels.txt" | sha256sum | cut -d' ' -f1)
complete() { [ -e "$dir/torch/lib/libtorch_cpu.so" ] && [ "$(cat "$dir/.pins" 2>/dev/null)" = "$pins" ]; }

complete && exit 0
[ "$(uname -m)" = x86_64 ] || { say "no pinned torch for $(uname -m); set TORCH_HOME= to a libtorch of your own" >&2; exit 1; }
mkdir -p "$(dirname "$dir")"
exec 9> "$dir.lock"
flock -w 1200 9 || { say "another make holds $dir.lock; wait for it or end it" >&2; exit 1; }
complete && exit 0

free_mb=$(df -Pm "$(dirname "$dir")" | awk 'NR == 2 {print $4}')
[ "$free_mb" -ge 2500 ] || { say "$(dirname "$dir") has $free_mb MB free, libtorch needs 2500; make room or set CACHE_HOME=" >&2; exit 1; }
say "downloading $(sed -n 's/^\([a-z].*==[^ ]*\) .*/\1/p' "$here/wheels.txt" | paste -sd, | sed 's/,/, /g'): 544 MB, once, into $dir"
work=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
"${PYTHON:-python3}" -m pip --isolated --version >/dev/null 2>&1 || PYTHON=/usr/bin/python3
"${PYTHON:-python3}" -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps --require-hashes --only-binary=:all: \
  --implementation cp --python-version 3.11 --abi cp311 --abi none --platform manylinux_2_28_x86_64 \
  --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  -d "$work/wheels" -r "$here/wheels.txt" ||
  { say "pip could not fetch the wheels; check the network, or set TORCH_HOME= to a libtorch of your own" >&2; exit 1; }
mkdir "$work/tree"
for wheel in "$work"/wheels/*.whl; do
  # Only what a C++ program links and loads; torch's Python package and static CUDA libraries stay out.
  unzip -q -n "$wheel" 'torch/lib/*' 'torch/include/*' 'nvidia/*/lib/*.so*' -x '*/libtorch_python.so' '*/libnvperf*' -d "$work/tree" 2>/dev/null ||
    [ $? -eq 11 ] # a pattern without a match: each wheel holds only some of them
done
[ -e "$work/tree/torch/lib/libtorch_cpu.so" ] || { say "the torch wheel holds no libtorch_cpu.so; report this" >&2; exit 1; }
chmod -R a+rX "$work/tree"
echo "$pins" > "$work/tree/.pins"
rm -rf "$dir" # an older pin, or a link that someone put there
mv -T "$work/tree" "$dir"
say "libtorch is in $dir"
