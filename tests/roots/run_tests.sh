#!/bin/bash
# run_tests.sh [ROOT...]: makes every root, compiles everything in it, and runs the tests of tests.txt and the demo there, in boxes.
# `make test-roots` calls it. Its last line counts as that of tests/run.sh does; a root that does not compile and a demo that
# breaks a promise are one failed test each.
#
# The result is $BUILD/roots.json: for each root {slurm, mpi, pmix, compiled, passed, failed, demo, steps_lost}. null is what was
# not done. passed and failed count the tests of tests.txt. demo is true where the demo kept all its promises. steps_lost is how
# many steps of its training the demo lost.
#
# COMPILE_ONLY=1 runs no tests. A suite that cannot be made is then said and does not fail the run: sid changes every day, and may
# be broken for a while. What does not compile fails the run in every form.
# SHORT=1 is the form of the suite `roots`. It runs the tests of short.txt and no demo, and compiles only what these tests need. The trainer is this
# machine's $BUILD/bin/espalier-train: compiling another takes minutes. A root that cannot be made is skipped, in one line.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build} CACHE_HOME=${CACHE_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier}
export TORCH_HOME=${TORCH_HOME:-$CACHE_HOME/torch-2.11.0-cp311/torch} # the Makefile's default
compile_only=${COMPILE_ONLY:-0} short=${SHORT:-0} jobs=${JOBS:-$(nproc)} json=()
all_passed=0 all_failed=0 all_skipped=0
list=tests/roots/tests.txt
[ "$short" != 1 ] || list=tests/roots/short.txt
mapfile -t files < <(grep -v '^#' "$list")
say() { echo "espalier: roots: $*"; }
log=$(mktemp)
trap 'rm -f "$log"*' EXIT

version() { sed -n "s/^espalier: roots: $1: $2 \([^-+~]*\([+~]rc[0-9]*\)\?\).*/\1/p" "$log" | head -n 1; } # ROOT PACKAGE
quoted() { [ -n "$1" ] && echo "\"$1\"" || echo null; }

make_root() { # ROOT: 0 made, 1 failed, 2 skipped
  local why
  if [ "$short" != 1 ]; then
    tests/roots/make "$1" 2>&1 | tee "$log" && return 0
    [ "$compile_only" = 1 ] || return 1
    say "$1 is left out: the suite itself cannot be made today"
    return 2
  fi
  # A machine whose mirror does not answer, or on which no root can be entered, shall not lose more than this.
  timeout -k 30 600 tests/roots/make "$1" > "$log" 2>&1 && tests/roots/run "$1" true >> "$log" 2>&1 && { cat "$log"; return 0; }
  why=$(grep -m 1 '^E: ' "$log" || grep -v '^espalier: roots: .*: making' "$log" | tail -n 1)
  say "$1 is skipped, it cannot be made or entered here: ${why:-nothing was said within 600 s}"
  return 2
}

in_root() { tests/roots/run "$root" make --no-print-directory -j"$jobs" BUILD="$build" CUDA=0 "$@" > "$log.make" 2>&1; }

compile() { # what this form needs; the lines that say why, where it fails
  local result=0
  if [ "$short" = 1 ]; then
    # Optimised less, which saves a third, and without warnings: those are the long form's to look at.
    in_root OPT='-O1 -g0' WARN=-w "$build"/bin/espalier{,d,-launch,-ranks,-report} \
      "$build"/lib/{espalier,job_submit_espalier}.so || result=1
    [ ! -e "$BUILD/bin/espalier-train" ] || cp -u "$BUILD/bin/espalier-train" "$build/bin/"
  elif [ -d "$TORCH_HOME/include" ]; then
    in_root TORCH_HOME="$TORCH_HOME" all || result=1
  else
    say "$root: the training runtime is left out, there is no libtorch in $TORCH_HOME; run make deps"
    in_root planner-and-plugins || result=1
  fi
  [ $result = 0 ] || grep -E 'error|Error' "$log.make" | grep -v ' -Werror ' | head -n 40
  return $result
}

run_demo() { # sets demo, steps_lost
  printf '\n== the demo in %s\n' "$root"
  demo=false
  ! tests/roots/run "$root" examples/demo/run.sh 2>&1 | tee "$log.demo" | sed -nu '/^\[/p; /^espalier: /p' || demo=true
  steps_lost=$(sed -n 's/.*"steps_lost": \([0-9]*\).*/\1/p' "$build/demo/summary.json" 2> /dev/null)
  if [ $demo = true ]; then all_passed=$((all_passed + 1)); else all_failed=$((all_failed + 1)); fi
}

test_root() { # ROOT: counts, and appends to json
  local root=$1 build=$BUILD/roots/$1 compiled=null passed=null failed=null skipped=0 demo=null steps_lost=null made=0
  [ "$short" != 1 ] || build+=-short # compiled with other options
  printf '\n== %s\n' "$root"
  make_root "$root" || made=$?
  case $made in
    0) compiled=true; compile || compiled=false ;;
    1) all_failed=$((all_failed + 1)) ;;
    2) all_skipped=$((all_skipped + $(bats --count "${files[@]}"))) ;;
  esac
  if [ $compiled = false ]; then
    say "$root: does not compile"
    all_failed=$((all_failed + 1))
  elif [ $compiled = true ]; then
    say "$root: everything that this run needs compiles"
  fi
  if [ $compiled = true ] && [ "$compile_only" != 1 ]; then
    BUILD=$build FILES="${FILES:-${files[*]}}" tests/roots/run "$root" tests/run.sh cluster 2>&1 | tee "$log.tests" |
      sed -u "s/^\([0-9]* passed, [0-9]* failed, [0-9]* skipped\)\$/$root: \1/"
    read -r passed failed skipped < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$log.tests" | tail -n 1)
    : "${passed:=0}" "${failed:=1}" "${skipped:=0}" # it ended without its last line
    all_passed=$((all_passed + passed)) all_failed=$((all_failed + failed)) all_skipped=$((all_skipped + skipped))
    [ "$short" = 1 ] || BUILD=$build run_demo
  fi
  json+=("\"$root\": {\"slurm\": $(quoted "$(version "$root" slurm-wlm)"), \"mpi\": $(quoted "$(version "$root" openmpi)"), \
\"pmix\": $(quoted "$(version "$root" pmix)"), \"compiled\": $compiled, \"passed\": $passed, \"failed\": $failed, \
\"demo\": $demo, \"steps_lost\": ${steps_lost:-null}}")
  rm -f "$log".?*
}

for root in "${@:-trixie}"; do test_root "$root"; done
mkdir -p "$BUILD"
(IFS=,; printf '{%s}\n' "${json[*]}" | sed 's/},"/},\n "/g') > "$BUILD/roots.json"
cat "$BUILD/roots.json"
echo "$all_passed passed, $all_failed failed, $all_skipped skipped"
[ "$all_failed" = 0 ]
