# A growth after which steps take longer than before is taken back.
# box: -n 2 -r 10mbit -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.trial_percent = 5' -e 'planner.log_level = "debug"'
# limit: 900
# each: 500
# bats file_tags=long:2

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

decided() { # WORDS: a decision about A has them in its reason
  espalier show decisions --job "$A" --limit 50 --json | grep -q -- "$1"
}

# The planner believes its default, 10 GB/s between nodes. The links have a thousandth of that, and sums of gradients cross them.
@test "a job that grew across slow links gets its old plan back, loses no step, and is not sent there again" {
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --set parallel.pp=1 --set parallel.tp=1 --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  finish far
  wait_for 200 "A runs on 4 GPUs" runs_on A 4
  wait_for 250 "A is back on its own two" runs_on A 2
  decided 'steps take [0-9.e-]* s since decision [0-9]*, and took [0-9.e-]* s before it: its GPUs on n2 are given back'
  run espalier explain "$A"
  echo "$output"
  [[ "$output" == *"a growth onto n2 made its steps slower; it gets no GPUs there for up to an hour"* ]]
  python3 - "$BOX/home/A.jsonl" <<'P' >&3
import json, statistics, sys
steps = [json.loads(line) for line in open(sys.argv[1]).read().splitlines(True) if line.endswith("\n")]
for generation in sorted({s["generation"] for s in steps}):
    own = [s["seconds"] for s in steps if s["generation"] == generation][1:]
    if own: print(f"# generation {generation}: {len(own) + 1} steps of {statistics.median(own):.3f} s")
P
  # n2 is idle; what was measured of the links, and the nodes to avoid, keep A away.
  wait_for 120 "A does 40 steps more" stepped_past A $(($(step_of A) + 40))
  runs_on A 2
  goes_on_well
}
