# A movable job whose base waits starts on a smaller one, on GPUs that are idle and that nobody else who waits could use. When Slurm
# grants the base, training moves there.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 1200
# each: 240
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

bases_of() { squeue -h -n "base-$1" -t "${2:-PENDING,RUNNING}" -o %i 2>/dev/null; }
only_base_is() { [ "$(bases_of "$A")" = "$1" ]; }
no_bases() { [ -z "$(bases_of "$A")" ]; }
base_waits() { waiting=$(bases_of "$A" PENDING) && [ -n "$waiting" ]; }
said() { grep -q -- "$1" "$BOX/home/A.out"; }
no_step_twice() { local twice; twice=$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort | uniq -d); [ -z "$twice" ] || { echo "twice: $twice"; return 1; }; }
first_step() { [ "$(sed -nE '1s/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl")" = 1 ]; }
# No GPU is in two jobs: by node, the indices that Slurm says its running jobs have.
no_gpu_twice() {
  local twice
  twice=$(scontrol show -d job | awk '/JobState=/ {runs = /JobState=RUNNING/} runs && /^ *Nodes=.*IDX/ {print $1, $NF}' |
    sed -E 's/Nodes=([^ ]*) .*IDX:([^)]*)\).*/\1 \2/' | sort | uniq -d)
  [ -z "$twice" ] || { echo "twice: $twice"; return 1; }
}
# Other jobs hold two GPUs of n1 and all of n2.
others() { # [SBATCH-OPTION of near...]
  rm -f "$BOX"/home/{A,near,far}.*
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2 --mem=100 "$@")
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4 --mem=100)
  wait_for 30 "they run" eval 'job_is "$near" RUNNING && job_is "$far" RUNNING'
}
movable() { A=$(elastic A "${1:-1:4},movable,base=4" -n1 --mem=500 -- "${tiny[@]}" --steps "${2:-1000000}"); } # [RANGE [STEPS]]
starts_small() { # Sets waiting and small.
  wait_for 60 "the base waits" base_waits
  wait_for 120 "A trains" stepped_past A 10
  small=$(bases_of "$A" RUNNING)
  [ "$(squeue -h -o %N -j "$small")" = n1 ]
  runs_on A 2
  only_waits "$waiting"
}
only_waits() { [ "$(bases_of "$A" PENDING)" = "$1" ]; }

@test "a movable job starts on idle GPUs, moves when its base is granted, and no step is lost" {
  others
  movable 1:4
  submitted=$SECONDS
  starts_small
  echo "# from submission to the tenth step: $((SECONDS - submitted)) s" >&3
  no_gpu_twice
  finish far
  wait_for 60 "the base is granted" job_is "$waiting" RUNNING
  granted=$SECONDS
  wait_for 120 "A runs on n2 alone" eval '[[ $(metric A plan) == *n2/* && $(metric A plan) != *n1/* ]] && runs_on A 4'
  echo "# from the grant to a training on it alone: $((SECONDS - granted)) s" >&3
  no_gpu_twice
  wait_for 90 "the smaller base is gone" only_base_is "$waiting"
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q "starts on 2 idle GPUs of n1 while base $waiting of 4 waits" "$BOX/log/shown"
  grep -q "Slurm has granted base $waiting, for which the job waited" "$BOX/log/shown"
  first_step
  no_step_twice
  goes_on_well 40
}

# bats test_tags=long:5
@test "a training on a smaller base ends well, with nothing left of the base that waits" {
  others
  movable 2:4 60
  starts_small
  wait_for 300 "A ends" job_over "$A"
  same_losses A 60
  leaves_nothing
}

# bats test_tags=long:6
@test "the base that waits is cancelled: training stays on the smaller one" {
  others
  movable
  starts_small
  as_user scancel "$waiting"
  wait_for 30 "A says so" said "base, Slurm job $waiting, has ended while it waited; training stays on base $small"
  only_base_is "$small"
  finish far
  goes_on_well 40
}

# bats test_tags=long:6
@test "scancel of the submitted job ends the smaller base and the one that waits within 5 s" {
  others
  movable
  starts_small
  moment=$(now_us)
  as_user scancel "$A"
  within 5 "$moment" "the bases have ended" no_bases
  leaves_nothing 40
}

# bats test_tags=long:4
@test "SIGKILL of the launcher ends both, also without a planner" {
  others
  movable
  starts_small
  "$BOX_HERE/planner.sh" kill
  kill -KILL "$(launcher_pid)"
  wait_for 40 "the smaller base is gone" eval '[ -z "$(bases_of "$A" RUNNING)" ]'
  finish far # the one that waits ends when it starts
  wait_for 60 "the bases are gone" no_bases
  leaves_nothing 40
}

# bats test_tags=long:1
@test "the base is granted while the planner is dead: training moves all the same" {
  others
  movable
  starts_small
  "$BOX_HERE/planner.sh" kill
  finish far
  wait_for 120 "A runs on n2 alone" eval '[[ $(metric A plan) == *n2/* && $(metric A plan) != *n1/* ]]'
  wait_for 90 "the smaller base is gone" only_base_is "$waiting"
  no_step_twice
  "$BOX_HERE/planner.sh" start
  goes_on_well 60
}

# bats test_tags=long:2
@test "moves to the base fail three times: it is given back, and training stays on the smaller one" {
  as_user mkdir -p "$BOX/home/bin"
  as_user tee "$BOX/home/bin/espalier-train" > /dev/null <<S
#!/bin/sh
[ "\${ESPALIER_GENERATION:-0}" = 0 ] || exit 3
exec $BOX/bin/espalier-train "\$@"
S
  as_user chmod 755 "$BOX/home/bin/espalier-train"
  others
  PATH=$BOX/home/bin:$PATH movable 2:4
  starts_small
  finish far
  wait_for 120 "the base is given back" said "base $waiting is given back: 3 moves to it have failed; training stays on base $small"
  wait_for 60 "only the smaller base is there" only_base_is "$small"
  no_step_twice
  runs_on A 2
  wait_for 60 "it is at rest" phase_is running
  goes_on_well 40
}

# bats test_tags=long:4
@test "a program that cannot move: its base is given back when it is granted, and it runs on" {
  others
  rm -f "$BOX"/home/A.*
  A=$(as_user sbatch --parsable -J A -o "$BOX/home/A.out" -n1 --mem=500 --elastic=2:4,movable,base=4 --wrap "srun sleep 400")
  wait_for 60 "the base waits" base_waits
  wait_for 60 "a smaller base runs" eval 'small=$(bases_of "$A" RUNNING) && [ -n "$small" ]'
  finish far
  wait_for 150 "the base is given back" said "base $waiting is given back: the program does not speak the worker protocol"
  wait_for 60 "only the smaller base is there" only_base_is "$small"
  as_user scancel "$A"
  wait_for 60 "the bases are gone" no_bases
  leaves_nothing 40
}

# bats test_tags=long:5
@test "a job of somebody else waits and could use the idle GPUs: they are left alone" {
  others
  big=$(plain big -N1 -n1 --gres=gpu:4 --mem=100)
  movable
  wait_for 60 "the base waits" base_waits
  sleep 15 # three times what Slurm is given for its own try
  only_base_is "$waiting"
  refute said "smaller base"
  grep -q "no smaller base: base $waiting: there are not 1 idle GPUs" "$BOX/log/espalierd.log"
  as_user scancel "$big"
  starts_small
  goes_on_well 40
}

# bats test_tags=long:4
@test "a smaller base that would delay the base is not started by Slurm, withdrawn, and the job waits on" {
  others -t 4 # Slurm expects the base on n1 when near ends, and a base without end there would delay it
  movable
  wait_for 60 "the base waits" base_waits
  wait_for 90 "the smaller base is withdrawn" said "the smaller base is withdrawn: it was not granted within"
  wait_for 20 "only the base waits" only_base_is "$waiting"
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q "aborted: it was not granted within" "$BOX/log/shown"
  finish near
  wait_for 120 "A trains" stepped_past A 10
  runs_on A 4
  only_base_is "$waiting"
  goes_on_well 40
}

@test "each wrong use of base= is refused in words" {
  refused() { run as_user sbatch --elastic="$1" -n1 --wrap true; echo "$output"; [ "$status" -ne 0 ]; [[ $output == *"$2"* ]]; }
  refused 1:4,base=2 'base is for movable jobs'
  refused 2:4,movable,base=1 'base is not between MIN and MAX'
  refused 2:4,movable,base=5 'base is not between MIN and MAX'
  refused 2:4,movable,base=many 'base is not a number of GPUs from 1 up'
}
