# The launcher of a movable job is lost with its node: keepers hold the state, and the launcher that Slurm starts when it has requeued
# the job goes on with it.
# The launchers run on n3, n4 and n5, and the base on n1, or n2: types=h100.
# box: -n 5 -y a100 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 200
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  comes_back n3
  comes_back n4
  sed -i '/launch.adoption_minutes/d' /etc/espalier/espalier.toml
  clean_slate
}

bases_of() { squeue -h -n "base-$1" -t PENDING,RUNNING -o %i 2>/dev/null; }
no_bases() { [ -z "$(bases_of "$A")" ]; }
trains_nowhere() { ! pgrep -u boxuser -x espalier-train; }
node_of() { squeue -h -o %N -j "$1"; }
said() { grep -q "$1" "$BOX/home/A.out"; }
now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
generation_of() { local generation; generation=$(metric A generation); echo "${generation:-0}"; }
in_generation_after() { [ "$(generation_of)" -gt "$1" ]; }
# A step that was lost is done twice.
no_step_lost() { local twice; twice=$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort | uniq -d); [ -z "$twice" ] || { echo "twice: $twice"; return 1; }; }

movable() { # [RANGE [STEPS]]: A, whose launcher runs on n3; it trains
  rm -f "$BOX"/home/A.*
  A=$(elastic A "${1:-2:2},movable,types=h100" -n1 --mem=500 -x n1,n2 --open-mode=append -- "${tiny[@]}" --steps "${2:-1000000}")
  wait_for 120 "A trains" stepped_past A 10
  base=$(bases_of "$A")
  [ "$(node_of "$A")" = n3 ]
}
# The power of a node goes: the launcher's, with the launcher, srun, and all of Slurm there.
goes_off() { # NODE
  ip link set "v${1#n}" down
  local pids
  pids=$(ip netns pids "$1")
  [ -z "$pids" ] || kill -KILL $pids
}
comes_back() { # NODE
  ip link set "v${1#n}" up
  ip netns exec "$1" ip route del blackhole "$(controller)" 2>/dev/null || true
  kill -0 "$(cat "$BOX/pid/$1")" 2>/dev/null || "$BOX_HERE/node.sh" start "$1"
  scontrol update nodename="$1" state=resume 2>/dev/null || true
}
controller() { getent ahostsv4 ctl | awk '{print $1; exit}'; }
# Slurm takes a node for lost, and requeues A, which then waits for two minutes.
taken_for_lost() { # NODE
  scontrol update nodename="$1" state=down reason=test
  wait_for 30 "A waits to run again" job_is "$A" PENDING
}
runs_again() { # NODE; without the two minutes
  scontrol update jobid="$A" StartTime=now
  wait_for 60 "A runs again" job_is "$A" RUNNING
  [ "$(node_of "$A")" = "$1" ]
}
goes_on_from_kept_state() { # GENERATION before
  local start
  start=$(now_ms)
  wait_for 60 "A trains in a generation after $1" in_generation_after "$1"
  echo "# $BATS_TEST_DESCRIPTION: $(($(now_ms) - start)) ms from the start of the requeued job to the next step" >&3
  wait_for 60 "it is told" said 'Slurm has requeued the job; training went on with the state it left behind'
  grep 'training went on' "$BOX/home/A.out" | tail -n 1 | sed 's/^/# /' >&3
  [ "$(bases_of "$A")" = "$base" ]
  no_step_lost
}

@test "the node of the launcher is lost: the requeued job goes on from kept state, also with its extension" {
  movable 2:4
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  held_at_rest
  local extension before
  extension=$(extensions_of "$A")
  [ -n "$extension" ]
  before=$(generation_of)
  goes_off n3
  taken_for_lost n3
  runs_again n4
  goes_on_from_kept_state "$before"
  [ "$(extensions_of "$A")" = "$extension" ]
  runs_on A 4
  goes_on_well 40
  no_step_lost
}

# bats test_tags=long:2
@test "a second loss, of the launcher that has taken over" {
  movable
  held_at_rest
  local before
  before=$(generation_of)
  goes_off n3
  taken_for_lost n3
  runs_again n4
  goes_on_from_kept_state "$before"
  before=$(generation_of)
  goes_off n4
  taken_for_lost n4
  runs_again n5
  goes_on_from_kept_state "$before"
  goes_on_well 40
}

# The old launcher reaches its keepers and ranks, and knows of nothing.
# bats test_tags=long:4
@test "a launcher that is cut off from Slurm only: the next one takes its ranks away, and no GPU is trained on twice" {
  movable
  held_at_rest
  local old before
  before=$(generation_of)
  ip netns exec n3 ip route add blackhole "$(controller)"
  taken_for_lost n3
  stepped_past A $(($(step_of A) - 1))
  old=$(launcher_pid)
  runs_again n4
  goes_on_from_kept_state "$before"
  kill -0 "$old"
  wait_for 60 "A does 60 more steps" stepped_past A $(($(step_of A) + 60))
  no_step_lost
  [ "$(bases_of "$A")" = "$base" ]
  goes_off n3
  goes_on_well 40
}

# The old launcher asks Slurm, and hears that the job has been requeued.
# bats test_tags=long:1
@test "slurmd alone is lost on the launcher's node: the launcher leaves base and extension to the next one" {
  movable 2:4
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  held_at_rest
  local extension old before
  extension=$(extensions_of "$A")
  [ -n "$extension" ]
  before=$(generation_of)
  old=$(launcher_pid)
  "$BOX_HERE/node.sh" kill n3
  taken_for_lost n3
  wait_for 60 "the old launcher has ended" refute kill -0 "$old"
  [ "$(extensions_of "$A")" = "$extension" ]
  [ "$(bases_of "$A")" = "$base" ]
  runs_again n4
  goes_on_from_kept_state "$before"
  [ "$(extensions_of "$A")" = "$extension" ]
  runs_on A 4
  goes_on_well 40
  no_step_lost
}

# bats test_tags=long:1
@test "scancel of a job that waits to run again ends its base in time, without a planner" {
  movable
  "$BOX_HERE/planner.sh" kill
  goes_off n3
  taken_for_lost n3
  [ "$(bases_of "$A")" = "$base" ]
  local moment
  moment=$(now_us)
  as_user scancel "$A"
  within 15 "$moment" "the base has ended" no_bases # ten missed heartbeats, then a question to Slurm
  within 15 "$moment" "nothing trains" trains_nowhere
  # The last word of its steps is for an srun on n3, which slurmstepd cannot reach.
  leaves_nothing 60
}

# bats test_tags=long:3
@test "a base is held for launch.adoption_minutes; then the requeued job starts on a new one" {
  echo 'launch.adoption_minutes = 0.2' >> /etc/espalier/espalier.toml
  movable
  goes_off n3
  taken_for_lost n3
  [ "$(bases_of "$A")" = "$base" ]
  wait_for 60 "the base is gone" no_bases
  runs_again n4
  wait_for 60 "there is a new base" eval '[ -n "$(bases_of "$A")" ]'
  [ "$(bases_of "$A")" != "$base" ]
  as_user scancel "$A"
  leaves_nothing 60
}

# bats test_tags=long:6
@test "the launcher of a training on a smaller base is lost: the next one takes the smaller base over, and the base that waits keeps its place" {
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2 --mem=100)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4 --mem=100)
  plain beside -N1 -n1 -w n3 --gres=gpu:4 --mem=100 --no-requeue # on the launcher's node, which is lost
  wait_for 30 "they run" eval '[ "$(squeue -h -t RUNNING | wc -l)" = 3 ]'
  rm -f "$BOX"/home/A.*
  A=$(elastic A "1:4,movable,base=4,types=h100" -n1 --mem=500 -x n1,n2 --open-mode=append -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  small=$(squeue -h -n "base-$A" -t RUNNING -o %i)
  first=$(squeue -h -n "base-$A" -t PENDING -o %i)
  [ "$(node_of "$small")" = n1 ]
  [ -n "$first" ]
  generation=$(generation_of)
  goes_off n3
  taken_for_lost n3
  runs_again n4
  wait_for 60 "A trains in a generation after $generation" in_generation_after "$generation"
  wait_for 60 "it is told" said 'Slurm has requeued the job; training went on with the state it left behind'
  [[ $(metric A plan) == *n1/* ]]
  said "base $first, which an earlier launcher of job $A has submitted, waits on"
  [ "$(squeue -h -n "base-$A" -t PENDING -o %i)" = "$first" ]
  finish far
  wait_for 120 "A runs on n2 alone" eval '[[ $(metric A plan) == *n2/* && $(metric A plan) != *n1/* ]]'
  wait_for 90 "the smaller base is gone" eval '[ "$(bases_of "$A")" = "$first" ]'
  no_step_lost
  finish near
  goes_on_well 60
}

# A, whose base waits for the GPUs of n1 to n3; its launcher runs on n3.
waits_for_base() { # [SBATCH-OPTION...]
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:4 --mem=100)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4 --mem=100)
  plain beside -N1 -n1 -w n3 --gres=gpu:4 --mem=100 --no-requeue # on the launcher's node, which may be lost
  wait_for 30 "they run" eval '[ "$(squeue -h -t RUNNING | wc -l)" = 3 ]'
  rm -f "$BOX"/home/A.*
  A=$(elastic A 2:2,movable,types=h100 -n1 --mem=500 -x n1,n2 -t 60 --open-mode=append "$@" -- "${tiny[@]}" --steps 1000000)
  wait_for 60 "the base waits" eval 'base=$(squeue -h -n "base-$A" -t PENDING -o %i) && [ -n "$base" ]'
  [ "$(node_of "$A")" = n3 ]
  age=$(submitted_at "$base")
}
submitted_at() { scontrol show job "$1" | sed -nE 's/.*SubmitTime=([^ ]*) .*/\1/p'; }
same_base_waits() { [ "$(bases_of "$A")" = "$base" ] && [ "$(submitted_at "$base")" = "$age" ]; }

# bats test_tags=long:5
@test "the node of a launcher whose base waits is lost: the base keeps its place, and the requeued job starts on it" {
  waits_for_base
  goes_off n3
  taken_for_lost n3
  same_base_waits
  runs_again n4
  wait_for 30 "its launcher has found it" said "base $base, which an earlier launcher of job $A has submitted, waits on"
  same_base_waits
  finish near
  wait_for 120 "A trains" stepped_past A 10
  same_base_waits
  [ "$(node_of "$base")" = n1 ]
  finish far
  goes_on_well 40
}

@test "scontrol requeue of a job whose base waits: the base keeps its place" {
  waits_for_base
  as_user scontrol requeue "$A"
  wait_for 30 "A waits to run again" job_is "$A" PENDING
  same_base_waits
  sleep 2 # slurmd refuses credentials that were made in the second of the requeue, and Slurm then ends the job
  # While it is completing it takes no new time.
  wait_for 30 "A may run again" scontrol update jobid="$A" StartTime=now
  wait_for 60 "its launcher has found it" said "base $base, which an earlier launcher of job $A has submitted, waits on"
  same_base_waits
  finish near
  wait_for 120 "A trains" stepped_past A 10
  same_base_waits
  finish far
  finish beside
  goes_on_well 40
}

# bats test_tags=long:2
@test "a base that waits for something else than the requeued job wants is submitted again" {
  waits_for_base
  goes_off n3
  taken_for_lost n3
  scontrol hold "$base"
  scontrol update jobid="$base" ExcNodeList=n1 # it could have a100 GPUs then, which types= leaves out
  runs_again n4
  wait_for 60 "there is a new base" eval '[ -n "$(bases_of "$A")" ] && [[ "$(bases_of "$A")" != *"$base"* ]]'
  as_user scancel "$A"
  finish near
  finish far
  leaves_nothing 60
}
