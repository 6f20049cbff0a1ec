# run.sh itself: which tests run a second time, and what that counts. Its files, box and make are made up.
# shellcheck disable=SC2016 # in the made-up ones these expressions expand

setup() {
  unset LONG FILES TESTS_END # those of the run that this test is part of
  tree=$BATS_TEST_TMPDIR/tree state=$BATS_TEST_TMPDIR/state
  mkdir -p "$tree"/{bin,build} "$tree"/tests/{cluster,install,runner} "$state"
  cp "$BATS_TEST_DIRNAME"/../{run.sh,retry.bash} "$tree/tests/"
  # A box does not come up while "no_box" is there. It tells its options and when it ended, and BOX is a new folder.
  program tests/cluster/box.sh 'options=()
while [[ $1 == -* ]]; do options+=("$1" "$2"); shift 2; done
echo "box ${options[*]}" >> "$STATE/told"
[ ! -e "$STATE/no_box" ] || { rm "$STATE/no_box"; echo "slurmctld does not answer"; exit 1; }
export BOX=$(mktemp -d -p "$STATE")
"$@"
status=$?
echo "box ended" >> "$STATE/told"
exit $status'
  program bin/sudo 'exit 0'
  # What runs beside the cluster suite ends after it.
  program bin/make 'until [ "$(grep -c "box ended" "$STATE/told")" = 3 ]; do sleep 0.1; done
sleep 1
echo "make ended" >> "$STATE/told"
echo "10 passed, 0 failed, 0 skipped"'
}

program() { printf '#!/bin/bash\n%s\n' "$2" > "$tree/$1"; chmod +x "$tree/$1"; } # FILE TEXT
# file NAME [LINE...]: a bats file with these first lines. Its tests can say `told WORD`, `once WORD`, which fails the first time,
# and `cut_off`, which does as the file's time limit.
file() {
  local name=$1 line; shift
  bats=$tree/tests/cluster/$name.bats
  [[ $name != */* ]] || bats=$tree/tests/$name.bats
  {
    for line in "$@" 'each: 20'; do echo "# $line"; done
    echo 'told() { echo "$*" >> "$STATE/told"; }'
    echo 'once() { [ -e "$STATE/$1" ] || { touch "$STATE/$1"; echo "$1 has failed"; false; }; }'
    echo 'cut_off() { kill -TERM 0; sleep 30; }'
  } > "$bats"
}
# NAME BODY: a test of the last file. bats can miss the end of one that takes no time, and then waits for its time limit.
has() { echo "@test \"$1\" { sleep 0.1; $2; }" >> "$bats"; }
says() { echo "$*" >> "$bats"; }

# runs [SUITE...]: run.sh in the made-up tree; $lines are what it says after its last heading.
runs() {
  # bats puts its own folder in front, where another `bats` does not find itself.
  status=0
  env -i ${TESTS_END:+TESTS_END="$TESTS_END"} ${LONG:+LONG="$LONG"} ${FILES:+FILES="$FILES"} PATH="$tree/bin:$(tr : '\n' <<< "$PATH" | grep -v bats-core | paste -sd:)" STATE="$state" "$tree/tests/run.sh" "$@" \
    > "$tree/output" 2>&1 || status=$?
  cat "$tree/output"
  mapfile -t lines < <(sed '1,/^== [0-9]* s$/d' "$tree/output")
}
told() { [ "$(grep -cx -- "$1" "$state/told")" = "$2" ]; } # LINE TIMES
ended() { [ "$status:${lines[*]: -1}" = "$1:$2" ]; }      # STATUS LAST-LINE
no_list() { [ "${lines[*]#flaky:}" = "${lines[*]}" ] && [ ! -e "$tree/build/flaky.log" ]; } # of flaky tests
failures() { diff <(printf 'failed: %s\n' "$@") <(printf '%s\n' "${lines[@]:0:${#lines[@]}-1}"); } # the lines before the last one
# Unit tests that say what doctest says. A case fails while there is a file of its name in $STATE.
unit_tests() { # CASE...
  mkdir -p "$tree/build/test"
  program build/test/unit "cases=($(printf '%q ' "$@"))"'
echo "unit $*" >> "$STATE/told"
failed=0 run=0
for one in "${cases[@]}"; do
  [ -z "${1:-}" ] || [[ ",${1#-tc=}," == *",${one//[,*]/\?},"* ]] || continue
  run=$((run + 1))
  printf "%s\n" "====" "tests/unit/a.cpp:1:" "TEST CASE:  $one" ""
  if [ -e "$STATE/$one" ]; then
    printf "%s\n" "tests/unit/a.cpp:2: ERROR: CHECK( 1 == 2 ) is NOT correct!" ""
    failed=$((failed + 1))
  else
    printf "%s\n" "tests/unit/a.cpp:2: MESSAGE: took 3 s" ""
  fi
done
rm -f "$STATE/once, and"*
[ ! -e "$STATE/crash" ] || { rm "$STATE/crash"; kill -SEGV $$; }
echo "[doctest] test cases: $run | $((run - failed)) passed | $failed failed | 0 skipped"
[ $failed = 0 ]'
}

@test "of the long tests a run has one sixth, and a second run of it is of the same tests; LONG=all has all" {
  file a
  says '# bats test_tags=long:1'
  has "of run 1" "told 1"
  says '# bats test_tags=long:2'
  has "of run 2" "told 2; once it"
  has "of every run" "told every; once that"
  LONG=2 runs cluster
  ended 0 "2 passed, 0 failed, 0 skipped"
  grep -q "long tests: those of run 2 of 6" "$tree/output"
  told 1 0
  told 2 2
  told every 2
  LONG=all runs cluster
  ended 0 "3 passed, 0 failed, 0 skipped"
  told 1 1
  FILES=tests/cluster/a.bats runs cluster
  ended 0 "3 passed, 0 failed, 0 skipped"
  told 1 2
  LONG=7 runs cluster
  [ "$status" = 2 ]
  grep -q "LONG is '7'; it must be all, or a number from 1 to 6" "$tree/output"
}
@test "a file that is long as a whole is not begun in another run than its own" {
  file a
  has "of every run" "told every"
  file b 'bats file_tags=long:3'
  has "of run 3" "told whole"
  LONG=2 runs cluster
  ended 0 "1 passed, 0 failed, 0 skipped"
  told whole 0
  LONG=3 runs cluster
  ended 0 "2 passed, 0 failed, 0 skipped"
  LONG=all runs cluster
  FILES=tests/cluster/b.bats runs cluster
  ended 0 "1 passed, 0 failed, 0 skipped"
  told whole 3
}

@test "a file all of whose tests are long is not begun in a run that has none of them" {
  file a
  has "of every run" "told every"
  file b
  says '# bats test_tags=slow, long:1'
  has "of run 1" "told 1"
  says '# bats test_tags=long:4'
  has "of run 4" "told 4"
  LONG=2 runs cluster
  ended 0 "1 passed, 0 failed, 0 skipped"
  told "box ended" 1
  LONG=4 runs cluster
  ended 0 "2 passed, 0 failed, 0 skipped"
  told 4 1
  LONG=all runs cluster
  ended 0 "3 passed, 0 failed, 0 skipped"
}

@test "a test that fails once passes, and is listed with its first failure right before the last line" {
  file a 'box: -n 3'
  has "passes" "told passes"
  has "fails once" "told fails; once it"
  echo "of the run before" > "$tree/build/flaky.log"
  runs cluster
  ended 0 "2 passed, 0 failed, 0 skipped"
  [ "${lines[0]}" = "flaky: 1" ]
  [ "${lines[1]}" = "  tests/cluster/a.bats: fails once" ]
  [ "${lines[*]: -2}" = "    # it has failed 2 passed, 0 failed, 0 skipped" ]
  diff <(printf '%s\n' "${lines[@]:1:${#lines[@]}-2}") <(sed 's/^/  /' "$tree/build/flaky.log")
  told passes 1
  told fails 2
  told "box -k build/test/logs/a -n 3" 1
  told "box -k build/test/logs/again/a -n 3" 1
}

@test "a test that fails twice fails, and one that is skipped the second time has not passed" {
  file a
  has "fails" "echo so; false"
  has "is skipped then" "once it; skip"
  runs cluster
  ended 1 "0 passed, 2 failed, 0 skipped"
  no_list
  failures "tests/cluster/a.bats: fails" "tests/cluster/a.bats: is skipped then"
}

@test "three flaky tests pass, four fail the run" {
  file a
  for n in 1 2 3; do has "test $n" "once $n"; done
  runs cluster
  ended 0 "3 passed, 0 failed, 0 skipped"
  [ "${lines[0]}" = "flaky: 3" ]
  rm -r "${state:?}"/*
  file b
  has "test 4" "once 4"
  runs cluster
  ended 1 "4 passed, 1 failed, 0 skipped"
  [ "${lines[0]}" = "flaky: 4" ]
  grep -q "FAIL 4 are flaky; more than three fail the run" "$tree/output"
}

@test "a run that must end soon begins nothing, and one that ends a little later runs nothing again; both name what failed" {
  file a
  has "one" "once one"
  has "two" "told two"
  touch "$state/told"
  TESTS_END=$((EPOCHSECONDS + 30)) runs cluster
  ended 1 "0 passed, 1 failed, 0 skipped"
  told two 0
  failures "tests/cluster/a.bats: the file itself did not run"
  TESTS_END=$((EPOCHSECONDS + 100)) runs cluster
  ended 1 "1 passed, 1 failed, 0 skipped"
  told two 1
  failures "tests/cluster/a.bats: one"
  grep -q "not run again: tests/cluster/a.bats" "$tree/output"
}

@test "names are taken as they are, whatever a regular expression would make of them" {
  file a
  has 'a.b* (c|d) [e] {2}+? ^ \$x \\ "x"/' "told odd; once it"
  has 'a.b* (c|d) [e] {2}+? ^ \$x \\ "x"/ and more' "told neighbour"
  has 'axb' "told neighbour"
  has 'end' "told end; once end"
  runs cluster
  ended 0 "4 passed, 0 failed, 0 skipped"
  [ "${lines[0]}" = "flaky: 2" ]
  told odd 2
  told end 2
  told neighbour 2
}

@test "a file that was cut off runs again, for the tests that were not reported" {
  file a
  has "passed before" "! once first"
  has "fails before" "once it"
  has "hangs" "once hangs || cut_off"
  has "is not reached" "true"
  has "is skipped" "skip"
  runs cluster
  ended 0 "4 passed, 0 failed, 1 skipped"
  [ "${lines[0]}" = "flaky: 2" ]
  grep -qx "tests/cluster/a.bats: fails before" "$tree/build/flaky.log"
  grep -qx "tests/cluster/a.bats: the file itself; tests without a report: 3" "$tree/build/flaky.log"
}

@test "a file that is cut off twice fails with every test that was not reported again" {
  file a
  has "passes" "true"
  has "hangs" "cut_off"
  has "is not reached" "true"
  runs cluster
  ended 1 "1 passed, 2 failed, 0 skipped"
  no_list
  failures "tests/cluster/a.bats: the file itself; tests without a report: 2"
}

@test "a file that did not run is one failure, and its tests count from the second run" {
  touch "$state/no_box"
  file a
  for n in 1 2 3 4 5; do has "test $n" true; done
  has "fails" false
  has "is skipped" skip
  runs cluster
  ended 1 "5 passed, 1 failed, 1 skipped"
  no_list
  # Without the failure it is one flaky file, however many tests it has.
  sed -i '/"fails"/d' "$bats"
  touch "$state/no_box"
  runs cluster
  ended 0 "5 passed, 0 failed, 1 skipped"
  [ "${lines[*]:0:3}" = "flaky: 1   tests/cluster/a.bats: the file itself did not run     slurmctld does not answer" ]
  program tests/cluster/box.sh 'exit 1'
  runs cluster
  ended 1 "0 passed, 1 failed, 0 skipped"
  no_list
}

@test "setup_file and teardown_file fail the file, and are run again with it" {
  file a
  says 'setup_file() { once it; }'
  has "one" true
  has "two" true
  file b
  says 'teardown_file() { once that; }'
  has "one" true
  runs cluster
  ended 0 "3 passed, 0 failed, 0 skipped"
  [ "${lines[0]}" = "flaky: 2" ]
  grep -q "a.bats: the file itself; tests without a report: 2" "$tree/build/flaky.log"
  grep -q "it has failed" "$tree/build/flaky.log"
  sed -i 's/once it/false/' "$tree/tests/cluster/a.bats"
  sed -i 's/once that/false/' "$bats"
  runs cluster
  ended 1 "1 passed, 3 failed, 0 skipped"
  no_list
}

@test "a file whose tests need those before them runs as a whole, and only what failed is judged" {
  file a whole
  has "is needed" "touch \$BOX/made"
  has "fails once" "[ -e \$BOX/made ]; once it"
  has "fails" "false"
  has "passed before" "! once then"
  runs cluster
  ended 1 "3 passed, 1 failed, 0 skipped"
  [ "${lines[0]}" = "flaky: 1" ]
}

@test "what failed runs when nothing else does: files beside others, without a box, alone, and what make runs" {
  file alone alone
  has "alone" "told alone; once alone"
  file beside beside
  has "beside" "told beside; once beside"
  file boxless 'box: none'
  has "boxless" "told boxless; once boxless"
  file slow beside
  has "slow" "until grep -qx boxless $state/told; do sleep 0.1; done; sleep 1; told slow"
  runs
  ended 0 "14 passed, 0 failed, 0 skipped"
  [ "${lines[0]}" = "flaky: 3" ]
  tail -n 8 "$state/told" | diff - <(printf '%s\n' "make ended" "box -k build/test/logs/again/alone" alone "box ended" boxless \
    "box -k build/test/logs/again/beside" beside "box ended")
}

@test "unit tests that failed run again, those alone; what fails again fails the run and is named" {
  unit_tests passes "once, and * then not" fails
  touch "$state/once, and * then not"
  runs unit
  ended 0 "3 passed, 0 failed, 0 skipped"
  [ "${lines[0]}" = "flaky: 1" ]
  [ "${lines[1]}" = "  build/test/unit: once, and * then not" ]
  told "unit -tc=once? and ? then not" 1
  touch "$state/once, and * then not" "$state/fails"
  runs unit
  ended 1 "2 passed, 1 failed, 0 skipped"
  [ "${lines[*]: -2:1}" = "failed: build/test/unit: fails" ]
  told "unit -tc=once? and ? then not,fails" 1
  # Where they end without a summary nobody knows which failed.
  rm "$state/fails"
  touch "$state/crash"
  runs unit
  ended 1 "0 passed, 1 failed, 0 skipped"
  failures "build/test/unit: ended with status 139 and no summary"
}

@test "what make runs beside the cluster tests runs again after them" {
  file a
  has "slow" "sleep 3; told slow"
  unit_tests "once, and then not"
  touch "$state/once, and then not"
  program bin/make 'exec env -u FILES tests/run.sh unit'
  runs
  ended 0 "2 passed, 0 failed, 0 skipped"
  grep -q '^build/test/unit: once, and then not' "$tree/build/flaky.log"
  # The unit tests and the box begin at one time: either may be first.
  sed "s/ $//" "$state/told" | sed '/^slow$/q' | sort | diff - <(printf '%s\n' "box -k build/test/logs/a" slow unit)
  sed "s/ $//" "$state/told" | sed '1,/^slow$/d' | diff - <(printf '%s\n' "box ended" "unit -tc=once? and then not")
}

@test "a file outside a box runs again outside a box" {
  file install/a
  has "fails once" "once it"
  has "fails twice" "false"
  runs install
  ended 1 "1 passed, 1 failed, 0 skipped"
  [ "${lines[0]}" = "flaky: 1" ]
  [ ! -e "$state/told" ]
}

@test "what was flaky beside the cluster tests counts among the three" {
  program bin/make 'echo "== beside"
echo "flaky: 3"
echo "10 passed, 0 failed, 0 skipped"'
  file a
  has "fails once" "once it"
  runs
  ended 1 "11 passed, 1 failed, 0 skipped"
}

@test "an attack that succeeds once and not again counts as one that succeeded, and fails make test-attacks" {
  mkdir "$tree/tests/attacks"
  cp "$BATS_TEST_DIRNAME/../attacks/report.sh" "$tree/tests/attacks/"
  # STATUS FIGURES: what report.sh ends with, and leaves.
  reports() {
    status=0
    (
      cd "$tree"
      env -i PATH="$tree/bin:$(tr : '\n' <<< "$PATH" | grep -v bats-core | paste -sd:)" STATE="$state" BUILD=build tests/attacks/report.sh
    ) > "$tree/output" 2>&1 || status=$?
    cat "$tree/output"
    [ "$status" = "$1" ]
    [ "$(cat "$tree/build/attacks.json")" = "{\"attacks_succeeded\": $2}" ]
  }
  file a
  has "is kept off" "true"
  reports 0 0
  has "succeeds once" "once it"
  reports 1 1
  reports 0 0
  has "succeeds" "false"
  reports 1 1
  for number in 1 2 3 4; do has "once $number" "once it$number"; done
  reports 1 5
}
