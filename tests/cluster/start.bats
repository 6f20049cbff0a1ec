# The first generation: which plan it starts on, who chose it, and TP degrees that change live.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# beside
# early
# limit: 1200
# each: 300

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# The plan of A's generation 0, as the launcher told it.
first_plan() { sed -n 's/^espalier: launch: generation 0 starts on //p' "$BOX/home/A.out"; }
started() { [ -n "$(first_plan)" ]; }
recorded_start() { # Keeps A's newest committed decision of the kind start.
  local id
  id=$(espalier show decisions --job "$A" --json | python3 -c '
import json, sys
print(max(d["id"] for d in json.load(sys.stdin)["decisions"] if d["kind"] == "start" and d["outcome"] == "committed"))') &&
    espalier show decision "$id" --json > "$BOX/start.json"
}
of_start() { # EXPRESSION of the decision d
  python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2], {"d": d.get("decision", d)}))' "$BOX/start.json" "$1"
}

@test "the planner chooses the plan of generation 0, and explain tells what it weighed" {
  A=$(elastic A 4:4 -N1 -n1 -w n1 --gres=gpu:4 -- "${tiny[@]}" --steps 150)
  wait_for 60 "the start is recorded" recorded_start
  [ "$(of_start 'd["trigger"]')" = job_started ]
  [ "$(of_start 'len(d["candidates"]) > 1')" = True ]
  [[ $(of_start 'd["reason"]') == *"data sheets"* ]]
  [ "$(first_plan)" = "$(of_start 'd["candidates"][0]["plan"]')" ]
  espalier explain "$A" | tee "$BOX/explained"
  grep -q 'Kind=start' "$BOX/explained"
  ends_well 150
}

@test "more GPUs than layers are an ordinary case: every GPU works, and no loss differs" {
  A=$(elastic A 4:4 -N1 -n1 -w n1 --gres=gpu:4 -- "${tiny[@]}" --set model.layers=2 --steps 60)
  wait_for 150 "A ends" job_over "$A"
  [ "$(exit_code "$A")" = 0:0 ]
  [ "$(gpus_of A)" = 4 ]
  as_user mpirun --oversubscribe --bind-to none -np 1 espalier-train "$BOX/share/examples/gpt-tiny.toml" "${tiny[@]}" \
    --set model.layers=2 --steps 60 --metrics "$BOX/home/alone.jsonl"
  rm -rf /tmp/ompi.ctl.* /dev/shm/vader_segment.ctl.*
  python3 "$BOX_HERE/losses.py" "$BOX/home/A.jsonl" "$BOX/home/alone.jsonl" 60
}

# bats test_tags=long:2
@test "[parallel] decides the plan, and micro-batches change no bit" {
  A=$(elastic A 4:4 -N1 -n1 -w n1 --gres=gpu:4 -- "${tiny[@]}" --set parallel.pp=2 --set parallel.dp=2 \
    --set parallel.micro_batches=2 --steps 100)
  wait_for 60 "A has a plan" started
  [[ $(first_plan) == "pp2 dp2 tp1 "* ]]
  ends_well 100
}

# bats test_tags=long:6
@test "a user's plan is laid on the job's own GPUs" {
  cat > "$BOX/share/plan.json" <<'P'
{"global_batch": 8, "micro_batches": 4, "stages": [
  {"layers": 5, "tp": 1, "replicas": [{"share": 2, "gpus": ["x/0"]}]},
  {"layers": 3, "tp": 1, "replicas": [{"share": 2, "gpus": ["x/1"]}]}]}
P
  A=$(elastic A 2:2 -N1 -n1 -w n2 --gres=gpu:2 -- "${tiny[@]}" --set "parallel.plan=$BOX/share/plan.json" --steps 100)
  wait_for 60 "A has a plan" started
  [[ $(first_plan) == *"5+3 layers"*"n2/"* ]]
  ends_well 100
}

@test "degrees that these GPUs cannot make end the job with the figures" {
  A=$(elastic A 2:2 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --set parallel.pp=3 --steps 100)
  wait_for 60 "A ends" job_over "$A"
  [ "$(exit_code "$A")" != 0:0 ]
  grep -q 'no plan on 2 GPU(s): pp=3 dp=0 tp=1' "$BOX/home/A.out"
  assert_nothing_left
}

@test "without a planner the launcher chooses, and the planner learns of it later" {
  "$BOX_HERE/planner.sh" kill
  A=$(elastic A 4:4 -N1 -n1 -w n1 --gres=gpu:4 -- "${tiny[@]}" --steps 1000000)
  wait_for 60 "A trains" stepped_past A 10
  started
  "$BOX_HERE/planner.sh" start
  wait_for 60 "the start is recorded" recorded_start
  [[ $(of_start 'd["reason"]') == "chosen by the launcher"* ]]
  goes_on_well
}

# A launcher with the script's name finds the text in the script; the wrapped program then is asked.
# bats test_tags=long:1
@test "a program that does not describe itself tells its shape in its hello, and its ranks keep their places" {
  cat > "$BOX/share/undescribed" <<'P'
#!/bin/sh
case " $* " in *" --describe "*) echo "it was asked" >> "$ASKED"; exit 1 ;; esac
exec espalier-train "$@"
P
  chmod +x "$BOX/share/undescribed"
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
export ASKED=$BOX/home/asked
srun --elastic=4:4 $BOX/share/undescribed $BOX/share/examples/gpt-tiny.toml ${tiny[*]} --steps 100 --metrics A.jsonl
S
  A=$(as_user sbatch --parsable -o A.out -N1 -n1 -w n1 --gres=gpu:4 A.sh)
  ends_well 100
  [ ! -e "$BOX/home/asked" ]
  started
  [[ $(first_plan) == *"n1/0"* ]]
}

# Losses of other TP degrees differ in their last bits.
near_the_reference() {
  python3 - "$BOX/home/A.jsonl" "$BOX/share/reference.jsonl" <<'P'
import json, sys
run, reference = ([json.loads(line) for line in open(name) if line.endswith("\n")] for name in sys.argv[1:])
assert [one["step"] for one in run] == list(range(1, len(run) + 1)), "a step was lost or done twice"
worst = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(run, reference) if a["step"] <= 200)
print("the largest relative difference of a loss within 200 steps is", worst)
assert worst < 2e-3
P
}

@test "with accuracy=relaxed TP degrees change live: at a growth, and when Slurm preempts without a planner" {
  cat > "$BOX/share/one.json" <<'P'
{"global_batch": 8, "micro_batches": 4, "stages": [{"layers": 8, "tp": 1, "replicas": [{"share": 2, "gpus": ["x/0"]}]}]}
P
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(elastic A 1:4,accuracy=relaxed -N1 -n1 -w n1 --gres=gpu:1 -- "${tiny[@]}" --set training.accuracy=relaxed \
    --set "parallel.plan=$BOX/share/one.json" --set 'parallel.tp_degrees=[2]' --steps 1000000)
  wait_for 100 "A has grown" eval '[ "$(gpus_of A)" -gt 1 ]'
  wait_for 60 "the change is over" phase_is running
  # Its own GPU is one Slurm job's and the others are another's, and no group is on both: "tp1-2".
  [[ $(metric A plan) == *" tp"*"2 "* ]]
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  "$BOX_HERE/planner.sh" kill
  urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:3)
  wait_for 30 "the urgent job starts" job_is "$urgent" RUNNING
  wait_for 60 "A runs on its own GPU" runs_on A 1
  [[ $(metric A plan) == *" tp1 "* ]]
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  near_the_reference
  finish urgent
  "$BOX_HERE/planner.sh" start
  wait_for 30 "the planner learns of the shrink" eval "espalier show decisions --job $A | grep -q preempted"
  as_user scancel "$A"
  leaves_nothing
}

# bats test_tags=long:3
@test "after losses a job with MIN trains on down to it, and below it ends resumable with a message" {
  A=$(elastic A 2:2 -N2 --ntasks-per-node=1 -w n1,n2 --gres=gpu:1 -- "${tiny[@]}" --steps 1000000)
  wait_for 100 "A trains" stepped_past A 20
  ip link set v2 down
  wait_for 120 "the launcher ends" grep -q '; the job ends' "$BOX/home/A.out"
  ip link set v2 up
  wait_for 60 "A ends" job_over "$A"
  grep -q '1 GPUs are left, and MIN of --elastic is 2; submit the job again' "$BOX/home/A.out"
}

# A job on two GPUs is measured: what takes how many steps depends on what else this machine does.
one_is_measured() { # TRAIN-ARGUMENT...
  A=$(elastic A 2:2 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" "$@" --steps 1000000)
  wait_for 200 "A is measured" grep -q "job $A: measured after step" "$BOX/log/espalierd.log"
  as_user scancel "$A"
  wait_for 60 "A has ended" job_over "$A"
}

@test "a second job like the first starts wide: its generation 0 has extensions already" {
  local paced=(--set device.gflops=0.3)
  one_is_measured "${paced[@]}"
  espalier show profiles
  rm -f "$BOX"/home/A.*
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" "${paced[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 5
  [ "$(head -n 1 "$BOX/home/A.jsonl" | grep -o '"gpus":[0-9]*')" = '"gpus":4' ]
  wait_for 20 "the start is recorded" recorded_start
  [[ $(of_start 'd["reason"]') == "starts wide: "* ]]
  same_losses A
  as_user scancel "$A"
  leaves_nothing
}

# bats test_tags=long:5
@test "an extension that goes before a wide start has trained costs nothing but the wide start" {
  local paced=(--set device.gflops=0.3)
  one_is_measured "${paced[@]}"
  rm -f "$BOX"/home/A.*
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" "${paced[@]}" --steps 1000000)
  wait_for 60 "an extension runs" eval '[ -n "$(squeue -h -p elastic -t R -o %i)" ]'
  as_user scancel "$(squeue -h -p elastic -o %i | head -n 1)"
  wait_for 120 "A trains" stepped_past A 5
  # It has not tried to start wide once more. Steps that the wide generation did while the extension's notice ran count.
  [ "$(sed '/--> running$/q' "$BOX/home/A.out" | grep -c 'extension [0-9]* of [0-9]* GPUs on .* submitted')" = 1 ]
  wait_for 60 "A trains on its own GPUs" grep -qE '"gpus":2[,}]' "$BOX/home/A.jsonl"
  same_losses A
  as_user scancel "$A"
  leaves_nothing
}

@test "a rank knows for how long to wait for its launcher: longer than the site's own limits" {
  run as_user srun -n1 --elastic=1:2 --gres=gpu:1 bash -c 'echo "patience $ESPALIER_PATIENCE"'
  echo "$output"
  [ "$status" -eq 0 ]
  # Two starts of 60 s, three steps of 600 s and 5 s, and a minute: launch.start_seconds and launch.hang_seconds as they are.
  grep -qx "patience 1985" <<< "$output"
}

@test "a rank has the soft limits of its submitter, though the launcher beside it raises its own" {
  run as_user bash -c 'ulimit -Sn 1000; exec srun -n1 --elastic=1:2 --gres=gpu:1 bash -c "ulimit -Sn"'
  echo "$output"
  [ "$status" -eq 0 ]
  grep -qx 1000 <<< "$output"
}

# bats test_tags=long:3
@test "ranks see all GPUs of the job, also where Slurm binds each task to one, and the first reads what srun reads" {
  local options
  for options in --gpus-per-task=1 "--gres=gpu:4 --gpu-bind=single:1"; do
    completed --elastic=4:4 -N1 -n4 -w n1 $options -o "$BOX/home/A.out" \
      --wrap "srun sh -c 'echo \"rank \$OMPI_COMM_WORLD_RANK sees \$CUDA_VISIBLE_DEVICES\"'"
    cat "$BOX/home/A.out"
    [ "$(grep -c 'rank [0-3] sees 0,1,2,3' "$BOX/home/A.out")" = 4 ]
    refute grep "without elasticity" "$BOX/home/A.out"
  done
  run as_user srun -N1 -n4 --gpus-per-task=1 --elastic=4:4 sh -c \
    'echo "rank $OMPI_COMM_WORLD_RANK sees $CUDA_VISIBLE_DEVICES"; [ "$OMPI_COMM_WORLD_RANK" != 0 ] || cat' <<< "what srun reads"
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(grep -c 'rank [0-3] sees 0,1,2,3' <<< "$output")" = 4 ]
  grep -qx "what srun reads" <<< "$output"
  leaves_nothing
}

@test "steps with a part of the job's GPUs run as they are, and say why" {
  as_user tee "$BOX/home/A.sh" > /dev/null <<'S'
#!/bin/bash
srun -n1 --gres=gpu:2 --mem=100 sh -c 'echo "one on ${SLURM_STEP_GPUS:-none}"; sleep 3' &
srun -n1 --gres=gpu:1 --mem=100 sh -c 'echo "two on ${SLURM_STEP_GPUS:-none}"; sleep 3' &
wait
S
  completed --elastic=2:8 -N1 -n4 -w n1 --gres=gpu:4 -o "$BOX/home/A.out" "$BOX/home/A.sh"
  output=$(cat "$BOX/home/A.out")
  echo "$output"
  [[ $output == *"lacks 2 of the 4 GPUs on n1"*"the program runs without elasticity"* ]]
  [[ $output == *"lacks 3 of the 4 GPUs on n1"*"the program runs without elasticity"* ]]
  [[ $output == *"one on "[0-9],[0-9]* ]]
  [[ $output == *"two on "[0-9]* ]]
  leaves_nothing
}

# bats test_tags=long:4
@test "a second elastic step runs as it is while the first one trains, and the first goes on" {
  A=$(elastic A 2:2 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  run as_user srun --jobid "$A" --overlap -n1 --mem=0 --elastic=2:2 echo done
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *"another elastic step of this job runs, and a job has one at a time"*"the program runs without elasticity"*done* ]]
  wait_for 60 "A goes on" stepped_past A $(($(step_of A) + 20))
  goes_on_well
}
