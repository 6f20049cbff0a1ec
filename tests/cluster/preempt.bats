# Slurm's preemption: the first thing that must not hurt. An extension's processes get SIGTERM and GraceTime; the job trains on,
# shrinks in time and loses nothing; the preemptor starts long before the grace is over.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 1200
# each: 300

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  scheduler
  scontrol update PartitionName=elastic GraceTime=30
  sed -i '/launch.spares/d' /etc/espalier/espalier.toml
  clean_slate
}

scheduler() { # [SchedulerParameters]
  sed -i '/^SchedulerParameters/d' "$SLURM_CONF"
  [ -z "${1:-}" ] || echo "SchedulerParameters=$1" >> "$SLURM_CONF"
  scontrol reconfigure
}
# Of the last change that was committed. Others may have begun since.
old_one_gone() { awk '/--> committed$/ { gone = 0 } /--old_gone--> / { gone = 1 } END { exit !gone }' "$BOX/home/A.out"; }
preempts_and_starts() { # after grown_cast
  local urgent
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 25 "the urgent job starts, within the grace of 30 s" job_is "$urgent" RUNNING
  wait_for 60 "A runs on n1's GPUs only" runs_on A 4
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  # Ranks that are left alone in MPI_Finalize end after two seconds.
  wait_for 20 "the old generation is gone" old_one_gone
  refute grep -q 'training went on' "$BOX/home/A.out" # it shrank in time, and did not heal after a loss
  [ "$(grep -c 'Process received signal' "$BOX/home/A.out")" -eq 0 ]
  finish urgent
}

@test "with the planner dead, a preempted job shrinks by itself within the grace and loses no step" {
  grown_cast
  "$BOX_HERE/planner.sh" kill
  preempts_and_starts
  goes_on_well
}

@test "with the planner alive, a job that needs the GPUs gets them, and the training loses no step" {
  grown_cast
  preempts_and_starts
  goes_on_well
}

@test "an extension preempted while the job is still growing ends the grow, not the training" {
  cast
  finish far
  catch_phase starting
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 28 "the urgent job starts" job_is "$urgent" RUNNING
  finish urgent
  goes_on_well
}

# bats test_tags=long:3
@test "a job that cannot shrink within the grace says so, writes a checkpoint, and goes on from it with the GPUs it keeps" {
  scontrol update PartitionName=elastic GraceTime=1
  install -d -o boxuser -g boxuser "$BOX/home/checkpoints"
  tiny+=(--set "checkpoint.directory=$BOX/home/checkpoints" --set checkpoint.every=0)
  echo 'launch.spares = false' >> /etc/espalier/espalier.toml # with them a fast machine may shrink within a second
  grown_cast
  "$BOX_HERE/planner.sh" kill # it would give the GPUs back before Slurm asks
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 100 "the urgent job starts, when slurmctld has looked at its timers" job_is "$urgent" RUNNING
  grep -Eq 'a smaller generation would take [0-9.]+ s, and Slurm takes the GPUs in [0-9.-]+ s: a checkpoint' "$BOX/home/A.out"
  wait_for 60 "A runs on n1's GPUs only" runs_on A 4
  wait_for 60 "it is told" grep -Eq 'training went on with (the state it left behind|the newest checkpoint)' "$BOX/home/A.out"
  [ -n "$(ls "$BOX/home/checkpoints")" ]
  finish urgent
  goes_on_well
}

# No change of the job is under way: it may have started wide, or have grown.
settled() { grep -- '--> ' "$BOX/home/$1.out" | tail -n 1 | grep -q -- '--> running'; }
asked_to_give_back() { grep -c 'waits for GPUs that extensions hold' "$BOX/log/espalierd.log" || true; }

# bats test_tags=long:1
@test "where Slurm makes room for a new job, the planner asks no second job to" {
  local before urgent
  scheduler defer,batch_sched_delay=1 # the planner could be earlier than Slurm
  before=$(asked_to_give_back)
  plain rest1 -N1 -n1 -w n1 --gres=gpu:2
  plain rest2 -N1 -n1 -w n2 --gres=gpu:2
  for name in A B; do
    elastic "$name" 1:2 -N1 -n1 -w "$([ "$name" = A ] && echo n1 || echo n2)" --gres=gpu:1 -- "${tiny[@]}" --steps 1000000
  done
  for name in A B; do wait_for 120 "$name runs on 2 GPUs" runs_on "$name" 2; done
  for name in A B; do wait_for 60 "$name could give back" settled "$name"; done
  urgent=$(plain urgent -N1 -n1 --gres=gpu:1)
  wait_for 30 "the urgent job starts" job_is "$urgent" RUNNING
  wait_for 30 "a job runs on 1 GPU" eval 'runs_on A 1 || runs_on B 1'
  for name in A B; do wait_for 60 "$name does 20 more steps" stepped_past "$name" $(($(step_of "$name") + 20)); done
  [ "$(asked_to_give_back)" = "$before" ]
}
