#!/bin/bash
# run.sh [GROWS]: `make bench`. Measures in boxes and prints; RESULTS.md keeps one run's figures with the machine they are from.
set -euo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
BUILD=$(realpath "$BUILD")
mkdir -p "$BUILD/bench"
echo "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(slurmctld -V)"
for what in optimality versus; do
  timeout -k 10 900 "$BUILD/bin/espalier-bench" "$what" --json >"$BUILD/bench/$what.json"
  echo "$what: $(tr -d '\n' <"$BUILD/bench/$what.json")"
done
timeout -k 10 300 tests/cluster/box.sh -d -n 1 -k "$BUILD/bench/logs" tests/bench/plugins.sh
timeout -k 10 1500 tests/cluster/box.sh -n 2 -k "$BUILD/bench/logs" -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' \
  tests/bench/measure_grows.sh "$BUILD/bench" "${1:-20}"

# Recorded measurements are not part of the project: without them there is nothing to compare with.
measured=../shared/data/measured
if [ -d "$measured" ]; then
  echo "errors of iteration times predicted from one measured plan:"
  "$BUILD/bin/espalier-bench" accuracy --measurements "$measured/llama2-7b-a800.csv" --write-cluster "$BUILD/bench/cluster.json"
  "$BUILD/bin/espalier-bench" accuracy --measurements "$measured/gpt2-xl-a800.csv" --cluster "$BUILD/bench/cluster.json"
fi
