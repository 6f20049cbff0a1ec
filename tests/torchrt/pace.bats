#!/usr/bin/env bats
# device.gflops: a CPU that is as slow as a device. Only time may change.
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
