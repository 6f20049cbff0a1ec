#!/bin/bash
# measure_grows.sh FOLDER GROWS: inside a box: how long each part of a grow takes, over many grows of one job.
set -euo pipefail
. "$BOX_HERE/training.bash"
folder=$1 grows=$2
here=$(cd "$(dirname "$0")" && pwd)

# Grows: A trains on two GPUs; a plain job comes, takes its extension back, and goes again.
near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- --data "$BOX/share/text" --steps 100000)
wait_for 60 "A trains" stepped_past A 40
for ((grow = 1; grow <= grows; grow++)); do
  finish near
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  wait_for 60 "A does 10 steps there" stepped_past A $(($(step_of A) + 10))
  rm -f "$BOX/home/near.finish"
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  wait_for 60 "the plain job has its GPUs back" job_is "$near" RUNNING
  wait_for 60 "A runs on 2 GPUs" runs_on A 2
  wait_for 60 "A does 10 steps there" stepped_past A $(($(step_of A) + 10))
  echo "grow $grow of $grows" >&2
done
espalier show decisions --json --limit=100000 > "$folder/decisions.json"
as_user scancel "$A"
finish near
finish far
wait_for 30 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
python3 "$here/grows.py" "$folder/decisions.json"
