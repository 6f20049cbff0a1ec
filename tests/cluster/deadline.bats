# deadline= before generation 0: admitted, refused, unchecked; and what explain says of the objective.
# box: -n 2 -e 'objective.kind = "deadline"' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 400
# beside

setup() {
  . "$BOX_HERE/training.bash"
  # Paced, so that a step takes a tenth of a second whoever else uses this machine's cores.
  paced=("${tiny[@]}" --set device.gflops=0.5 --set metrics.progress_every=0)
}
teardown() { clean_slate; }

in_time() { date -d "+$1" +%Y-%m-%dT%H:%M:%S; } # SPAN, as "2 hours"
with_deadline() { # NAME SPAN STEPS: on two GPUs of n1
  rm -f "$BOX/home/$1."*
  elastic "$1" "2:8,deadline=$(in_time "$2")" -N1 -n1 -w n1 --gres=gpu:2 -- "${paced[@]}" --steps "$3"
}
said() { grep -q -- "$2" "$BOX/home/$1.out"; } # NAME TEXT
# A profile may tell a pause alone, of a job that grew before it was measured.
measured() { espalier show profiles --json | python3 -c 'import json, sys; sys.exit(not any(p["measurements"] > 0 for p in json.load(sys.stdin)["profiles"]))'; }
trained() { [ -e "$BOX/home/$1.jsonl" ]; }

@test "a deadline is admitted by data sheets, then by measurement, refused when no GPUs can keep it, and explained" {
  local late alike
  A=$(with_deadline A "2 hours" 1000000)
  wait_for 60 "A is told what the data sheets say of its deadline" said A 'deadline .*: .*(by the GPUs. data sheets alone; nothing is measured yet)'
  wait_for 60 "explain tells of the objective" eval 'as_user espalier explain "$A" | grep -q "deadline: .* left at its present speed, .* to its deadline"'
  as_user espalier explain "$A" | tee "$BOX/log/explain"
  grep -q 'Objective=.* to its deadline: .* on its 2 GPUs.*, by the GPUs. data sheets' "$BOX/log/explain"
  scancel "$A"
  wait_for 60 "A ends" job_over "$A"

  # On eight GPUs of a loaded machine A may never be calm enough to be measured.
  alike=$(elastic alike 2:2 -N1 -n1 -w n1 --gres=gpu:2 -- "${paced[@]}" --steps 1000000)
  wait_for 250 "a job like it is measured" measured
  scancel "$alike"
  wait_for 60 "it ends" job_over "$alike"

  late=$(with_deadline late "3 minutes" 1000000)
  wait_for 60 "late ends" job_over "$late"
  cat "$BOX/home/late.out"
  [ "$(exit_code "$late")" = 1:0 ]
  said late 'deadline .*: refused: .* too late even on the most GPUs that help: predicted end .* on its 2 GPUs.*(by what a job like it measured); give a later deadline'
  refute said late 'generation 0 starts on'
  refute trained late

  A=$(with_deadline A "2 hours" 40)
  wait_for 60 "A is admitted" said A 'deadline .*: admitted: predicted end .* on its 2 GPUs.*(by what a job like it measured)'
  wait_for 200 "A ends" job_over "$A"
  [ "$(exit_code "$A")" = 0:0 ]
}

@test "without a planner a deadline is not checked, and the job trains" {
  "$BOX_HERE/planner.sh" kill
  A=$(with_deadline A "2 hours" 20)
  wait_for 120 "A trains" stepped_past A 5
  said A 'deadline .*: could not be checked: .*; the job goes on'
  wait_for 200 "A ends" job_over "$A"
  [ "$(exit_code "$A")" = 0:0 ]
  "$BOX_HERE/planner.sh" start
}

# bats test_tags=long:1
@test "a job that its time limit ends has written a checkpoint shortly before: submitted again, it goes on from there" {
  local kept=$BOX/home/kept-at-the-limit ended
  as_user rm -rf "$kept"
  rm -f "$BOX"/home/{limited,again}.*
  paced+=(--set "checkpoint.directory=$kept" --set checkpoint.every=0 --set checkpoint.minutes=30)
  limited=$(elastic limited 2:2 -t 1 -N1 -n1 -w n1 --gres=gpu:2 -- "${paced[@]}" --steps 1000000)
  wait_for 200 "its time limit ends it" job_over "$limited"
  cat "$BOX/home/limited.out"
  [ "$(grep -c "the job's time limit ends it in [0-9]* s: a checkpoint is asked for" "$BOX/home/limited.out")" -eq 1 ]
  ended=$(step_of limited)
  again=$(elastic again 2:2 -N1 -n1 -w n1 --gres=gpu:2 -- "${paced[@]}" --steps 1000000)
  wait_for 60 "it goes on from that checkpoint" said again 'resumes after step [0-9]*'
  # Slurm looks at time limits every 30 s, so that a job of a minute may train half as long again.
  [ "$(sed -n 's/.*resumes after step \([0-9]*\).*/\1/p' "$BOX/home/again.out" | head -n 1)" -gt $((ended / 3)) ]
  scancel "$again"
  wait_for 60 "it ends" job_over "$again"
}
