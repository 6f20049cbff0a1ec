#!/bin/bash
# newcomer.sh FOLDER NODES: inside a box of plain Slurm (tests/cluster/box.sh -p), in a root where the packages are installed: the steps
# of etc/newcomer.md, each as it is written there. What an administrator does by hand is done by apply_plan.py and by the functions
# below, since no systemd runs here. At `upgrade` the caller installs the newer packages: the file FOLDER/upgrade asks for it.
# Ends with status 0 when each step did what the page says.
set -euo pipefail
. "$BOX_HERE/jobs.bash"
folder=$1 nodes=$2 here=$(cd "$(dirname "$0")" && pwd)
step() { printf 'step: %s\n' "$*"; }
restart_slurm() {
  local pid node
  pid=$(cat "$BOX/pid/slurmctld")
  kill "$pid"
  wait_for 60 "slurmctld ends" eval "[ ! -d /proc/$pid ]"
  slurmctld
  wait_for 60 "slurmctld answers" sinfo -h
  for ((node = 1; node <= nodes; node++)); do
    pid=$(cat "$BOX/pid/n$node")
    kill "$pid"
    wait_for 60 "slurmd of n$node ends" eval "[ ! -d /proc/$pid ]"
    "$BOX_HERE/node.sh" start "n$node"
  done
  wait_for 60 "the nodes are idle" eval '[ "$(sinfo -h -t idle -p main -o %D)" = '"$nodes"' ]'
}
planner=''
start_planner() { # OPTION...: as espalierd.service does
  setpriv --reuid "$BOX_SLURM_USER" --regid "$BOX_SLURM_USER" --clear-groups espalierd --foreground "$@" >> "$BOX/log/espalierd.log" 2>&1 &
  planner=$!
  wait_for 60 "espalierd answers" espalier ping
}
stop_planner() { kill "$planner"; wait "$planner" || true; }
doctor_runs() { as_user espalier doctor --run > "$folder/run"; } # its exit status
verdict() { sed -n "s/^\([a-z]*\) *$1 .*/\1/p" "$folder/run"; }

step "the site before Espalier: its partition, no preemption, no plugin"
sed -i '/^PartitionName=elastic/d; /^Preempt/d; /^JobSubmitPlugins/d; s/^\(PartitionName=main .*\) PriorityTier=10 PreemptMode=OFF/\1/' "$SLURM_CONF"
cp "$SLURM_CONF" "$folder/slurm.conf.before"
cp "$BOX/slurm/plugstack.conf" "$folder/plugstack.conf.before"
restart_slurm
as_user srun -N1 -n1 --gres=gpu:1 true

step "configure"
cp "$folder/espalier.toml" /etc/espalier/espalier.toml # the package's
sed -i 's/^host = "localhost"/host = "ctl"/' /etc/espalier/espalier.toml
for round in 1 2 3; do
  status=0
  espalier doctor --fix-plan > "$folder/plan" || status=$?
  cat "$folder/plan"
  [ "$status" != 0 ] || break
  python3 "$here/apply_plan.py" "$folder/plan"
  restart_slurm
  [ -n "$planner" ] || start_planner --shadow
done
status=0
espalier doctor > "$folder/doctor" || status=$?
cat "$folder/doctor"
[ "$status" = 0 ]
echo "no fault after $((round - 1)) plans"

step "watch: in shadow mode a job runs on what it asked for, and what would have been done is told"
doctor_runs || true
cat "$folder/run"
[ "$(verdict run-start)" = ok ]
[ "$(verdict run-growth)" = skipped ]
espalier show decisions | tee "$folder/decisions"
grep -q shadow "$folder/decisions"
wait_for 60 "the queue is empty" eval '[ -z "$(squeue -h)" ]'

step "switch on"
stop_planner
start_planner
step "first user"
doctor_runs || { cat "$folder/run"; false; }
cat "$folder/run"
[ "$(verdict run-growth)" = ok ]
wait_for 60 "the queue is empty" eval '[ -z "$(squeue -h)" ]'

step "upgrade, while a job trains"
doctor_runs & job=$!
wait_for 60 "it trains" eval '[ -n "$(squeue -h -n espalier-doctor -t RUNNING)" ]'
touch "$folder/upgrade"
wait_for 300 "the newer packages are installed" test -e "$folder/upgraded"
stop_planner
start_planner
restart_slurm_under_jobs() {
  local pid
  pid=$(cat "$BOX/pid/slurmctld")
  kill "$pid"
  wait_for 60 "slurmctld ends" eval "[ ! -d /proc/$pid ]"
  slurmctld
  wait_for 60 "slurmctld answers" sinfo -h
}
restart_slurm_under_jobs
[ -n "$(squeue -h -n espalier-doctor -t RUNNING)" ] # it has trained through all of that
wait "$job" || { cat "$folder/run"; false; }
cat "$folder/run"
[ "$(verdict run-end)" = ok ]
doctor_runs || { cat "$folder/run"; false; } # all of the new version
wait_for 60 "the queue is empty" eval '[ -z "$(squeue -h)" ]'

step "remove"
stop_planner
cp "$folder/slurm.conf.before" "$SLURM_CONF"
cp "$folder/plugstack.conf.before" "$BOX/slurm/plugstack.conf"
restart_slurm
as_user srun -N1 -n1 --gres=gpu:1 true
touch "$folder/remove"
wait_for 120 "the packages are purged" test -e "$folder/purged"
as_user srun -N1 -n1 --gres=gpu:1 true # Slurm runs on without them
assert_nothing_left
