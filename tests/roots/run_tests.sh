#!/bin/bash
# run_tests.sh [ROOT...]: makes every root, compiles everything but the training runtime in it, and runs the tests of tests.txt
# there in boxes. `make test-roots` calls it. The result is $BUILD/roots.json: for each root {slurm, mpi, pmix, compiled, passed,
# failed, demo}; null is what was not done.
#
# COMPILE_ONLY=1 runs no tests. A suite that cannot be made is then said and does not fail the run: sid changes every day, and may
# be broken for a while. What does not compile fails the run in both forms.
# The trainer in the box is this machine's $BUILD/bin/espalier-train with its libtorch, where there is one.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build}
compile_only=${COMPILE_ONLY:-0} jobs=${JOBS:-$(nproc)} status=0 json=()
mapfile -t files < <(grep -v '^#' tests/roots/tests.txt)
say() { echo "espalier: roots: $*"; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT

version() { sed -n "s/^espalier: roots: $1: $2 \([^-+~]*\([+~]rc[0-9]*\)\?\).*/\1/p" "$log" | head -n 1; } # ROOT PACKAGE
quoted() { [ -n "$1" ] && echo "\"$1\"" || echo null; }

test_root() { # ROOT: the last command's result is the root's; appends to json
  local root=$1 build=$BUILD/roots/$1 compiled=null passed=null failed=null result=0
  printf '\n== %s\n' "$root"
  if ! tests/roots/make "$root" 2>&1 | tee "$log"; then
    result=1
    if [ "$compile_only" = 1 ]; then say "$root is left out: the suite itself cannot be made today"; result=0; fi
  elif ! tests/roots/run "$root" make --no-print-directory -j"$jobs" BUILD="$build" CUDA=0 planner-and-plugins > "$log.make" 2>&1; then
    grep -E 'error|Error' "$log.make" | head -n 40
    say "$root: does not compile"
    compiled=false result=1
  else
    say "$root: everything but the training runtime compiles"
    compiled=true
  fi
  if [ "$compiled" = true ] && [ "$compile_only" != 1 ]; then
    [ ! -e "$BUILD/bin/espalier-train" ] || cp -u "$BUILD/bin/espalier-train" "$build/bin/"
    BUILD=$build FILES="${FILES:-${files[*]}}" tests/roots/run "$root" tests/run.sh cluster 2>&1 | tee "$log.tests"
    read -r passed failed < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, .*/\1 \2/p' "$log.tests" | tail -n 1)
    : "${passed:=0}" "${failed:=1}" # it ended without its last line
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ] || result=1
  fi
  json+=("\"$root\": {\"slurm\": $(quoted "$(version "$root" slurm-wlm)"), \"mpi\": $(quoted "$(version "$root" openmpi)"), \
\"pmix\": $(quoted "$(version "$root" pmix)"), \"compiled\": $compiled, \"passed\": $passed, \"failed\": $failed, \"demo\": null}")
  rm -f "$log.make" "$log.tests"
  return "$result"
}

for root in "${@:-trixie}"; do test_root "$root" || status=1; done
mkdir -p "$BUILD"
(IFS=,; printf '{%s}\n' "${json[*]}" | sed 's/},"/},\n "/g') > "$BUILD/roots.json"
cat "$BUILD/roots.json"
exit $status
