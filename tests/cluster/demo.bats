# The story of `make demo`, and what it promises in summary.json.
# box: none
# limit: 600
# each: 500

@test "the demo's story: grown, shrunk, preempted, planner restarted, nothing lost, nothing left" {
  cd "$BATS_TEST_DIRNAME/../.."
  run env BUILD="$BATS_TEST_TMPDIR/build" bash -c 'mkdir -p "$BUILD" && cp -r "$0"/bin "$0"/lib "$BUILD"/ && examples/demo/run.sh' "$(realpath "$BUILD")"
  echo "$output"
  [ "$status" -eq 0 ]
  python3 - "$BATS_TEST_TMPDIR/build/demo/summary.json" <<'P'
import json, sys
s = json.load(open(sys.argv[1]))
assert s["grown"] >= 2 and s["shrunk"] >= 2 and s["preempted"] >= 1 and s["planner_restarts"] == 1, s
assert s["steps_lost"] == 0 and s["steps_repeated"] == 0 and s["loss_bitwise_equal"] is True, s
assert s["leaked_jobs"] == 0 and s["leaked_processes"] == 0, s
P
}
