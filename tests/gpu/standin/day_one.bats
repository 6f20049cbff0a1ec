#!/usr/bin/env bats
# tests/gpu/run, the first day on a card, from end to end on the stand-ins and without a network.
# limit: 2400
# each: 900

setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  ready
  day=$BATS_TEST_TMPDIR/day
  # torch's own libraries want all of CUDA. The stand-ins are for our programs.
  real=$(command -v "${TEST_PYTHON:-python3}")
  printf '#!/bin/bash\nexec env -u LD_LIBRARY_PATH %q "$@"\n' "$real" > python
  printf '#!/bin/bash\nexec env LD_LIBRARY_PATH=%q %q "$@"\n' "$LD_LIBRARY_PATH" "$train" > on_standin # python's children lack it
  chmod +x python on_standin
}

day_one() { # PART...
  BUILD=$built TRAIN=${stuck:-$PWD/on_standin} TEST_PYTHON=$PWD/python STATE_BYTES=20000000 MEMORY_BYTES=30000000 FAMILIES=gpt2 \
    unshare --net bash -c 'ip link set lo up && exec "$@"' - "$root/tests/gpu/run" "$day" "$@"
}
has_torch() { ./python -c 'import torch, transformers' || skip "TEST_PYTHON has no torch or no transformers"; }
lines() { # EXPRESSION over the lines of day-one.json and `not_shown`
  python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))
lines, not_shown = found["lines"], found["not_shown"]
print(json.dumps(found, indent=1))
assert eval(sys.argv[2]), sys.argv[2]' "$day/day-one.json" "$1"
}

# bats test_tags=short
@test "state taken over by each method; one table, and JSON with the same lines" {
  ./python -c 'import torch' || skip "TEST_PYTHON has no torch"
  run -0 day_one state
  [[ $output == *"state of 100000 bytes, left "*ok* ]]
  [[ $output == *"One card does not show:"*"two Slurm jobs on one node"* ]]
  lines 'len(lines) == 8 and all(one["outcome"] == "ok" and one["part"] == "state" for one in lines.values())'
  lines 'len(not_shown) == 6'
}
@test "a card that keeps no memory without a process: that line fails, and so does the run" {
  ./python -c 'import torch' || skip "TEST_PYTHON has no torch"
  STANDIN_PERSISTENCE=0 run -1 day_one state
  lines '{name for name in lines if lines[name]["outcome"] == "failed"} == {f"state of {n} bytes, left" for n in (100000, 30000000)}'
}
@test "hand-off by each method: nothing is copied that can be adopted, no step is lost" {
  ./python -c 'import torch' || skip "TEST_PYTHON has no torch"
  run -0 day_one handoff
  lines 'lines["hand-off on one card"]["outcome"] == "ok"'
  python3 -c 'import json, sys
found = {one["method"]: one for one in json.load(open(sys.argv[1]))}
assert sorted(found) == ["adopt", "checkpoint", "device", "overlap"], found
assert found["adopt"]["bytes_adopted"] > 0 and found["adopt"]["bytes_copied"] == 0, found
assert found["device"]["bytes_copied"] > 0, found' "$day/handoff/handoff.json"
}
@test "parity with PyTorch, and the same bits twice and resumed; a later call adds its lines" {
  has_torch
  run -0 day_one parity
  run -0 day_one bits
  lines '[one["part"] for one in lines.values()] == ["parity", "bits", "bits"]'
  lines 'all(one["outcome"] == "ok" for one in lines.values())'
}
@test "no part passes its limit: what does not end has failed, and the rest is done" {
  ./python -c 'import torch' || skip "TEST_PYTHON has no torch"
  printf '#!/bin/bash\nsleep 300\n' > stuck
  chmod +x stuck
  stuck=$PWD/stuck PART_SECONDS=8 run -1 day_one parity bits
  lines 'all(one["outcome"] == "failed" and one["seconds"] < 90 for one in lines.values())'
  lines '"bits" in [one["part"] for one in lines.values()]'
}
# bats test_tags=short
@test "what this machine or this tree cannot run is left out, with a line that says why, and is no failure" {
  ./python -c 'import torch' || skip "TEST_PYTHON has no torch"
  mkdir -p bare
  built=$PWD/bare CXX=/none run -0 day_one unit live
  lines '[one["outcome"] for one in lines.values()] == ["left out", "left out"]'
  lines 'lines["unit tests"]["text"] == "left out: there is no /none"'
  lines 'lines["a cluster whose node has this card"]["text"].startswith("left out: ")'
}
@test "a program that is not there is said before any part begins" {
  TRAIN=/none BUILD=$built TEST_PYTHON=$PWD/python run -1 "$root/tests/gpu/run" "$day" bits
  [[ $output == *"/none"*"FAILED: is not there"* ]]
  lines 'list(lines) == ["/none"]'
}
