# Several bases at once: two movable jobs whose moves overlap, and a move while Slurm grants another job's base.
# At a least gain of 1.2 no job gets another plan on the GPUs that it has, for which a move would wait.
# box: -n 4 -e 'planner.least_gain = 1.2' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 600
# each: 240
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

bases_of() { squeue -h -n "base-$1" -t "${2:-PENDING,RUNNING}" -o %i 2>/dev/null; }
nodes_of() { squeue -h -o %N -j "$1"; }
# No GPU is in two jobs: by node, the indices that Slurm says its running jobs have.
no_gpu_twice() {
  local twice
  twice=$(scontrol show -d job | awk '/JobState=/ {runs = /JobState=RUNNING/} runs && /^ *Nodes=.*IDX/ {print $1, $NF}' |
    sed -E 's/Nodes=([^ ]*) .*IDX:([^)]*)\).*/\1 \2/' | sort | uniq -d)
  [ -z "$twice" ] || { echo "twice: $twice"; return 1; }
}
no_step_twice() { local twice; twice=$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/$1.jsonl" | sort | uniq -d); [ -z "$twice" ] || { echo "$1 twice: $twice"; return 1; }; }
# NAME: a movable job of four GPUs, all of a node.
movable() { elastic "$1" 4:4,movable -n1 --mem=200 -- "${tiny[@]}" --steps 1000000; }
trains_only_on() { local plan; plan=$(metric "$1" plan); [[ $plan == *"$2/"* ]] && [ "$(grep -o ' n[1-4]/' <<< "$plan" | sort -u | wc -l)" = 1 ]; } # NAME NODE
is_at_rest() { [ "$(sed -n 's/.*--> \([a-z]*\)$/\1/p' "$BOX/home/$1.out" | tail -n 1)" = running ] && [ "$(bases_of "${!1}" | wc -l)" = 1 ]; } # NAME
said() { grep -q -- "$2" "$BOX/home/$1.out"; } # NAME TEXT
both_end_well() {
  wait_for 60 "B does 20 more steps" stepped_past B $(($(step_of B) + 20))
  same_losses B
  as_user scancel "$B"
  goes_on_well 40
}

@test "two movable jobs move at once: their four bases are held together, and neither loses a step" {
  A=$(movable A)
  B=$(movable B)
  wait_for 120 "both train" eval 'stepped_past A 10 && stepped_past B 10'
  a=$(nodes_of "$(bases_of "$A")") b=$(nodes_of "$(bases_of "$B")")
  [ "$a" != "$b" ]
  read -r c d <<< "$(printf 'n%s\n' 1 2 3 4 | grep -vx -e "$a" -e "$b" | xargs)"
  wait_for 60 "both are at rest" eval 'is_at_rest A && is_at_rest B'
  wait_for 60 "both are asked to move" eval 'espalier migrate "$A" --nodes "$c"'
  wait_for 60 "both are asked to move" eval 'espalier migrate "$B" --nodes "$d"'
  wait_for 30 "four bases run" eval '[ "$({ bases_of "$A" RUNNING; bases_of "$B" RUNNING; } | wc -l)" = 4 ]'
  no_gpu_twice
  wait_for 120 "A runs on its second base alone" trains_only_on A "$c"
  wait_for 120 "B runs on its second base alone" trains_only_on B "$d"
  no_gpu_twice
  wait_for 120 "both are at rest" eval 'is_at_rest A && is_at_rest B'
  [ "$(nodes_of "$(bases_of "$A")") $(nodes_of "$(bases_of "$B")")" = "$c $d" ]
  no_step_twice A
  no_step_twice B
  both_end_well
}

# bats test_tags=long:2
@test "two movable jobs that both want the same idle GPUs: one moves there, the other one stays, and neither loses a step" {
  far=$(plain far -N1 -n1 -w n4 --gres=gpu:4 --mem=100)
  A=$(movable A)
  B=$(movable B)
  wait_for 120 "both train" eval 'stepped_past A 10 && stepped_past B 10'
  free=$(printf 'n%s\n' 1 2 3 | grep -vx -e "$(nodes_of "$(bases_of "$A")")" -e "$(nodes_of "$(bases_of "$B")")")
  b=$(nodes_of "$(bases_of "$B")")
  wait_for 60 "A is asked to move" eval 'espalier migrate "$A" --nodes "$free"'
  run espalier migrate "$B" --nodes "$free"
  echo "$output"
  wait_for 120 "A runs on its second base alone" trains_only_on A "$free"
  no_gpu_twice
  wait_for 120 "both are at rest" eval 'is_at_rest A && is_at_rest B'
  [ "$(nodes_of "$(bases_of "$B")")" = "$b" ]
  no_step_twice A
  no_step_twice B
  both_end_well
}

# bats test_tags=long:5
@test "a job moves while Slurm grants the base of another one: each has the GPUs that it was given" {
  filler=$(plain filler -N1 -n1 -w n4 --gres=gpu:4 --mem=100)
  A=$(movable A)
  wait_for 120 "A trains" stepped_past A 10
  a=$(nodes_of "$(bases_of "$A")")
  free=$(printf 'n%s\n' 1 2 3 | grep -vx -e "$a" | head -n 1)
  wait_for 60 "A is asked to move" eval 'espalier migrate "$A" --nodes "$free"'
  wait_for 30 "A's second base is there" eval '[ "$(bases_of "$A" | wc -l)" = 2 ]'
  B=$(movable B)
  wait_for 120 "B trains" stepped_past B 10
  no_gpu_twice
  wait_for 120 "both are at rest" eval 'is_at_rest A && is_at_rest B'
  grep -- '--> \|given up\|withdrawn' "$BOX/home/A.out" | sed 's/^/# /' >&3
  trains_only_on A "$free"
  no_step_twice A
  no_step_twice B
  finish filler
  both_end_well
}
