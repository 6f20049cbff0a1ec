# A site whose Slurm has auth/slurm and which has no MUNGE: espalierd and the launcher say at their start what cannot work, in one
# sentence. What local users do goes on. This machine's Slurm has no auth/slurm: tests/cluster/auth/without_munge.c.
# box: -n 1 -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 300
# each: 120
# beside

setup_file() {
  . "$BOX_HERE/jobs.bash"
  gcc -Wall -Wextra -Werror -shared -fPIC -o "$BOX/lib/without_munge.so" "$BOX_REPO/tests/cluster/auth/without_munge.c"
}
setup() { . "$BOX_HERE/jobs.bash"; }
teardown() { "$BOX/bin/espalier" ping > /dev/null 2>&1 || "$BOX_HERE/planner.sh" start; }

without=$BOX/lib/without_munge.so
why='Slurm has AuthType=auth/slurm, whose credentials Espalier cannot use, and MUNGE does not work on this host (munge: cannot make a credential: '
what='so espalierd, launchers, keepers and ranks cannot prove their users to each other over the network; run munged with the same key on all hosts'
listens() { [ -n "$(ss -Hln "$1" 'sport = 7321')" ]; } # -t|-u

@test "espalierd says what cannot work, does not listen on the network, and serves the users of its host" {
  listens -t
  listens -u
  "$BOX_HERE/planner.sh" stop
  : > "$BOX/log/espalierd.log"
  LD_PRELOAD=$without "$BOX_HERE/planner.sh" start
  wait_for 30 "it has learnt AuthType" grep -qF "$why" "$BOX/log/espalierd.log"
  grep -F "$why" "$BOX/log/espalierd.log" | grep -F "$what, and restart espalierd; it does not listen on the network now, so no job grows"
  [ "$(grep -c ' error ' "$BOX/log/espalierd.log")" -eq 2 ] # before and after Slurm has told AuthType
  wait_for 5 "TCP is closed" refute listens -t
  refute listens -u
  as_user espalier show nodes | grep -q 'NodeName=n1\|Node=n1'
  as_user espalier show config > /dev/null
  plain job -N1 -n1 --gres=gpu:1
  wait_for 20 "the plugin of slurmctld is heard" grep -q 'events.sock: ESP1 job_submitted' "$BOX/log/espalierd.log"
  finish job
  # With MUNGE again.
  "$BOX_HERE/planner.sh" stop
  "$BOX_HERE/planner.sh" start
  listens -t
  listens -u
  wait_for 30 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
}

@test "espalierd that MUNGE merely does not answer yet goes on listening" {
  "$BOX_HERE/planner.sh" stop
  : > "$BOX/log/espalierd.log"
  KEEP_AUTH_TYPE=1 LD_PRELOAD=$without "$BOX_HERE/planner.sh" start
  wait_for 30 "it says so" eval "grep -F 'MUNGE does not work on this host' '$BOX/log/espalierd.log' | grep -F 'until then only users of this host can talk to espalierd'"
  wait_for 30 "it has asked Slurm" eval 'espalier show nodes | grep -q n1'
  sleep 2 # it looks once a second
  listens -t
  refute grep -q 'AuthType' "$BOX/log/espalierd.log"
  "$BOX_HERE/planner.sh" stop
  "$BOX_HERE/planner.sh" start
}

@test "the launcher says so at its start, and the program runs without elasticity" {
  ulimit -Sn 1000 # the program's, and not what the launcher would allow itself
  run as_user timeout 60 srun -n1 --elastic=1:2 --gres=gpu:1 --export="ALL,LD_PRELOAD=$without" bash -c 'ulimit -Sn; echo trains; exit 3'
  echo "$output"
  [ "$status" -eq 3 ]
  [[ $output == *"espalier: launch: $why"*"$what; the program runs without elasticity"* ]]
  grep -qx 1000 <<< "$output"
  grep -qx trains <<< "$output" # it may be said before the launcher's sentence
  [ "$(grep -c 'espalier: ' <<< "$output")" -eq 1 ]
}

@test "a movable job, which has no GPUs of its own to run on, ends with that sentence" {
  run as_user timeout 60 srun -n1 --elastic=1:2,movable --export="ALL,LD_PRELOAD=$without" bash -c 'echo trains'
  echo "$output"
  [ "$status" -eq 1 ]
  [[ $output == *"espalier: launch: $why"*"$what; the job ends"* ]]
  refute grep -qx trains <<< "$output"
  refute grep -q '^base-' <(squeue -h -o %j)
}

@test "the program of several tasks runs as each of them without elasticity" {
  run as_user timeout 60 srun -n2 --elastic=1:2 --gres=gpu:1 --export="ALL,LD_PRELOAD=$without" bash -c 'echo task $SLURM_PROCID of $SLURM_NTASKS'
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *"the program runs without elasticity"* ]]
  grep -qx 'task 0 of 2' <<< "$output"
  grep -qx 'task 1 of 2' <<< "$output"
}

@test "a launcher that MUNGE does not answer yet waits for it, says so once, and the job is elastic" {
  as_user timeout 100 srun -n1 --elastic=1:2 --gres=gpu:1 \
    --export="ALL,LD_PRELOAD=$without,KEEP_AUTH_TYPE=1,MUNGE_BACK=$BOX/home/munge_is_back" \
    bash -c 'echo "generation ${ESPALIER_GENERATION-none}"' > "$BOX/log/waits" 2>&1 &
  local job=$!
  wait_for 30 "it waits" grep -q 'it is asked again for 180 s before the program runs without elasticity' "$BOX/log/waits"
  sleep 5 # two more questions
  refute grep -q '^generation' "$BOX/log/waits"
  touch "$BOX/home/munge_is_back"
  wait "$job"
  cat "$BOX/log/waits"
  grep -qx 'generation 0' "$BOX/log/waits"
  [ "$(grep -c 'espalier: ' "$BOX/log/waits")" -eq 1 ]
}
