#!/bin/bash
# measure.sh FOLDER METHOD ROUNDS TRAIN-ARGUMENT...: inside a box of three nodes with one GPU each: a job on n1 and n2 grows
# to n3 and shrinks back, ROUNDS times. Leaves in FOLDER what espalier-bench pause reads: link.json, decisions.json, A.out.
set -euo pipefail
. "$BOX_HERE/training.bash"
folder=$1 method=$2 rounds=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)

python3 "$here/link.py" > "$folder/link.json"

arguments=(--data "$BOX/share/text" --steps 1000000 --set "handoff.method=$method" "$@")
checkpoints=$folder/checkpoints
if [ "$method" = overlap ] || [ "$method" = checkpoint ]; then
  install -d -o boxuser -g boxuser "$checkpoints"
  arguments+=(--set "checkpoint.directory=$checkpoints" --set checkpoint.every=0 --keep 1)
fi
far=$(plain far -N1 -n1 -w n3 --gres=gpu:1)
wait_for 20 "n3 is taken" job_is "$far" RUNNING
A=$(elastic A 2:3 -N2 -n2 --ntasks-per-node=1 -w 'n[1-2]' --gres=gpu:1 -- "${arguments[@]}")
wait_for 180 "A trains" stepped_past A 6
for ((round = 1; round <= rounds; round++)); do
  finish far
  wait_for 180 "A runs on 3 GPUs" runs_on A 3
  wait_for 120 "A does 3 steps there" stepped_past A $(($(step_of A) + 3))
  rm -f "$BOX/home/far.finish"
  far=$(plain far -N1 -n1 -w n3 --gres=gpu:1)
  wait_for 120 "the plain job has its GPU back" job_is "$far" RUNNING
  wait_for 120 "A runs on 2 GPUs" runs_on A 2
  wait_for 120 "A does 6 steps there, at rest" stepped_past A $(($(step_of A) + 6))
  echo "round $round of $rounds" >&2
done
espalier show decisions --json --limit=100000 > "$folder/decisions.json"
cp "$BOX/home/A.out" "$BOX/home/A.jsonl" "$folder"
as_user scancel "$A"
finish far
wait_for 60 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
