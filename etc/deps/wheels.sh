#!/bin/bash
# wheels.sh DIR LIST [FINISH]: unpacks the pinned wheels that LIST names side by side into DIR, unless they are there. DIR lies
# outside the checkout, so a second checkout downloads nothing. Every wheel is checked against its sha256; DIR appears by one
# rename, so an interrupted run leaves no half of it. FINISH: a script that gets the unpacked tree before the rename.
# LIST is in pip's requirements format. A line "# with headers" in it keeps CUDA's headers, which are left out else. Its line "# takes NAME: N MB to download, M MB on disk" says what people are told.
set -euo pipefail
dir=$1 list=$2 finish=${3:-}
say() { echo "espalier: deps: $*"; }
read -r name download_mb disk_mb < <(sed -n 's/^# takes \(.*\): \([0-9]*\) MB to download, \([0-9]*\) MB on disk$/\1 \2 \3/p' "$list")
pins=$({ grep -v '^#' "$list"; [ -z "$finish" ] || cat "$finish"; } | sha256sum | cut -d' ' -f1)
complete() { [ "$(cat "$dir/.pins" 2>/dev/null)" = "$pins" ]; }

complete && exit 0
[ "$(uname -m)" = x86_64 ] || { say "no pinned $name for $(uname -m); set TORCH_HOME= to a libtorch of your own" >&2; exit 1; }
mkdir -p "$(dirname "$dir")"
exec 9> "$dir.lock"
flock -w 1200 9 || { say "another make holds $dir.lock; wait for it or end it" >&2; exit 1; }
complete && exit 0

need_mb=$((download_mb + disk_mb))
free_mb=$(df -Pm "$(dirname "$dir")" | awk 'NR == 2 {print $4}')
[ "$free_mb" -ge "$need_mb" ] ||
  { say "$(dirname "$dir") has $free_mb MB free, $name needs $need_mb; make room or set CACHE_HOME=" >&2; exit 1; }
say "downloading $(sed -n 's/^\([a-z].*==[^ ]*\) .*/\1/p' "$list" | paste -sd, | sed 's/,/, /g'): $download_mb MB, once, into $dir"
work=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
"${PYTHON:-python3}" -m pip --isolated --version >/dev/null 2>&1 || PYTHON=/usr/bin/python3
# Any Python may fetch them: what the wheels are for is fixed here.
"${PYTHON:-python3}" -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps --require-hashes --only-binary=:all: \
  --implementation cp --python-version 3.11 --abi cp311 --abi abi3 --abi none --platform manylinux_2_28_x86_64 \
  --platform manylinux_2_25_x86_64 --platform manylinux_2_18_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  -d "$work/wheels" -r "$list" ||
  { say "pip could not fetch the wheels; check the network, or set TORCH_HOME= to a libtorch of your own" >&2; exit 1; }
mkdir "$work/tree"
# Compilers, profilers' libraries and CUDA's headers (the toolkit has its own) stay out.
left_out=('torch/bin/protoc*' 'torch/bin/ptxas' '*/libnvperf*')
grep -qx '# with headers' "$list" || left_out+=('nvidia/cu*/include/*')
for wheel in "$work"/wheels/*.whl; do
  unzip -q -n "$wheel" -d "$work/tree" -x "${left_out[@]}" 2>/dev/null ||
    [ $? -eq 11 ] # a pattern without a match: each wheel holds only some of them
done
[ -z "$finish" ] || "$finish" "$work/tree"
chmod -R a+rX "$work/tree"
echo "$pins" > "$work/tree/.pins"
rm -rf "$dir" # an older pin, or a link that someone put there
mv -T "$work/tree" "$dir"
say "$name is in $dir: $(du -sm "$dir" | cut -f1) MB, $SECONDS s"
