# Growing and being preempted under the settings that sites choose. Each test is a box with that setting, and in it the tests of
# grow.bats and preempt.bats that matter.
# box: none
# limit: 2400
# each: 400

cd "$BATS_TEST_DIRNAME/../.."
planner=(-e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"')

under() { # LINE...: of slurm.conf
  local options=() line
  for line; do options+=(-c "$line"); done
  # bats puts its own folder in front, where another `bats` does not find itself.
  run env -i PATH="$(tr : '\n' <<< "$PATH" | grep -v bats-core | paste -sd:)" HOME="$HOME" BUILD="$BUILD" TORCH_HOME="${TORCH_HOME:-}" BATS_TEST_TIMEOUT=180 \
    timeout 390 tests/cluster/box.sh -n 2 "${planner[@]}" "${options[@]}" \
    bats --tap --filter 'fall idle|planner dead' tests/cluster/grow.bats tests/cluster/preempt.bats
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(grep -c '^ok ' <<< "$output")" -eq 2 ]
}

@test "grow and preemption with WaitTime=5" { under WaitTime=5; }
@test "grow and preemption with memory as a consumable resource" {
  under SelectTypeParameters=CR_Core_Memory DefMemPerCPU=500
}
@test "grow and preemption with SchedulerParameters=defer" { under SchedulerParameters=defer; }
@test "grow and preemption with SchedulerParameters=bf_interval=2" { under SchedulerParameters=bf_interval=2; }
@test "grow and preemption with KillWait=60" { under KillWait=60; }
@test "grow and preemption with TaskPlugin=task/affinity" { under TaskPlugin=task/affinity; }
@test "grow and preemption with ProctrackType=proctrack/cgroup" {
  # srun's exit status does not tell that a step could not be launched.
  [ "$(timeout 60 tests/cluster/box.sh -p -n 1 -c ProctrackType=proctrack/cgroup timeout 20 srun echo works)" = works ] ||
    skip "slurmd cannot create cgroups on this machine"
  under ProctrackType=proctrack/cgroup
}
