# Growing, being preempted and ending under the settings that sites choose. Each test is a box with settings that have nothing to do
# with each other, and in it the two tests of grow.bats and preempt.bats that go through all of that in the least time.
# box: none
# beside
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
    bats --tap --timing --filter 'typed at the shell|planner dead' tests/cluster/grow.bats tests/cluster/preempt.bats
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(grep -c '^ok ' <<< "$output")" -eq 2 ]
}

# bats test_tags=long:5
@test "grow, preemption and end with WaitTime=5 and KillWait=60" { under WaitTime=5 KillWait=60; }
# bats test_tags=long:1
@test "grow, preemption and end with memory as a consumable resource and TaskPlugin=task/affinity" {
  under SelectTypeParameters=CR_Core_Memory DefMemPerCPU=500 TaskPlugin=task/affinity
}
# bats test_tags=long:3
@test "grow, preemption and end with SchedulerParameters=defer" { under SchedulerParameters=defer; }
# bats test_tags=long:6
@test "grow, preemption and end with SchedulerParameters=bf_interval=2" { under SchedulerParameters=bf_interval=2; }
@test "grow, preemption and end where users see no nodes" { under PrivateData=nodes,usage; }
@test "grow, preemption and end with ProctrackType=proctrack/cgroup" {
  # srun's exit status does not tell that a step could not be launched.
  [ "$(timeout 60 tests/cluster/box.sh -p -n 1 -c ProctrackType=proctrack/cgroup timeout 20 srun echo works)" = works ] ||
    skip "slurmd cannot create cgroups on this machine"
  under ProctrackType=proctrack/cgroup
}
