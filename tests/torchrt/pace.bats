#!/usr/bin/env bats
# device.gflops and device.times: a CPU that is as slow as a device. Only time may change.
# limit: 1200
# each: 400

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
}

@test "a device's speed changes no loss, whatever the layout" {
  rm -f fast.jsonl slow.jsonl
  ranks 2 --metrics fast.jsonl --steps 4
  ranks 2 --metrics slow.jsonl --steps 4 --set device.gflops=2
  same_losses fast.jsonl slow.jsonl
  rm -f fast.jsonl slow.jsonl
  on_shape "4 4x1:1,1 4x2:2" --metrics fast.jsonl --steps 4 --set training.zero1=true --set training.recompute=true
  on_shape "4 4x1:1,1 4x2:2" --metrics slow.jsonl --steps 4 --set training.zero1=true --set training.recompute=true --set device.gflops=2
  same_losses fast.jsonl slow.jsonl
}

@test "no step is faster than the device would be, and two ranks are no faster than two devices" {
  for count in 1 2; do
    rm -f m.jsonl
    ranks $count --metrics m.jsonl --steps 4 --set device.gflops=1
    python3 -c 'import json, sys
for line in open("m.jsonl"):
    step = json.loads(line)
    # Of the device'"'"'s speed; a rank that was late makes up for up to 10 ms in the next step.
    assert 0 < step["mfu"] <= 1.02, step'
  done
}

@test "a speed that is none is refused by key" {
  run ranks 1 --set device.gflops=-1
  [ "$status" -ne 0 ]
  [[ "$output" == *"device.gflops: is -1; it must lie between 0"* ]]
}

@test "a device's table of times is kept to, changes no loss, and a plan that it has no row for is refused" {
  python3 -c 'import json
print(json.dumps({"rows": [{"unit": u, "tp": 1, "samples": s, "forward_ms": 2.0 * s, "backward_ms": 3.0 * s, "weight_gradient_ms": 1.0 * s,
                            "update_ms": 1.0} for u in ("embedding", "block", "head") for s in (1, 2, 4, 8)]}))' > times.json
  rm -f fast.jsonl slow.jsonl
  ranks 1 --metrics fast.jsonl --steps 3
  ranks 1 --metrics slow.jsonl --steps 3 --set "device.times=$PWD/times.json"
  same_losses fast.jsonl slow.jsonl
  # Each sample takes each unit 6 ms; a rank that was late makes up for up to 10 ms in the next step.
  python3 -c 'import json
config = open("small.toml").read()
layers, batch = (int(config.split(key + " = ")[1].split()[0]) for key in ("layers", "global_batch"))
for line in open("slow.jsonl"):
    assert json.loads(line)["seconds"] >= 0.006 * batch * (layers + 2) - 0.010, line'
  on_shape_fails() { on_shape "2 8x2:4" --steps 1 --set training.accuracy=relaxed --set "device.times=$PWD/times.json"; }
  run on_shape_fails
  [ "$status" -ne 0 ]
  [[ "$output" == *"has no row for unit"*", tp 2; add one"* ]]
}
