# Work that is no step: the launcher hears from programs in C and in Python that they get on with an evaluation.
# data.bats has the same of espalier-train's validations.
# limit: 600
# each: 300

setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  prepare
}

# evaluates PROGRAM ARGUMENT...: two replicas train five steps. No more: the director reads no profile of such a program.
evaluates() {
  cat > script.json << 'J'
{"first": {"global_batch": 48, "micro_batches": 1,
           "stages": [{"layers": 1, "tp": 1, "replicas": [{"share": 24, "gpus": ["a/0"]}, {"share": 24, "gpus": ["a/1"]}]}]}, "acts": []}
J
  rm -f summary.json
  STAGE_DIRECTOR_SECONDS=120 timeout -k 5 150 "$here/with_munge.sh" "$director" script.json summary.json -- "$@"
}
told_after() { # STEPS: after which the launcher heard that the program gets on
  python3 -c 'import json, sys; told = json.load(open("summary.json"))["progressed"]; print(told); assert told == json.loads(sys.argv[1])' "$1"
}

@test "a program in C tells in its evaluations that it gets on, and not in between" {
  evaluates "$built/test/c_worker" --steps 5 --pause 0.05 --evaluate 2
  told_after '[2, 4]'
  evaluates "$built/test/c_worker" --steps 5 --pause 0.05
  told_after '[]'
}
