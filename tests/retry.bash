# shellcheck shell=bash disable=SC2034,SC2154 # run.sh has the rest
# Sourced by run.sh: the second run of the tests that failed. It judges them anew and lists those that passed it as flaky.
#
# A test is known by its number in its file. Number 0 is the file itself. It fails where it did not run or was cut off, so that
# planned tests were never reported, and where its setup_file or teardown_file failed.
again=()                                   # the files of which something failed
declare -A short_form                      # files of which only the tests with the tag `short` run
declare -A failed_in missing_in own_counts # by file: numbers of failed and of unreported tests; how often number 0 was counted
declare -A first_title first_output        # by FILE:NUMBER: what failed and what it said
second=()                                  # by number: the outcome of the second run

remember_failures() { # FILE OWN: after read_tap; so many failures are the file's own
  local file=$1 own=$2 number
  for number in "${!outcome[@]}"; do
    [ "${outcome[number]}" = FAIL ] || continue
    failed_in[$file]+="$number "
    first_title[$file:$number]=${title[number]} first_output[$file:$number]=${output[number]:-}
  done
  if [ "$own" -gt 0 ]; then
    own_counts[$file]=$own first_output[$file:0]=${output[0]:-}
    for ((number = 1; number <= planned; number++)); do [ -n "${outcome[number]:-}" ] || missing_in[$file]+="$number "; done
    first_title[$file:0]="the file itself; tests without a report: $(wc -w <<< "${missing_in[$file]:-}")"
    [ "$planned" -gt 0 ] || missing_in[$file]=all first_title[$file:0]="the file itself did not run"
  fi
  [ -z "${failed_in[$file]:-}${own_counts[$file]:-}" ] || again+=("$file")
}

# The unit tests that failed in this output of theirs, with what it says of each. A test that only tells something has a heading too.
failed_unit_tests() {
  awk '/^TEST CASE:  / { name = substr($0, 13) } /: (FATAL )?ERROR: / && name != "" && !told[name]++ { print name }' <<< "$1"
}
remember_unit_tests() { # OUTPUT
  local names number
  outcome=() title=() output=()
  mapfile -t names < <(failed_unit_tests "$1")
  for number in "${!names[@]}"; do
    outcome[number + 1]=FAIL title[number + 1]=${names[number]}
    output[number + 1]=$(awk -v name="${names[number]}" '/^TEST CASE:  / { of = substr($0, 13) == name } of' <<< "$1" | head -n 20)$'\n'
  done
  planned=${#names[@]}
  [ "$planned" = 0 ] || remember_failures "$BUILD/test/unit" 0
}
# A comma separates the patterns of doctest, and a * or a ? stands for other characters: each becomes a ?.
unit_again() {
  local number pattern='' output again status
  for number in ${failed_in[$BUILD/test/unit]}; do
    pattern+=${pattern:+,}$(tr ',*\\"' '????' <<< "${first_title[$BUILD/test/unit:$number]}")
  done
  output=$(in_time 1500 "$BUILD/test/unit" -tc="$pattern" 2>&1)
  status=$?
  echo "$output"
  mapfile -t again < <(failed_unit_tests "$output")
  for number in ${failed_in[$BUILD/test/unit]}; do
    second[number]=ok
    # Where it did not end by itself nobody knows which of them it would have failed.
    if [ "$status" -gt 1 ] || printf '%s\n' "${again[@]}" | grep -qxF -- "${first_title[$BUILD/test/unit:$number]}"; then second[number]=FAIL; fi
  done
}

# The lines of a file's tests that its suite runs: those with the suite's tag, or without a tag of other runs.
tests_of() { # FILE
  if [ -n "${short_form[$1]:-}" ]; then awk 'before ~ /test_tags=short$/; { before = $0 }' "$1"
  else
    awk -v run="$LONG" '!(run != "all" && before ~ /test_tags=.*long:[0-9]+$/ && before !~ ("long:" run "$")); { before = $0 }' "$1"
  fi
}

# bats --filter takes a regular expression and looks at the names as they are written.
filter_for() { # FILE NUMBER...
  local names number
  mapfile -t names < <(tests_of "$1" | sed -nE 's/^[[:blank:]]*@test[[:blank:]]+(.*[^[:blank:]])[[:blank:]]+\{.*$/\1/p' |
    sed "s/^['\"]//; s/['\"]\$//")
  shift
  for number; do printf '%s\n' "${names[number - 1]:-}"; done | sed 's/[][\\.*+?^(){}|$]/\\&/g' | paste -sd '|' | sed 's/.*/^(&)$/'
}

as_before() { # FILE: it runs as its suite runs it
  local own
  if [[ $1 == tests/cluster/* ]]; then
    in_box run_bats "$1"
  else
    own=$(mktemp -d)
    run_plain "$1" "$own"
    rm -rf "$own"
  fi
}

# A file that itself failed, or whose tests need those before them, runs as a whole. Of another only what failed does.
run_again() { # FILE
  local file=$1 filter=() logs=$BUILD/test/logs/again numbers number place start=$SECONDS
  : > "$stood_still"
  second=()
  if [ "$file" = "$BUILD/test/unit" ]; then
    heading "$file again, what failed"
    unit_again
  elif [ -n "${own_counts[$file]:-}" ] || says whole "$file"; then
    heading "$file again, as a whole; what passed before is not judged"
    read_tap < <(as_before "$file")
    for number in "${!outcome[@]}"; do second[number]=${outcome[number]}; done
  else
    heading "$file again, what failed"
    read -ra numbers <<< "${failed_in[$file]}"
    filter=(--filter "$(filter_for "$file" "${numbers[@]}")")
    read_tap < <(as_before "$file")
    for place in "${!outcome[@]}"; do
      number=${numbers[place - 1]:-}
      [ "${title[place]}" != "${first_title[$file:$number]:-}" ] || second[number]=${outcome[place]}
    done
  fi
  echo "  $((SECONDS - start)) s"
  stillness
}

is_flaky() { # FILE NUMBER
  flaky=$((flaky + 1))
  mkdir -p "$BUILD"
  { echo "$1: ${first_title[$1:$2]}"; printf '%s' "${first_output[$1:$2]}" | sed 's/^/  /'; } >> "$BUILD/flaky.log"
}

judge() { # FILE: after run_again
  local file=$1 own=${own_counts[$1]:-0} missing=${missing_in[$1]:-} number wrong=0 lost=0
  for number in ${failed_in[$file]:-}; do
    if [ "${second[number]:-}" = ok ]; then
      passed=$((passed + 1)) failed=$((failed - 1))
      is_flaky "$file" "$number"
    else
      wrong=$((wrong + 1))
      failures+=("$file: ${first_title[$file:$number]}")
    fi
  done
  failed=$((failed - own))
  [ "$missing" != all ] || missing=$(seq "$planned")
  for number in $missing; do
    case ${second[number]:-} in
      ok) passed=$((passed + 1)) ;;
      skip) skipped=$((skipped + 1)) ;;
      *) failed=$((failed + 1)) lost=$((lost + 1)) ;;
    esac
  done
  [ $lost = 0 ] || failures+=("$file: ${first_title[$file:0]}")
  # These tests all passed, but setup_file or teardown_file failed; or there are none, as nothing ran again.
  if [ $((wrong + lost)) = 0 ] && { [ "$planned" = 0 ] || [ "$of_file" -gt 0 ]; }; then
    failed=$((failed + 1)) lost=1
    if [ "$of_file" -gt 0 ]; then failures+=("$file: setup_file or teardown_file")
    else failures+=("$file: ${first_title[$file:0]}"); fi
    echo "  FAIL $file itself"
  fi
  [ "$own" = 0 ] || [ "$lost" -gt 0 ] || is_flaky "$file" 0
}

# With more than three the run fails, whatever a second run of them says.
more_than_may_fail() {
  local file count=$flaky
  for file in "${again[@]}"; do count=$((count + $(wc -w <<< "${failed_in[$file]:-} ${own_counts[$file]:+file}"))); done
  [ "$count" -gt 3 ]
}

# RETRY_WHEN names a file that appears when the machine is quiet: the cluster tests that ran beside these have ended.
# Where the run fails anyhow, files are begun again for four minutes only: to know what is flaky is worth no more.
retry_failed() {
  local file end=$TESTS_END
  [ ${#again[@]} = 0 ] || [ -z "${RETRY_WHEN:-}" ] || until [ -e "$RETRY_WHEN" ] || [ "$(left_of 1)" -le 0 ]; do sleep 1; done
  ! more_than_may_fail || end=$((EPOCHSECONDS + 360 < end ? EPOCHSECONDS + 360 : end))
  for file in "${again[@]}"; do
    if [ $((end - EPOCHSECONDS)) -ge 120 ]; then TESTS_END=$end run_again "$file"
    else second=() planned=0 of_file=0; echo "  not run again: $file"; fi
    judge "$file"
  done
  [ "$flaky" -le 3 ] || { failed=$((failed + 1)); failures+=("$flaky are flaky; more than three fail the run"); echo "  FAIL $flaky are flaky; more than three fail the run"; }
}

list_flaky() { [ "$flaky" = 0 ] || { echo "flaky: $flaky"; sed 's/^/  /' "$BUILD/flaky.log"; }; }
