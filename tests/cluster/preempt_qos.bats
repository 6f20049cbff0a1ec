# Preemption by QOS, with real accounting: QOS "normal" may preempt the extensions' QOS "lent", QOS "low" may not.
# Where a test says nothing else, the partition of extensions has a lower PriorityTier, too.
# box: -n 2 -c PreemptType=preempt/qos -c KillWait=100 -a 'add qos lent set GraceTime=100 UsageFactor=0' -a 'add qos low' -a 'add qos pool' -a 'modify qos normal set Preempt=lent' -a 'modify user boxuser set QOS+=lent,low' -e 'extensions.qos = "lent"' -e 'extensions.kill_wait_seconds = 100' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'launch.start_seconds = 120' -e 'planner.log_level = "debug"'
# limit: 1500
# each: 400
# beside

setup_file() {
  . "$BOX_HERE/training.bash"
  reference
  scontrol update PartitionName=main DenyQos=lent # jobs of users are charged there
  cp /etc/espalier/espalier.toml "$BOX/share/as_it_was.toml"
}
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  scontrol update PartitionName=elastic PriorityTier=1 PreemptMode=CANCEL
  sacctmgr -i modify account physics set GrpTRES=gres/gpu=-1 > /dev/null || true
  for partition in main elastic; do scontrol update PartitionName=$partition QOS=; done
  if ! cmp -s "$BOX/share/as_it_was.toml" /etc/espalier/espalier.toml; then
    cp "$BOX/share/as_it_was.toml" /etc/espalier/espalier.toml
    again
  fi
  clean_slate
}

again() { "$BOX_HERE/planner.sh" stop || true; "$BOX_HERE/planner.sh" start; } # espalierd
logged() { grep -q -- "$1" "$BOX/log/espalierd.log"; }
explained() { espalier explain "$A" | grep -q -- "$1"; }
waits_for_qos() { [[ $(squeue -h -j "$1" -o %r) == QOSGrp* ]]; }
qos_of() { squeue -h -j "$1" -o %q; }

# The planner is dead: it is Slurm that takes the GPUs back.
urgent_preempts() {
  "$BOX_HERE/planner.sh" kill
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 98 "the urgent job starts, within the grace of 100 s" job_is "$urgent" RUNNING
  wait_for 120 "A runs on n1's GPUs only" runs_on A 4
  grep -q 'Slurm takes back extension' "$BOX/home/A.out"
  finish urgent
}

@test "preemption by QOS and by partition: grow, preempt, end; espalierd says what it found, and the doctor agrees" {
  wait_for 30 "espalierd says what it found" logged 'Slurm preempts by QOS (PreemptType=preempt/qos): QOS normal may take extensions (QOS lent) back'
  refute logged 'no GPU is lent'
  { espalier doctor --json || true; } | python3 -c '
import json, sys
found = {one["name"]: one for one in json.load(sys.stdin)["checks"]}
for check in ("preempt-type", "extension-qos", "grace-time", "preempt-mode", "priority-tier"):
    assert found[check]["verdict"] == "ok", found[check]
assert "UsageFactor=0" in found["extension-qos"]["found"], found["extension-qos"]'
  grown_cast
  for id in $(extensions_of "$A"); do [ "$(qos_of "$id")" = lent ]; done
  [ "$(qos_of "$A")" = normal ]
  urgent_preempts
  goes_on_well
}

@test "preemption by QOS alone: the partitions' tiers and modes are the same" {
  scontrol update PartitionName=elastic PriorityTier=10 PreemptMode=OFF
  grown_cast
  urgent_preempts
  goes_on_well
}

@test "GPUs that a job waits for whose QOS may not preempt extensions are lent to nobody" {
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  low=$(plain low -N1 -n1 -w n1 --gres=gpu:4 --qos=low) # n1 alone
  A=$(elastic A 2:8 -N1 -n1 -w n2 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  wait_for 20 "explain says so" explained 'its extensions cannot be on n1: a job of QOS low, which may not preempt extensions, waits for these'
  finish near
  wait_for 60 "the job of QOS low starts" job_is "$low" RUNNING
  finish low
  grows_to_eight 300
  # Slurm would not take them back for this one. The planner does.
  low=$(plain low2 -N1 -n1 -w n1 --gres=gpu:4 --qos=low)
  wait_for 60 "the planner gives n1 back" job_is "$low" RUNNING
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  finish low2
  goes_on_well
}

@test "without a QOS of extensions nothing is lent, and espalierd, explain and the doctor say so" {
  sed -i '/^extensions.qos/d' /etc/espalier/espalier.toml
  again
  wait_for 20 "espalierd says so" logged 'extensions have no QOS of their own, so nothing says who may take them back: no GPU is lent'
  cast
  finish near
  finish far
  wait_for 60 "explain says so" explained 'no GPU is lent; make a QOS that other QOS may preempt, and set qos in \[extensions\]'
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  no_extensions
  espalier doctor --fix-plan > "$BOX/home/plan" || true
  grep -q 'qos = "espalier"' "$BOX/home/plan"
  goes_on_well
}

@test "a job that waits for a limit which extensions use up makes them go, and none comes back meanwhile" {
  sacctmgr -i modify account physics set GrpTRES=gres/gpu=4
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  # Four GPUs are idle, and the account may not use them.
  limited=$(plain limited -N1 -n1 --gres=gpu:2)
  wait_for 120 "A runs on its own GPUs" eval '[ "$(gpus_of A)" -le 2 ]'
  wait_for 30 "espalierd says so" logged "job $limited waits for a limit of the site that extensions use up"
  wait_for 120 "the job that waited for the limit starts" job_is "$limited" RUNNING
  finish limited
  goes_on_well
}

@test "a job that waits for a limit of its partition's QOS makes extensions go that count in it, and no others" {
  sacctmgr -i modify qos pool set GrpTRES=gres/gpu=4 > /dev/null
  for partition in main elastic; do scontrol update PartitionName=$partition QOS=pool; done
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A runs on 4 GPUs, as many as the QOS allows" runs_on A 4
  limited=$(plain limited -N1 -n1 --gres=gpu:2)
  wait_for 30 "Slurm says what it waits for" waits_for_qos "$limited"
  wait_for 120 "A runs on its own GPUs" runs_on A 2
  wait_for 30 "espalierd says so" logged "job $limited waits for a limit of the site that extensions use up"
  wait_for 120 "the job that waited for the limit starts" job_is "$limited" RUNNING
  scontrol update PartitionName=elastic QOS=
  wait_for 120 "A grows again, outside of the limit" runs_on A 4
  second=$(plain second -N1 -n1 --gres=gpu:2)
  wait_for 30 "Slurm says what it waits for" waits_for_qos "$second"
  wait_for 60 "A does 60 more steps" stepped_past A $(($(step_of A) + 60)) # ten looks of the planner
  runs_on A 4
  refute logged "job $second waits for a limit of the site"
  finish limited
  wait_for 60 "it starts when the limit allows it" job_is "$second" RUNNING
  finish second
  goes_on_well
}

# bats test_tags=long:6
@test "a suspended job keeps its GPUs and counts in limits, for Slurm and for the planner" {
  sacctmgr -i modify qos pool set GrpTRES=gres/gpu=4 > /dev/null
  scontrol update PartitionName=main QOS=pool
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  wait_for 30 "near runs" job_is "$near" RUNNING
  scontrol suspend "$near"
  wait_for 30 "near is suspended" job_is "$near" SUSPENDED
  A=$(elastic A 2:8 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  # Six GPUs would train its eight sequences no faster than four. With those of near, too, they would be eight.
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  probe=$(plain probe -N1 -n1 --gres=gpu:2)
  wait_for 30 "Slurm counts the suspended job in the limit" waits_for_qos "$probe"
  wait_for 60 "A does 30 more steps" stepped_past A $(($(step_of A) + 30)) # five looks of the planner
  runs_on A 4
  refute logged "job $probe waits for a limit of the site"
  as_user scancel "$probe"
  scontrol resume "$near"
  finish near
  grows_to_eight 300
  goes_on_well
}
