#!/bin/bash
# run.sh [SUITE...]: runs the test suites (unit sim torchrt standin install runner cluster; all of them by default) of a built tree and
# ends with one line that counts everything. FILES=... narrows the bats suites to those files. Each test and each file has a time
# limit. The suite `roots`, which `all` leaves out, is the short form of tests/roots/run_tests.sh: some cluster tests in a root
# of Debian trixie, with its Slurm and Open MPI.
#
# A cluster file is run inside a box of its own. Its first lines may say how: `# box: -n 2 -c WaitTime=5` are options of box.sh;
# `# box: none` for a file that starts boxes itself. `# limit: SECONDS` is for the whole file (default 600), and
# `# each: SECONDS` for one test (default 120), and `# beside` that it may run beside other files, `# alone` that none may. Files
# that take longest say `# early`: begun last, they would be waited for while a core is idle.
#
# A unit test or a test of a bats file that failed runs once more at the end with the machine to itself, a cluster test in a fresh
# box. If it passes then, it counts as passed, and the last lines list it as flaky with its first failure; $BUILD/flaky.log has the
# same. A run with more than three flaky ones fails. Before the counts each failure has a line: `failed: FILE: TEST`. `# whole` in a file's first lines: its tests need those before them. Then the whole file runs
# again, and only those that failed are judged. (retry.bash)
#
# A test, or a file, with a tag long:1 to long:6 is a variant that takes long: it runs in every sixth run. Which of the six a commit's run is
# follows from its hash; without git it is the first. LONG=K: the run number K; LONG=all, or FILES: all tests.
#
# TESTS_END: the time, in seconds since 1970, by which the run has told its result. Near it no test begins; what did not run has failed.
#
# A machine on which nothing of ours runs for ten seconds fails whatever waits for something to happen in time. That is said.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export BUILD=${BUILD:-build}
export TESTS_END=${TESTS_END:-$((EPOCHSECONDS + 86400))}
passed=0 failed=0 skipped=0
filter=()             # options of bats that choose tests
logs=$BUILD/test/logs # of boxes in which something failed
flaky=0               # tests that failed and passed the second time
failures=()           # a line for each test that failed in the end
# shellcheck source=tests/retry.bash
. tests/retry.bash
rm -f "$BUILD/flaky.log"

runs=6
if [ -z "${LONG:-}" ]; then
  commit=$(git rev-parse --short=7 HEAD 2> /dev/null) || commit=0
  LONG=$((16#$commit % runs + 1))
  [ -z "${FILES:-}" ] || LONG=all
fi
[ "$LONG" = all ] || [[ $LONG =~ ^[1-$runs]$ ]] ||
  { echo "espalier: test: LONG is '$LONG'; it must be all, or a number from 1 to $runs" >&2; exit 2; }
export LONG
others='' # what bats leaves out
for ((run = 1; run <= runs; run++)); do [ "$LONG" = all ] || [ "$LONG" = $run ] || others+=${others:+,}!long:$run; done

# Each line: for how many seconds the machine stood still. Load does not keep a sleeping process from running for this long.
stood_still=$(mktemp)
watch_clock() {
  local before=$EPOCHSECONDS
  while sleep 1; do
    [ $((EPOCHSECONDS - before)) -lt 10 ] || echo $((EPOCHSECONDS - before)) >> "$stood_still"
    before=$EPOCHSECONDS
  done
}
watch_clock & watcher=$!
beside='' beside_output='' lane='' quiet=''
trap 'kill $watcher $beside $lane 2>/dev/null; rm -rf "$stood_still" $beside_output $quiet' EXIT

# Prints how many of the given seconds are left before TESTS_END, without the time that telling the result takes.
left_of() { # SECONDS
  local left=$((TESTS_END - EPOCHSECONDS - 60))
  echo $((left < $1 ? left : $1))
}

heading() { printf '\n== %s\n' "$1"; }
directive() { sed -n "1,12s/^# $1: //p" "$2" | head -n 1; }

# Reads TAP and shows it. By a test's number: its outcome, title, and what follows it. What belongs to no test is output of 0.
outcome=() title=() output=() planned=0 of_file=0 # how many tests, and how often setup_file or teardown_file failed
read_tap() {
  local line number=0
  outcome=() title=() output=() planned=0 of_file=0
  while IFS= read -r line; do
    case $line in
      1..*) planned=${line#1..} ;;
      'ok '*'# skip'*) report skip "$line" ;;
      'ok '*) report ok "$line"; number=0 ;;
      'not ok '*) report FAIL "$line" ;;
      *) echo "       $line"; output[number]+=$line$'\n' ;;
    esac
  done
}
report() { # OUTCOME LINE: only a test's line tells how long it took
  printf '  %-4s %s\n' "$1" "${2#*ok * }"
  if [[ $2 =~ ^(not )?ok\ ([0-9]+)\ (.*)\ in\ [0-9]+ms($|\ #) ]]; then
    number=${BASH_REMATCH[2]}
    outcome[number]=$1 title[number]=${BASH_REMATCH[3]}
  else
    number=0 of_file=$((of_file + 1)) output[0]+=$2$'\n'
  fi
}

# Adds TAP to the counts. Tests that were planned and never reported count as failed.
tally() { # FILE
  local one own
  read_tap
  for one in "${outcome[@]}"; do
    case $one in
      ok) passed=$((passed + 1)) ;;
      skip) skipped=$((skipped + 1)) ;;
      FAIL) failed=$((failed + 1)) ;;
    esac
  done
  own=$((planned - ${#outcome[@]}))
  [ "$own" -gt 0 ] || own=$of_file
  [ "$planned" -gt 0 ] || { own=1; echo "  FAIL $1: did not run"; }
  failed=$((failed + own))
  remember_failures "$1" "$own"
}

# Runs the command for at most so many seconds, and not beyond TESTS_END.
in_time() { # SECONDS COMMAND...
  local most
  most=$(left_of "$1")
  shift
  if [ "$most" -gt 0 ]; then timeout -k 10 "$most" "$@"
  else echo "not begun: the run ends in a minute (TESTS_END)"; return 124; fi
}

suite_unit() {
  heading "unit tests"
  local output summary
  output=$(in_time 1500 "$BUILD/test/unit" 2>&1)
  local status=$?
  summary=$(sed -n 's/.*test cases: *\([0-9]*\) *| *\([0-9]*\) passed *| *\([0-9]*\) failed *| *\([0-9]*\) skipped.*/\2 \3 \4/p' <<< "$output" | tail -n 1)
  if [ -z "$summary" ]; then
    tail -n 60 <<< "$output"
    echo "  FAIL $BUILD/test/unit ended with status $status and no summary"
    failures+=("$BUILD/test/unit: ended with status $status and no summary")
    failed=$((failed + 1))
    return
  fi
  [ "$status" = 0 ] || grep -v '^\[doctest\] doctest version\|--help' <<< "$output"
  read -r p f s <<< "$summary"
  # A sanitizer's report after the last test fails no test case, but it fails the run.
  [ "$status" = 0 ] || [ "$f" -gt 0 ] || { f=1; failures+=("$BUILD/test/unit: ended with status $status"); }
  # A case that lacks what it needs says "skipped:" and returns, which doctest counts as passed.
  local lacking
  lacking=$(grep -o '[^ ]*: MESSAGE: skipped: .*' <<< "$output" | sort -u)
  if [ -n "$lacking" ]; then
    echo "$lacking" | sed 's/^/  /'
    local n
    n=$(wc -l <<< "$lacking")
    p=$((p - n)) s=$((s + n))
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  echo "  $p passed, $f failed, $s skipped in $BUILD/test/unit"
  remember_unit_tests "$output"
}

one_of_sim() { # WHAT ARGUMENT...: one run of the simulation is one test
  local what=$1 output; shift
  if output=$(in_time 900 "$BUILD/test/sim" "$@" 2>&1); then
    passed=$((passed + 1)); echo "  ok   $what: $(tail -n 1 <<< "$output")"
  else
    failed=$((failed + 1)); tail -n 200 <<< "$output"; echo "  FAIL $what"; failures+=("simulation: $what")
  fi
}
suite_sim() {
  heading "simulation"
  one_of_sim "each way to break the model is noticed" --mutants
  one_of_sim "launchers, planner and Slurm under faults" --histories 2000
  one_of_sim "the same with movable jobs: each way to break the model is noticed" --movable --mutants
  one_of_sim "movable jobs under faults" --movable --histories 1000
  one_of_sim "movable jobs of two types under faults, policy arena" --movable --arena --histories 500
}

run_bats() { # FILE [COMMAND...]: its TAP; the command runs bats, e.g. a box
  local file=$1 limit each; shift
  limit=$(directive limit "$file") each=$(directive each "$file")
  if [ -n "${short_form[$file]:-}" ] && [ ${#filter[@]} -eq 0 ]; then local filter=(--filter-tags short); fi
  if [ -n "$others" ] && [ ${#filter[@]} -eq 0 ]; then local filter=(--filter-tags "$others"); fi
  BATS_TEST_TIMEOUT=${each:-120} in_time "${limit:-600}" "$@" bats --tap --timing "${filter[@]}" "$file" 2>&1 < /dev/null
}

stillness() { [ ! -s "$stood_still" ] || echo "  the machine stood still for $(paste -sd+ "$stood_still") s meanwhile"; }

bats_file() { # FILE [COMMAND...]
  local file=$1 start=$SECONDS
  : > "$stood_still"
  heading "$file"
  tally "$file" < <(run_bats "$@")
  echo "  $((SECONDS - start)) s"
  stillness
}

chosen() { # FOLDER: its bats files, the preemption tests first, then what says `# early`; not those all of whose tests are for other runs
  local file tag
  # shellcheck disable=SC2046 # no such path has a space
  for file in "$1"/preempt*.bats $(grep -lxs '# early' "$1"/*.bats) "$1"/*.bats; do
    [ -e "$file" ] || continue
    [ -z "${FILES:-}" ] || [[ " $FILES " == *" $file "* ]] || continue
    tag=$(sed -n '1,12s/^# bats file_tags=long://p' "$file")
    [ -z "$tag" ] || [ "$LONG" = all ] || [ "$tag" = "$LONG" ] || continue
    [ -n "$(tests_of "$file" | grep '^[[:blank:]]*@test')" ] || continue
    echo "$file"
  done | awk '!seen[$0]++'
}

# Outside a box. What killed processes of MPI leave is kept in the folder.
run_plain() { # FILE FOLDER
  mkdir -p "$2"
  OMPI_MCA_orte_tmpdir_base=$2 OMPI_MCA_btl_vader_backing_directory=$2 TMPDIR=$2 run_bats "$1"
}

plain_in() { run_plain "$2" "$1/$(basename "$2" .bats)"; } # FOLDER FILE

# Two files at a time: most of it is MPI worlds that start.
suite_plain() {
  local file scratch start=$SECONDS other
  scratch=$(mktemp -d)
  : > "$stood_still"
  chosen "$1" > "$scratch/queue"
  run_queue "$scratch" plain_in "$scratch" & other=$!
  run_queue "$scratch" plain_in "$scratch"
  wait "$other"
  for file in $(chosen "$1"); do
    heading "$file"
    tally "$file" < "$scratch/$(basename "$file").tap"
  done
  echo "  $((SECONDS - start)) s in $1"
  stillness
  rm -rf "$scratch"
}

in_box() { # RUNNER FILE: in the box that the file asks for
  local runner=$1 file=$2 options
  options=$(directive box "$file")
  if [ "$options" = none ]; then
    "$runner" "$file"
  else
    eval "options=($options)"
    "$runner" "$file" tests/cluster/box.sh -k "$logs/$(basename "$file" .bats)" "${options[@]}"
  fi
}

# Files that say `# beside` measure no times: they run one after the other, beside the others. When the others are done, three
# of them run at a time. One that says `# alone` looks at the whole machine: no other box runs then.
suite_cluster() {
  local file scratch reason=''
  if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then reason='they need root, or sudo without a password'; fi
  [ -z "$reason" ] || echo "espalier: test: cluster tests skipped: $reason"
  if [ -n "$reason" ]; then
    for file in $(chosen tests/cluster); do skipped=$((skipped + $(bats --count "$file"))); done
    return
  fi
  for file in $(chosen tests/cluster); do
    ! says alone "$file" || in_box bats_file "$file"
  done
  scratch=$(mktemp -d)
  for file in $(chosen tests/cluster); do
    ! says beside "$file" || echo "$file"
  done > "$scratch/queue"
  while read -r file; do : > "$scratch/$(basename "$file").tap"; done < "$scratch/queue" # "did not run", until it has
  run_queue "$scratch" in_box run_bats & lane=$!
  for file in $(chosen tests/cluster); do
    says alone "$file" || says beside "$file" || in_box bats_file "$file"
  done
  run_queue "$scratch" in_box run_bats & lane+=" $!"
  run_queue "$scratch" in_box run_bats
  # shellcheck disable=SC2086 # two of them
  wait $lane
  lane=''
  for file in $(chosen tests/cluster); do
    says beside "$file" || continue
    heading "$file"
    tally "$file" < "$scratch/$(basename "$file").tap"
  done
  rm -rf "$scratch"
}
# Runs the command with each file of the queue, one after the other, until the queue is empty. Several of these functions may run
# at a time. What fails is told at once, and everything again in the order of the files when all are done.
run_queue() { # FOLDER of the queue, and for results; COMMAND...
  local folder=$1 file; shift
  while file=$(flock "$folder" sed -i -e '1w /dev/stdout' -e 1d "$folder/queue") && [ -n "$file" ]; do
    "$@" "$file" > "$folder/$(basename "$file").tap"
    sed -n "s|^not ok [0-9]* |  failed once: $file: |p" "$folder/$(basename "$file").tap"
  done
}
says() { sed -n 1,12p "$2" | grep -qx "# $1"; } # WORD FILE

# The CUDA flavour on stand-ins for CUDA and NCCL. ALL=1: all of it; else the tests with the tag `short`.
suite_standin() {
  local file
  if [ -z "${ALL:-}" ]; then
    for file in $(chosen tests/gpu/standin); do short_form[$file]=1; done
  fi
  suite_plain tests/gpu/standin
}

suite_roots() {
  local output counts p f s start=$SECONDS
  output=$(mktemp)
  # Its last line is read, not shown: there is one such line, at the end.
  FILES='' SHORT=1 tests/roots/run_tests.sh trixie 2>&1 | tee "$output" | grep --line-buffered -v '^[0-9]* passed, '
  counts=$(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$output")
  rm -f "$output"
  [ -n "$counts" ] || { echo "  FAIL the tests in roots: did not run"; failures+=("the tests in roots: did not run"); counts='0 1 0'; }
  read -r p f s <<< "$counts"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  echo "  $((SECONDS - start)) s in roots"
}

# The cluster tests mostly wait: what computes is built and run beside them, and gives way. Where Linux groups processes by their
# session (sched_autogroup), nice counts only inside a session: then the session itself gives way.
start_beside() {
  beside_output=$(mktemp) quiet=$(mktemp -d)
  export RETRY_WHEN=$quiet/now
  # shellcheck disable=SC2016 # $@ is the inner shell's
  setsid nice -n 10 bash -c '{ echo 10 > /proc/self/autogroup; } 2> /dev/null; exec "$@"' beside \
    "${MAKE:-make}" --no-print-directory -j"$(nproc)" BUILD="$BUILD" SUITES="unit sim torchrt standin install runner" check \
    > "$beside_output" 2>&1 < /dev/null &
  beside=$!
}

end_beside() {
  local counts p f s
  touch "$RETRY_WHEN"
  wait "$beside"
  beside=''
  counts=$(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' <(grep -v '^make' "$beside_output"))
  f=$(sed -n 's/^flaky: //p' "$beside_output" | head -n 1)
  flaky=$((flaky + ${f:-0}))
  mapfile -t -O "${#failures[@]}" failures < <(sed -n 's/^failed: //p' "$beside_output")
  # Make's commands are of no interest unless they failed.
  if [ -n "$counts" ]; then sed -n '/^== /,$p' "$beside_output" | grep -v '^make'; else tail -n 60 "$beside_output"; fi
  [ -n "$counts" ] || { echo "  FAIL unit tests and runtime tests: did not run"; failures+=("unit tests and runtime tests: did not run"); counts='0 1 0'; }
  read -r p f s <<< "$counts"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

started=$SECONDS
[ -z "$others" ] || echo "long tests: those of run $LONG of $runs; LONG=all runs all of them"
for suite in "${@:-all}"; do
  case $suite in
    all) start_beside; suite_cluster; end_beside ;;
    unit | sim | standin) "suite_$suite" ;;
    torchrt | install | runner) suite_plain "tests/$suite" ;;
    cluster) suite_cluster ;;
    roots) suite_roots ;;
    *) echo "espalier: test: no suite '$suite'; there are unit, sim, torchrt, standin, install, runner, cluster and roots" >&2; exit 2 ;;
  esac
done
retry_failed
heading "$((SECONDS - started)) s"
list_flaky
for failure in "${failures[@]}"; do echo "failed: $failure"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
