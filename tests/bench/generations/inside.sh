#!/bin/bash
# inside.sh FOLDER CHANGES: inside a box: a job of two GPUs grows to eight, loses a worker, and gives six GPUs back, CHANGES times.
# FOLDER gets the decisions and the training's metrics. It uses only what the box of commit e2180c9 has, too.
set -euo pipefail
. "$BOX_HERE/training.bash"
folder=$1 changes=$2
generation_of() { local generation; generation=$(metric A generation); echo "${generation:-0}"; }
in_generation_after() { [ "$(generation_of)" -gt "$1" ]; }
ten_steps() { wait_for 120 "A does 10 steps" stepped_past A $(($(step_of A) + 10)); }
worker() { # RANK, of the generation that runs
  local pid
  for pid in $(workers "$(generation_of)"); do
    ! tr '\0' '\n' < "/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" || echo "$pid"
  done
}

tiny+=(--set device.gflops=0.4) # paced, so that ranks leave the processor to those that start
cast 2:8
wait_for 20 "A is held" espalier hold "$A"
finish near
finish far
wait_for 60 "the fillers end" eval '[ -z "$(squeue -h -n near,far)" ]'
ten_steps
for ((change = 0; change < changes; change++)); do
  espalier release "$A"
  grows_to_eight
  ten_steps
  # A GPU where two ranks were killed within an hour is left out. A plan that is tried may have begun a generation.
  wait_for 60 "a worker is found" eval 'victim=$(worker $((7 - change % 6))) && [ -n "$victim" ]'
  before=$(generation_of)
  kill -KILL "$victim"
  wait_for 120 "A goes on after the loss" in_generation_after "$before"
  ten_steps
  wait_for 60 "A is held" espalier hold "$A"
  wait_for 60 "A gives back" espalier reclaim "$A"
  wait_for 120 "A runs on 2 GPUs" runs_on A 2
  ten_steps
  echo "espalier: bench: generations: $((change + 1)) of $changes" >&2
done
espalier show decisions --json --limit=100000 > "$folder/decisions.json"
cp "$BOX/home/A.jsonl" "$folder/metrics.jsonl"
as_user scancel "$A"
wait_for 60 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
