# Time limits of extensions: espalierd prolongs them while nobody waits for the GPUs.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'extensions.max_lease_minutes = 2' -e 'planner.log_level = "debug"'
# limit: 600
# each: 400
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

limit_of() { squeue -h -o %l -j "$1"; } # "3:00"
minutes_of() { limit_of "$1" | cut -d: -f1; }
age_of() { scontrol show job "$1" | sed -n 's/.*RunTime=\([0-9:]*\) .*/\1/p' | awk -F: '{ print $1 * 3600 + $2 * 60 + $3 }'; }

# bats test_tags=long:3
@test "an extension outlives its time limit while nobody waits, without a change of the training, and goes when a job waits" {
  local extension generation
  scontrol update PartitionName=elastic MaxTime=2 # SlurmUser may exceed it
  cast 2:4
  finish near
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  held_at_rest
  extension=$(extensions_of "$A")
  generation=$(metric A generation)
  [ "$(minutes_of "$extension")" = 2 ]
  wait_for 120 "its limit is prolonged" eval '[ "$(minutes_of "$extension")" -ge 3 ]'
  grep 'nobody waits for n1; its time limit is' "$BOX/log/espalierd.log" | sed 's/^/# /' >&3
  wait_for 200 "it is older than 170 s" eval '[ "$(age_of "$extension")" -gt 170 ]'
  runs_on A 4
  [ "$(extensions_of "$A")" = "$extension" ]
  [ "$(metric A generation)" = "$generation" ]
  # Never more than two minutes are left.
  [ $(($(minutes_of "$extension") * 60 - $(age_of "$extension"))) -le 121 ]
  urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:2)
  wait_for 60 "the urgent job runs" job_is "$urgent" RUNNING
  wait_for 60 "A runs on its own GPUs" runs_on A 2
  finish urgent
  goes_on_well
}
