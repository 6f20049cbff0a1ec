# What the plugin makes of a step: whose tasks become launcher and keepers, with what in hand, and how it ends.
# box: -n 2 -d -c LaunchParameters=use_interactive_step -c 'InteractiveStepOptions="--interactive --preserve-env /bin/bash"'
# beside
load spank/common

setup_file() { load spank/common; setup_spank; }
teardown() {
  scancel -u boxuser
  plugstack
  wait_for 20 "the nodes are free" eval '[ -z "$(squeue -h -o %i)" ]'
}

count() { grep -cF -- "$1" <<< "$output" || true; }
elastic_step() { as_user timeout 30 srun -Q --gres=gpu:2 --elastic=2:8 "$@"; }
plain_step() { [ "$(count 'is run of')$(count 'is keeper of')" = 00 ]; }

# --- the exchange ------------------------------------------------------------------------------------------------------

@test "task 0 becomes the launcher, every other task a keeper, on every node" {
  run elastic_step -N2 -n4 echo done
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(count 'task 0 is run of echo')" = 1 ]
  for task in 1 2 3; do [ "$(count "task $task is keeper of echo")" = 1 ]; done
  [ "$(grep -cx done <<< "$output")" = 1 ]
}

@test "the program's arguments arrive unchanged" {
  run elastic_step printf '%s|' 'two words' '' '*' --elastic=9:9 'run' -- "quo'te"
  [[ $output == *'task 0 is run of printf: [%s|] [two words] [] [*] [--elastic=9:9] [run] [--] [quo'"'"'te]'* ]]
  [[ $output == *"two words||*|--elastic=9:9|run|--|quo'te|" ]]
}

@test "the launcher gets the option's values, and the site's limit as MAX's default" {
  run elastic_step true
  [[ $output == *'min=2 max=8 accuracy= deadline= active=job'* ]]
  run as_user srun -Q --gres=gpu:2 --elastic true
  [[ $output == *'min=0 max=16 accuracy= deadline= active=job'* ]]
  run as_user srun -Q --gres=gpu:2 --elastic=:4,accuracy=relaxed,deadline=2031-02-03T04:05 true
  [[ $output == *'min=0 max=4 accuracy=relaxed deadline=2031-02-03T04:05:00 active=job'* ]]
}

@test "standard input, labels and the exit code are the program's" {
  run as_user sh -c 'echo from stdin | srun -Q -l --gres=gpu:2 --elastic=2:8 cat'
  [ "$status" -eq 0 ]
  [[ $output == *'0: from stdin'* ]]
  run elastic_step -n2 -N2 sh -c 'exit 7'
  [ "$status" -eq 7 ]
}

@test "with -K1, and with each MPI plugin" {
  run elastic_step -K1 -n2 echo done
  [ "$status" -eq 0 ]
  [ "$(grep -cx done <<< "$output")" = 1 ]
  for mpi in none pmi2; do
    run elastic_step --mpi="$mpi" -n2 echo done
    [ "$status" -eq 0 ]
    [ "$(grep -cx done <<< "$output")" = 1 ]
  done
}

# --- which steps -------------------------------------------------------------------------------------------------------

@test "sbatch --elastic: the script itself runs as it is, the steps inherit the option, a step's own option wins" {
  for export in ALL NONE; do
    as_user sh -c 'printf "#!/bin/bash\necho script\nsrun echo one\nsrun --elastic=:5 echo two\n" > job.sh'
    completed --export="$export" --elastic=2:8 --gres=gpu:2 -o "$BOX/home/out" job.sh
    output=$(cat "$BOX/home/out")
    echo "$output"
    [ "$(count 'is run of')" = 2 ]
    [[ $output == script* ]]
    [[ $output == *'min=2 max=8'*one*'min=0 max=5'*two ]]
  done
}

@test "salloc --elastic: its steps inherit the option, with an interactive step or without" {
  run as_user salloc -Q --elastic=2:8 --gres=gpu:2 srun echo done
  [[ $output == *'task 0 is run of echo: [done]'*'min=2 max=8'*done ]]
  run as_user sh -c 'echo "echo shell; srun echo done" | salloc -Q --elastic=2:8 --gres=gpu:2'
  echo "$output"
  [[ $output == *shell* ]]
  [[ $output == *'task 0 is run of echo: [done]'*'min=2 max=8'*done* ]]
  [ "$(count 'is run of')" = 1 ]
}

@test "what an elastic job submits is another job, elastic only by its own option" {
  all_over() { wait_for 60 "all jobs have ended" eval '[ -z "$(squeue -h)" ]'; }
  as_user sh -c 'printf "#!/bin/bash\nsbatch -Q -o child1 child.sh\nsalloc -Q srun -Q echo child\nsrun -Q sbatch -Q -o child2 child.sh" > job.sh'
  as_user sh -c 'printf "#!/bin/bash\nsrun -Q echo child\n" > child.sh'
  as_user sbatch -Q --elastic=2:8 --gres=gpu:2 -o out job.sh
  all_over
  output=$(cat "$BOX/home/out")
  echo "$output"
  [ "$(cat "$BOX/home/child1")" = child ]
  [ "$(cat "$BOX/home/child2")" = child ]
  [ "$(count 'is run of echo')" = 0 ]
  [ "$(count 'is run of sbatch')" = 1 ]
  run as_user salloc -Q --elastic=2:8 --gres=gpu:2 sbatch -Q -o child3 child.sh
  all_over
  [ "$(cat "$BOX/home/child3")" = child ]
  as_user sh -c 'printf "#!/bin/bash\nsrun -Q sbatch -Q -o child4 --elastic=1:3 --gres=gpu:1 child.sh\n" > job.sh'
  as_user sbatch -Q --elastic=2:8 --gres=gpu:2 -o out job.sh
  all_over
  grep -q 'task 0 is run of echo: \[child\]' "$BOX/home/child4"
  grep -q 'min=1 max=3' "$BOX/home/child4"
}

@test "a submission without SPANK reaches it through the comment" {
  as_user sh -c 'printf "#!/bin/bash\nsrun echo one\n" > job.sh'
  completed --comment=espalier:2:7,accuracy=relaxed --gres=gpu:2 -o "$BOX/home/out" job.sh
  grep -q 'task 0 is run of echo: \[one\]' "$BOX/home/out"
  grep -q 'min=2 max=7 accuracy=relaxed' "$BOX/home/out"
}

@test "a step without the option is left alone" {
  run as_user srun -Q --gres=gpu:2 -n2 echo done
  [ "$output" = "$(printf 'done\ndone')" ]
}

@test "the guard is the job's own id" {
  run env ESPALIER_ACTIVE=1 bash -c '. "$BOX_HERE/jobs.bash"; as_user srun -Q --gres=gpu:2 --elastic=2:8 echo done'
  [ "$(count 'task 0 is run of echo')" = 1 ]
}

@test "a step below an elastic step's task is left alone, option or not" {
  run elastic_step sh -c 'srun -Q --overlap echo nested; srun -Q --overlap --elastic=1:2 echo again'
  echo "$output"
  [ "$(count 'is run of')" = 1 ]
  [[ $output == *nested* ]]
  [[ $output == *again* ]]
}

@test "--multi-prog runs plain and says so" {
  as_user sh -c 'printf "# who\n0 echo first\n1 echo second\n" > multi.conf'
  run elastic_step -n2 --multi-prog multi.conf
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(count 'espalier: elastic: "2:8": --multi-prog starts several programs; the step runs without elasticity')" = 1 ]
  [[ $output == *first* ]]
  [[ $output == *second* ]]
  plain_step
}

# --- never a failed job because of us ----------------------------------------------------------------------------------

@test "without the launcher on the node the program runs plain, after one message" {
  plugstack launcher=/nonexistent/espalier-launch
  run elastic_step -N1 -n2 echo done
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(count 'espalier: launch: /nonexistent/espalier-launch cannot be executed on n')" = 1 ]
  [ "$(grep -cx done <<< "$output")" = 2 ]
}

@test "a mistake in plugstack.conf is named and costs no job" {
  plugstack max=many wibble planner=:1 launcher=relative
  run elastic_step echo done
  echo "$output"
  [ "$status" -eq 0 ]
  for word in max=many wibble planner=:1 launcher=relative; do [ "$(count "plugstack.conf: \"$word\" ignored")" -ge 1 ]; done
  [[ $output == *'task 0 is run of echo: [done]'* ]]
}

@test "without the plugin on the node's side an elastic job runs plain" {
  as_user sh -c 'printf "#!/bin/bash\nsrun -n2 echo done\n" > job.sh'
  job=$(as_user sbatch --parsable -H -n2 --elastic=2:8 --gres=gpu:2 -o "$BOX/home/out" job.sh)
  : > "$BOX/slurm/plugstack.conf"
  scontrol release "$job"
  wait_for 20 "the job is over" job_over "$job"
  [ "$(exit_code "$job")" = 0:0 ]
  [ "$(grep -cx done "$BOX/home/out")" = 2 ]
}

# --- forged values -----------------------------------------------------------------------------------------------------

@test "a forged option is checked again on the node: the program runs plain, after one message" {
  run env _SLURM_SPANK_OPTION_espalier_elastic=8:4 bash -c '. "$BOX_HERE/jobs.bash"; as_user srun -Q --gres=gpu:2 -n2 echo done'
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(count 'espalier: elastic: "8:4": MAX is below MIN')" = 1 ]
  [ "$(count 'the step runs without elasticity')" = 1 ]
  [ "$(grep -cx done <<< "$output")" = 2 ]
  plain_step
  run env _SLURM_SPANK_OPTION_espalier_elastic=2:99 bash -c '. "$BOX_HERE/jobs.bash"; as_user srun -Q --gres=gpu:2 echo done'
  [ "$(count "99 GPUs are above this site's limit of 16")" = 1 ]
  plain_step
  run as_user salloc -Q --gres=gpu:1 : --gres=gpu:1 env _SLURM_SPANK_OPTION_espalier_elastic=1:8 srun -Q --het-group=0,1 echo done
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(count 'heterogeneous jobs cannot be elastic')" -ge 1 ]
  plain_step
  run as_user salloc -Q --gres=gpu:1 sh -c 'SLURM_ESPALIER_ELASTIC=$SLURM_JOB_ID:8:4 srun -Q echo done; SLURM_ESPALIER_ELASTIC=1:1:4 srun -Q echo done'
  [ "$status" -eq 0 ]
  [ "$(count 'the step runs without elasticity')" = 1 ]
  plain_step
  long=$(printf '9%.0s' {1..4000})
  run env _SLURM_SPANK_OPTION_espalier_elastic="$long" bash -c '. "$BOX_HERE/jobs.bash"; as_user srun -Q --gres=gpu:2 echo done'
  [ "$status" -eq 0 ]
  [ "$(count 'too long')" = 1 ]
  plain_step
}

@test "the launcher's variables cannot be forged from outside" {
  run env ESPALIER_MIN=99 ESPALIER_MAX=9999 ESPALIER_ACCURACY=none ESPALIER_DEADLINE=x ESPALIER_TASK=keeper ESPALIER_PROGRAM=/bin/false \
    bash -c '. "$BOX_HERE/jobs.bash"; as_user srun -Q --gres=gpu:2 --elastic=2:8 echo done'
  echo "$output"
  [[ $output == *'task 0 is run of echo: [done]'* ]]
  [[ $output == *'min=2 max=8 accuracy= deadline= active=job'* ]]
  run env ESPALIER_TASK=run ESPALIER_MIN=99 bash -c '. "$BOX_HERE/jobs.bash"; as_user srun -Q --gres=gpu:2 echo done'
  [ "$output" = done ]
}

# --- the end -----------------------------------------------------------------------------------------------------------

@test "the keepers end with task 0, on every node, quietly and at once" {
  start=$EPOCHREALTIME
  run elastic_step -N2 -n4 sh -c 'sleep 3' # until all keepers are there
  took=$(((${EPOCHREALTIME/./} - ${start/./}) / 1000))
  echo "$output" "took $took ms"
  [ "$status" -eq 0 ]
  for task in 1 2 3; do [ "$(count "keeper $task ends")" = 1 ]; done
  [ "$took" -lt 15000 ]
  [ "$(count CANCELLED)" = 0 ]
  [ "$(count rror)" = 0 ]
}

@test "keepers that outlive WaitTime do not cost task 0 its life" {
  run elastic_step -W 1 -N2 -n2 sh -c 'sleep 3; echo finished'
  [ "$status" -eq 0 ]
  [[ $output == *finished* ]]
}

@test "the keepers end when the launcher is killed" {
  run elastic_step -N2 -n3 sh -c 'sleep 3; kill -KILL $PPID' # when the keepers are there
  echo "$output"
  [ "$status" -ne 0 ]
  for task in 1 2; do [ "$(count "keeper $task ends")" = 1 ]; done
}

@test "the keepers end when slurmctld was away as task 0 ended, once it is back" {
  as_user timeout 200 srun -Q --gres=gpu:2 --elastic=2:8 -N2 -n3 sleep 15 > "$BOX/log/away" 2>&1 3>&- &
  local step=$! controller
  controller=$(cat "$BOX/pid/slurmctld")
  wait_for 30 "the keepers are there" eval '[ "$(grep -c "is keeper of" "$BOX/log/away")" = 2 ]'
  kill "$controller"
  wait_for 60 "slurmctld has ended" eval '[ ! -d /proc/$controller ]'
  sleep 35 # task 0 has ended, and a scancel has given slurmctld up
  refute grep -q 'keeper . ends' "$BOX/log/away"
  slurmctld 3>&-
  wait_for 60 "the keepers end" eval '[ "$(grep -c "keeper . ends" "$BOX/log/away")" = 2 ]'
  wait "$step" || true
  wait_for 20 "no scancel is left" refute pgrep -x scancel
}

@test "the keepers end, and nothing is left, when the job is cancelled" {
  job=$(as_user sbatch --parsable --elastic=2:8 -N2 --ntasks-per-node=2 --gres=gpu:2 -o "$BOX/home/out" --wrap 'srun sleep 600')
  wait_for 30 "the step runs" grep -q 'task 3 is keeper' "$BOX/home/out"
  as_user scancel "$job"
  wait_for 20 "the job is over" job_over "$job"
  assert_nothing_left 10
}
