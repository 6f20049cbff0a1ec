#!/bin/bash
# run.sh [GROWS]: `make bench`. Measures in boxes and prints; RESULTS.md keeps one run's figures with the machine they are from.
set -euo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
BUILD=$(realpath "$BUILD")
mkdir -p "$BUILD/bench"
echo "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(slurmctld -V)"
# planner NAME ARGUMENTS...: one JSON file each, and its line.
planner() {
  local name=$1
  shift
  timeout -k 10 1200 "$BUILD/bin/espalier-bench" "$@" --json >"$BUILD/bench/$name.json"
  echo "$name: $(tr -s '\n ' ' ' <"$BUILD/bench/$name.json")"
}
planner decide decide --gpus 1024 --decisions 2000
planner decide-16384 decide --gpus 16384 --decisions 200 --eager-every 0
planner optimality optimality --instances 500
planner proxy proxy --instances 200
planner optimality_daemon optimality --instances 500 --effort daemon
planner versus versus --model llama2-13b --from 16 --to 64
planner handoff handoff --model llama2-70b --from 8x4x8 --to 10x4x8
# Recorded measurements are not part of the project: without them there is nothing to compare with.
measured=../shared/data/measured
if [ -d "$measured" ]; then
  planner accuracy accuracy --measurements "$measured/llama2-7b-a800.csv" --write-cluster "$BUILD/bench/cluster.json"
  planner accuracy-gpt2-xl accuracy --measurements "$measured/gpt2-xl-a800.csv" --cluster "$BUILD/bench/cluster.json"
fi
# A state of a gibibyte, links of 10 Gbit/s: 2 -> 3 GPUs and back, by each method of the hand-off.
for method in adopt device overlap checkpoint; do
  planner "pause-$method" pause --method "$method" --state-bytes $((1 << 30)) --folder "$BUILD/bench/pause/$method"
done
timeout -k 10 300 tests/cluster/box.sh -d -n 1 -k "$BUILD/bench/logs" tests/bench/plugins.sh
timeout -k 10 1500 tests/cluster/box.sh -n 2 -k "$BUILD/bench/logs" -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' \
  tests/bench/measure_grows.sh "$BUILD/bench" "${1:-20}"
echo "snapshots: $(timeout -k 10 1200 python3 tests/bench/snapshots/run.py "$BUILD")"
# Fifteen minutes: a mix of jobs for real, then in the simulator.
tests/bench/fidelity/run "$BUILD/bench/fidelity"
