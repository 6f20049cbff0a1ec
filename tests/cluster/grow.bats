# Growing, and everything that must go on working where there is nothing to grow with.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# beside
# early
# limit: 1200
# each: 300

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# Workers of a job's newest generation that were made by fork().
forked() { comm -12 <(processes espalier-train 'ESPALIER_SPARE_FORKS=1' | sort) <(workers "$(metric "$1" generation)" | sort); }
messages() { grep -c '^espalier: ' "$1" || true; }

@test "GPUs that fall idle on a job's own node and elsewhere become part of it, and it loses no step to its end" {
  steps=300 # a minute and more
  grown_cast 2:8 "$steps"
  held_at_rest
  [ "$(extensions_of "$A" | xargs -n 1 squeue -h -o %N -j | sort | xargs)" = "n1 n2" ]
  # That on the job's own node runs in a step of the extension, which Slurm gave other GPUs than the job's.
  near_one=$(for one in $(extensions_of "$A"); do squeue -h -o '%i %N' -j "$one"; done | sed -n 's/ n1$//p')
  comm -12 <(processes espalier-train "SLURM_JOB_ID=$near_one" | sort) <(processes espalier-train SLURM_STEP_GPUS=0,1 | sort) > "$BOX/log/near"
  [ "$(wc -l < "$BOX/log/near")" -ge 2 ]
  # On each of the extensions' nodes one process has loaded the libraries, and the ranks are copies of it.
  echo "# $(forked A | wc -l) of 8 ranks were forked" >&3
  [ "$(forked A | wc -l)" -ge 6 ]
  ends_well "$steps"
}

@test "a job never takes more than its MAX" {
  cast 2:4
  wait_for 60 "two processes wait for the next generation" eval '[ $(processes espalier-train "ESPALIER_GENERATION=spare *" | wc -l) -ge 2 ]'
  finish near
  finish far
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  # The two that were there before were started ahead.
  [ "$(processes espalier-train 'ESPALIER_SPARE=.*' | sort | comm -12 - <(workers "$(metric A generation)" | sort) | wc -l)" -ge 2 ]
  wait_for 60 "A does 40 steps there" stepped_past A $(($(step_of A) + 40))
  [ "$(grep -o '"gpus":[0-9]*' "$BOX/home/A.jsonl" | sort -u | xargs)" = 'gpus:2 gpus:4' ]
  goes_on_well
}

# bats test_tags=long:2
@test "two extensions of a job on one node, beside its own GPUs there; Slurm takes one of them back" {
  first=$(plain near1 -N1 -n1 -w n1 --gres=gpu:1)
  second=$(plain near2 -N1 -n1 -w n1 --gres=gpu:1)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 60 "the fillers run" eval 'job_is "$first" RUNNING && job_is "$second" RUNNING'
  rm -f "$BOX"/home/A.*
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  finish near1
  wait_for 120 "A runs on 3 GPUs" runs_on A 3
  finish near2
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  [ "$(extensions_of "$A" | wc -l)" = 2 ]
  [ "$(squeue -h -p elastic -o %N | sort -u)" = n1 ]
  urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:1)
  wait_for 120 "the urgent job runs" job_is "$urgent" RUNNING
  wait_for 120 "A runs on 3 GPUs" runs_on A 3
  [ "$(extensions_of "$A" | wc -l)" = 1 ]
  finish urgent
  goes_on_well
}

# bats test_tags=long:4
@test "a model with multi-token prediction grows, with the losses that it has without Slurm" {
  local mtp=(--set model.mtp_layers=1 --set model.layers=4) steps=300 # it shall not end before it has grown
  as_user timeout 100 mpirun --oversubscribe --bind-to none -np 1 espalier-train "$BOX/share/examples/gpt-tiny.toml" --set 'model.family="llama"' \
    "${mtp[@]}" "${tiny[@]}" --set device.gflops=0 --steps $steps --metrics "$BOX/home/alone.jsonl" > "$BOX/log/alone"
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  rm -f "$BOX"/home/A.*
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- --set "'model.family=\"llama\"'" "${mtp[@]}" "${tiny[@]}" --steps $steps)
  wait_for 120 "A trains" stepped_past A 5
  finish near
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  wait_for 200 "A ends" job_over "$A"
  losses() { python3 -c 'import json, sys
for line in sys.stdin: r = json.loads(line); print(r["step"], r["loss"], r["mtp_loss"])' < "$BOX/home/$1.jsonl"; }
  [ "$(losses A | wc -l)" = $steps ]
  diff <(losses alone) <(losses A)
  leaves_nothing
}

@test "srun --elastic typed at the shell works as in a batch script" {
  run as_user timeout 100 srun --elastic=2:4 -n1 -w n1 --gres=gpu:2 espalier-train "$BOX/share/examples/gpt-tiny.toml" \
    "${tiny[@]}" --steps 100 --metrics "$BOX/home/A.jsonl"
  echo "$output"
  [ "$status" -eq 0 ]
  same_losses A 100
  assert_nothing_left
}

@test "sbatch --elastic passes the option on to the script's srun" {
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
srun espalier-train $BOX/share/examples/gpt-tiny.toml ${tiny[*]} --steps 1000000 --metrics A.jsonl
S
  A=$(as_user sbatch --parsable --elastic=2:4 -o A.out -N1 -n1 -w n1 --gres=gpu:2 A.sh)
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  goes_on_well
}

@test "with no planner reachable the training runs to its end on its first GPUs, after one clear message" {
  "$BOX_HERE/planner.sh" kill
  A=$(elastic A 2:8 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 100)
  wait_for 120 "A ends" job_over "$A"
  same_losses A 100
  [ "$(grep -c 'planner' "$BOX/home/A.out")" -eq 1 ]
  assert_nothing_left
}

@test "a program that does not speak the worker protocol runs to its end, after one clear message" {
  echo 'launch.protocol_seconds = 3' >> /etc/espalier/espalier.toml
  run as_user timeout 60 srun --elastic=2:4 -n1 --gres=gpu:2 sh -c 'sleep 6; echo finished'
  sed -i '/launch.protocol_seconds/d' /etc/espalier/espalier.toml
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(grep -c '^finished$' <<< "$output")" -eq 2 ] # a rank for each GPU, as any program of an elastic step
  [ "$(grep -c '^espalier: ' <<< "$output")" -eq 1 ]
  assert_nothing_left
}

@test "the program's exit code is the step's" {
  run as_user timeout 60 srun --elastic=2:4 -n1 --gres=gpu:2 sh -c 'exit 7'
  echo "$output"
  [ "$status" -eq 7 ]
}

@test "a program that cannot be executed fails as with plain srun" {
  run as_user timeout 60 srun --elastic=2:4 -n1 --gres=gpu:2 /no/such/program
  echo "$output"
  [ "$status" -ne 0 ]
  [ "$status" -ne 124 ]
  [[ $output == *"/no/such/program"* ]]
  assert_nothing_left
}

# bats test_tags=long:3
@test "the other tasks of an elastic step stay until the training ends, and then go" {
  run as_user timeout 100 srun --elastic=2:2 -N2 --ntasks-per-node=1 --gres=gpu:1 espalier-train "$BOX/share/examples/gpt-tiny.toml" \
    "${tiny[@]}" --steps 100 --metrics "$BOX/home/A.jsonl"
  echo "$output"
  [ "$status" -eq 0 ]
  same_losses A 100
  assert_nothing_left
}

@test "espalierd --shadow decides and records, and acts on nothing" {
  "$BOX_HERE/planner.sh" stop
  "$BOX_HERE/planner.sh" start --shadow
  cast
  finish near
  wait_for 60 "a decision is recorded" eval 'espalier show decisions | grep -qi shadow'
  sleep 3
  no_extensions
  runs_on A 2
  goes_on_well
  "$BOX_HERE/planner.sh" stop
}
