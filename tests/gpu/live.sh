#!/bin/bash
# live.sh FOLDER: inside a box of one node with one GPU (tests/cluster/box.sh -n 1 -g 1). What a user's job does there, on the real
# Slurm: a training of espalier-train-cuda tries other plans and keeps the fastest, which moves it from one process to the next on
# one card; loses its process and goes on; ends with the losses of the same training without Slurm. A training in PyTorch loses
# its process and goes on, with CUDA tensors in its state. Prints a line for each; figures go to FOLDER/live.json.
# PROGRAM: another one than espalier-train-cuda. PYTHON: an interpreter that has torch. DEVICE=cpu: that of PyTorch without a card.
# PARTS ("ours pytorch"): some of it.
set -euo pipefail
. "$BOX_HERE/jobs.bash"
out=$1 program=${PROGRAM:-espalier-train-cuda} failed=0
mkdir -p "$out"
sizes=(--set model.layers=12 --set "model.hidden=${HIDDEN:-768}" --set model.heads=12 --set "model.sequence=${SEQUENCE:-512}"
  --set training.global_batch=16 --set training.dtype='"bfloat16"' --set training.minimum_learning_rate=2e-3
  --set training.accuracy='"bitwise"' --data "$BOX/share/text"
  --set profile.every=20) # profiles often, so that trials of plans begin soon
said() { printf '%-10s %s\n' "$1" "$2"; printf '%s\t%s\n' "$1" "$2" >> "$out/live.tsv"; }

ours() {
  local A last died
  as_user tee "$BOX/home/A.sh" > /dev/null << J
#!/bin/bash
srun --elastic=1:1 $program $BOX/share/examples/gpt-tiny.toml --metrics $BOX/home/A.jsonl ${sizes[@]@Q} --steps 100000
J
  A=$(as_user sbatch --parsable -J A -o "$BOX/home/A.out" -N1 -n1 --gres=gpu:1 "$BOX/home/A.sh")
  wait_for 90 "A trains" eval 'stepped_past A 5 || job_over "$A"' && stepped_past A 5 || return 1
  ! grep -q "training on the processor" "$BOX/home/A.out" || { echo "no GPU was visible"; return 1; }
  wait_for 90 "A's trials of plans are over" grep -q "job $A: [0-9]* plans were measured" "$BOX/log/espalierd.log" || return 1
  "$BOX/bin/espalier" explain "$A" > "$out/explain" || true
  "$BOX/bin/espalier" show job "$A" > "$out/job" || true
  sed -n "s/.*job $A: \([0-9]* plans were measured.*\)/\1/p" "$BOX/log/espalierd.log"
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20)) || return 1
  died=$(date +%s%N) last=$(step_of A)
  pkill -KILL -u boxuser -x "${program:0:15}" || { echo "no process to end"; return 1; }
  wait_for 90 "A goes on after the loss of its process" stepped_past A $((last + 5)) || return 1
  said loss "training went on $((($(date +%s%N) - died) / 1000000)) ms after its process was killed"
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20)) || return 1
  as_user scancel "$A"
  wait_for 60 "A is over" job_over "$A" || return 1
  as_user timeout 90 "$program" "$BOX/share/examples/gpt-tiny.toml" "${sizes[@]}" --metrics "$BOX/home/alone.jsonl" --steps 100 > "$BOX/log/alone.log" 2>&1 || return 1
  python3 "$BOX_HERE/losses.py" "$BOX/home/A.jsonl" "$BOX/home/alone.jsonl" || return 1
  said training "$(metric A generation) generations, $(step_of A) steps, each once and in order; the first 100 losses are those without Slurm, bit for bit"
}

pytorch() {
  local B last died
  cp -r "$BOX_REPO/torchrt/python/espalier" "$BOX_REPO/tests/gpu/ddp_cuda.py" "$BOX/share/" && chmod -R a+rX "$BOX/share"
  as_user tee "$BOX/home/B.sh" > /dev/null << J
#!/bin/bash
export PYTHONPATH=$BOX/share${PYTHONPATH:+:$PYTHONPATH}
srun --elastic=1:1 ${PYTHON:-python3} $BOX/share/ddp_cuda.py $BOX/home/B.jsonl
J
  B=$(as_user sbatch --parsable -J B -o "$BOX/home/B.out" -N1 -n1 --gres=gpu:1 "$BOX/home/B.sh")
  wait_for 120 "B trains" eval 'stepped_past B 60 || job_over "$B"' && stepped_past B 60 || return 1
  died=$(date +%s%N) last=$(step_of B)
  pkill -KILL -u boxuser -f "^[^ ]*python[^ ]* .*ddp_cuda.py" || { echo "no process to end"; return 1; }
  wait_for 120 "B goes on after the loss of its process" stepped_past B $((last + 5)) || return 1
  said loss "PyTorch went on $((($(date +%s%N) - died) / 1000000)) ms after its process was killed"
  wait_for 120 "B is over" job_over "$B" || return 1
  grep -q "the end: 400 steps on ${DEVICE:-cuda}" "$BOX/home/B.out" || { tail "$BOX/home/B.out"; return 1; }
  said pytorch "$(grep "the end: " "$BOX/home/B.out")"
}

for part in ${PARTS:-ours pytorch}; do
  if ! "$part"; then
    failed=1
    said "$part" FAILED
    squeue
    tail -n 40 "$BOX"/home/*.out "$BOX/log/espalierd.log"
    scancel -u boxuser
    wait_for 45 "the queue is empty" eval '[ -z "$(squeue -h)" ]' || true
  fi
done
cp "$BOX/home"/*.out "$BOX/home"/*.jsonl "$BOX/log/espalierd.log" "$out/" 2>/dev/null || true
exit $failed
