# What the plugins tell the planner, and that nobody waits for it.
# box: -n 2 -d
# beside
# each: 300
load spank/common

setup_file() {
  load spank/common
  setup_spank
  export FORGE=$BOX/bin/forge
  "${CC:-cc}" -Wall -Wextra -o "$FORGE" -I"$BOX_REPO" "$BATS_TEST_DIRNAME/spank/forge.c" "$BOX_REPO/planner/slurm/job_record.c" -lslurm
}
setup() { start_ear; }
teardown() {
  scancel -u boxuser
  wait_for 20 "the nodes are free" eval '[ -z "$(squeue -h -o %i)" ]'
  stop_ear
  plugstack
}

events() { field_of_all event | grep "^ESP1 $1" || true; }
field_of_all() { tail -n +2 "$BOX/log/ear" | python3 -c 'import json, sys
for line in sys.stdin: print(json.loads(line)[sys.argv[1]])' "$1"; }
milliseconds() { local start=${EPOCHREALTIME/./}; "$@" > /dev/null; echo $(((${EPOCHREALTIME/./} - start) / 1000)); }
sleeper() { as_user sbatch --parsable -o /dev/null "$@" --wrap 'sleep 0.2'; }

# --- gpus_released, from slurmd's epilog -------------------------------------------------------------------------------

@test "the end of a job with GPUs is told once for each node, sealed by munge, as root" {
  job=$(sleeper -N2 --gres=gpu:2)
  wait_for 30 "both nodes report" eval '[ "$(heard gpus_released)" = 2 ]'
  events gpus_released
  [ "$(events gpus_released | sort)" = "ESP1 gpus_released job=$job node=n1 gpus=0,1 exit=0
ESP1 gpus_released job=$job node=n2 gpus=0,1 exit=0" ]
  [ "$(grep gpus_released "$BOX/log/ear" | grep -c '"from": "udp", "uid": 0,')" = 2 ]
}

@test "the GPUs are those that the job held" {
  holder=$(as_user sbatch --parsable -w n1 --gres=gpu:1 -o /dev/null --wrap 'sleep 60')
  wait_for 30 "the holder runs" job_is "$holder" RUNNING
  job=$(sleeper -w n1 --gres=gpu:2)
  wait_for 30 "n1 reports" eval '[ "$(heard "job=$job ")" = 1 ]'
  [ "$(events gpus_released)" = "ESP1 gpus_released job=$job node=n1 gpus=1,2 exit=0" ]
}

@test "a job that fails or is cancelled is told too" {
  job=$(as_user sbatch --parsable --gres=gpu:1 -o /dev/null --wrap 'exit 3')
  wait_for 30 "a node reports" eval '[ "$(heard "job=$job .*exit=3")" = 1 ]'
  job=$(as_user sbatch --parsable --gres=gpu:1 -o /dev/null --wrap 'sleep 60')
  wait_for 30 "the job runs" job_is "$job" RUNNING
  scancel "$job"
  wait_for 30 "a node reports" eval '[ "$(heard "job=$job ")" = 1 ]'
}

@test "a job without GPUs is not told" {
  as_user srun -Q true
  job=$(sleeper --gres=gpu:1)
  wait_for 30 "a node reports" eval '[ "$(heard gpus_released)" = 1 ]'
  [[ $(events gpus_released) == *"job=$job "* ]]
}

@test "a forged job environment changes neither the event nor the option" {
  script=$'#!/bin/sh\nsleep 0.2\n'
  job=$(as_user "$FORGE" "$script" gres:gpu:1 SLURM_JOB_GPUS=0,1,2,3 SPANK_SLURM_JOB_GPUS=7 SLURMD_NODENAME=evil \
    'SLURM_JOB_EXIT_CODE=9 job=1' LD_PRELOAD=/tmp/evil.so)
  wait_for 30 "a node reports" eval '[ "$(heard gpus_released)" = 1 ]'
  [[ $(events gpus_released) == "ESP1 gpus_released job=$job node=n"[12]" gpus=0 exit=0" ]]
  for name in _SLURM_SPANK_OPTION_espalier_elastic SPANK__SLURM_SPANK_OPTION_espalier_elastic; do
    run as_user "$FORGE" "$script" gres:gpu:1 "$name=8:4"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *'espalier: elastic: "8:4": MAX is below MIN'* ]]
  done
  run as_user "$FORGE" "$script" gres:gpu:1 _SLURM_SPANK_OPTION_espalier_elastic=2:4
  [[ $output == *'MIN is 2, but the job requests 1 GPU;'* ]]
}

@test "the comment of an extension does not keep an option from being checked and told" {
  script=$'#!/bin/sh\nsleep 0.2\n'
  export FORGE_COMMENT=espalier:ext:1:0123456789abcdef
  run as_user "$FORGE" "$script" gres:gpu:1 _SLURM_SPANK_OPTION_espalier_elastic=8:4
  echo "$output"
  [ "$status" -eq 1 ]
  [[ $output == *'espalier: elastic: "8:4": MAX is below MIN'* ]]
  run as_user "$FORGE" "$script" gres:gpu:1 _SLURM_SPANK_OPTION_espalier_elastic=2:4
  [[ $output == *'MIN is 2, but the job requests 1 GPU;'* ]]
  [ "$(heard job_submitted)" = 0 ]
  as_user sbatch -Q -H --gres=gpu:1 --elastic=1:4 "--comment=$FORGE_COMMENT" -o /dev/null --wrap true
  wait_for 20 "it is heard" eval '[ "$(heard job_submitted)" = 1 ]'
  [ "$(events job_submitted)" = "ESP1 job_submitted uid=4242 gpus=1 nodes=1 elastic=1" ]
}

@test "an epilog is done at once when the planner's name cannot be resolved or nobody listens" {
  as_user srun -Q --gres=gpu:1 true
  for planner in no-such-host.invalid 10.77.200.1:9 ctl:9; do
    plugstack planner="$planner"
    took=$(milliseconds as_user srun -Q --gres=gpu:1 true)
    wait_for 30 "the node is free" eval '[ -z "$(squeue -h -o %i)" ]'
    echo "$planner: $took ms"
    [ "$took" -lt 8000 ]
  done
  [ "$(sinfo -h -t drain -o %D)" = "" ]
  wait_for 8 "no child of an epilog is left" eval '! pgrep -f "slurmstepd.*spank" '
}

@test "without a planner named nothing is sent" {
  echo "optional $BOX/lib/espalier.so launcher=$BOX/bin/launcher.sh" > "$BOX/slurm/plugstack.conf"
  as_user srun -Q --gres=gpu:1 true
  sleep 0.5
  [ "$(heard gpus_released)" = 0 ]
}

# --- job_submitted, from slurmctld -------------------------------------------------------------------------------------

@test "each submission is told, by slurmctld's user, with its size and whether it is elastic" {
  sleeper -N2 --gres=gpu:2 > /dev/null
  sleeper > /dev/null
  as_user srun -Q --gres=gpu:1 --elastic=1:4 true
  as_user sbatch -Q -H --gpus=3 --comment=espalier:1:4 -o /dev/null --wrap true
  wait_for 20 "all four are heard" eval '[ "$(heard job_submitted)" = 4 ]'
  events job_submitted
  [ "$(events job_submitted)" = "ESP1 job_submitted uid=4242 gpus=4 nodes=2 elastic=0
ESP1 job_submitted uid=4242 gpus=0 nodes=1 elastic=0
ESP1 job_submitted uid=4242 gpus=1 nodes=1 elastic=1
ESP1 job_submitted uid=4242 gpus=3 nodes=1 elastic=1" ]
  [ "$(grep job_submitted "$BOX/log/ear" | grep -c "\"from\": \"local\", \"uid\": $(id -u "$BOX_SLURM_USER")")" = 4 ]
}

@test "refused submissions and the planner's own extensions are not told" {
  run as_user sbatch --elastic=2:8 --wrap true
  as_user sbatch -Q --gres=gpu:1 --comment=espalier:ext:1:abc -o /dev/null --wrap true
  [ -z "$(events job_submitted)" ]
}

@test "slurmctld never waits: planner absent, stopped with its queue full, or socket a plain file" {
  kill -STOP "$(cat "$BOX/pid/ear")"
  took=$(milliseconds eval 'for _ in $(seq 40); do as_user sbatch -Q -H -o /dev/null --wrap true; done')
  echo "queue full: $took ms"
  [ "$took" -lt 60000 ]
  kill -CONT "$(cat "$BOX/pid/ear")"
  stop_ear
  as_user timeout 5 sbatch -Q -H -o /dev/null --wrap true
  touch /run/espalier/events.sock
  as_user timeout 5 sbatch -Q -H -o /dev/null --wrap true
  [ "$(squeue -h -t PD | wc -l)" = 42 ]
  [ "$(grep -ci espalier "$BOX/log/slurmctld.log")" = 0 ]
}

@test "a planner that comes back is told again" {
  as_user sbatch -Q -H -o /dev/null --wrap true
  stop_ear
  as_user sbatch -Q -H -o /dev/null --wrap true
  start_ear
  as_user sbatch -Q -H -o /dev/null --wrap true
  wait_for 20 "the third submission is heard" eval '[ "$(heard job_submitted)" = 1 ]'
}

restart_slurmctld() {
  kill -TERM "$(cat "$BOX/pid/slurmctld")"
  wait_for 30 "slurmctld is gone" eval '! scontrol ping | grep -q UP'
  slurmctld 3>&-
  wait_for 30 "slurmctld is back" eval 'scontrol ping | grep -q UP'
}

@test "submissions go on through scontrol reconfigure and a restart of slurmctld" {
  scontrol reconfigure
  as_user sbatch -Q -H -o /dev/null --wrap true
  wait_for 20 "it is heard" eval '[ "$(heard job_submitted)" = 1 ]'
  restart_slurmctld
  as_user sbatch -Q -H -o /dev/null --wrap true
  wait_for 20 "it is heard" eval '[ "$(heard job_submitted)" = 2 ]'
}

@test "where there is a key for grants, only jobs of the partition for extensions pass for extensions" {
  (umask 077 && printf 'partition=elastic\nkey=%064d\n' 0 > /etc/espalier/grant.key)
  chown "$BOX_SLURM_USER:" /etc/espalier/grant.key
  restart_slurmctld
  sbatch -Q -H -p elastic --gres=gpu:1 --comment=espalier:ext:1:abc -o /dev/null --wrap true # by root, who needs no grant
  as_user sbatch -Q -H --gres=gpu:1 --comment=espalier:ext:1:abc -o /dev/null --wrap true
  wait_for 20 "it is heard" eval '[ "$(heard job_submitted)" = 1 ]'
  [ "$(events job_submitted)" = "ESP1 job_submitted uid=4242 gpus=1 nodes=1 elastic=0" ]
  scancel -u root
  rm /etc/espalier/grant.key
  restart_slurmctld
}

# --- the node's topology, when slurmd starts ---------------------------------------------------------------------------

restart_slurmd() { # NODE
  "$BOX_HERE/node.sh" kill "$1"
  rm -f "$BOX/pid/$1"
  sleep 0.2
  "$BOX_HERE/node.sh" start "$1"
  wait_for 20 "slurmd of $1 runs" test -s "$BOX/pid/$1"
}

@test "slurmd's start runs the reporter once, detached, as root, with the planner's address" {
  printf '#!/bin/sh\n{ id -u; echo "$@"; ls /proc/self/fd | wc -l; ps -o ppid=,sid= -p $$; } > %s/home/report\nsleep 12\n' "$BOX" > "$BOX/bin/report.sh"
  chmod 755 "$BOX/bin/report.sh"
  plugstack report="$BOX/bin/report.sh" planner_user=daemon
  took=$(milliseconds restart_slurmd n2)
  [ "$took" -lt 10000 ]
  wait_for 20 "the reporter ran" eval '[ "$(wc -l < "$BOX/home/report")" = 4 ]'
  cat "$BOX/home/report"
  [ "$(sed -n 1p "$BOX/home/report")" = 0 ]
  [ "$(sed -n 2p "$BOX/home/report")" = "topology --planner [ctl]:7321 --planner-user daemon" ]
  [ "$(sed -n 3p "$BOX/home/report")" -le 4 ]
  [ "$(sed -n 4p "$BOX/home/report" | awk '{ print $1 }')" = 1 ]
}

@test "slurmd starts as ever when the reporter is missing or the planner does not answer" {
  plugstack report=/nonexistent
  restart_slurmd n2
  plugstack report="$BOX/bin/espalier-report" planner=10.77.200.1
  restart_slurmd n2
  wait_for 30 "n2 is back" eval '[ "$(sinfo -h -n n2 -t idle -o %D)" = 1 ]'
  wait_for 60 "the reporter has given up" eval '! pgrep -f espalier-report'
}

@test "espalier-report shows the topology, and refuses what it cannot use" {
  "$BOX/bin/espalier-report" topology --print | grep -q '<topology version='
  run "$BOX/bin/espalier-report" topology
  [ "$status" -eq 1 ]
  [ "$output" = "espalier: report: topology: no planner named; give --planner HOST[:PORT] or --print" ]
  run "$BOX/bin/espalier-report" topology --planner ctl:99999
  [ "$output" = "espalier: report: --planner ctl:99999: not an address; write HOST:PORT" ]
  run "$BOX/bin/espalier-report" topology --planner ctl --planner-user nobody-here
  [[ $output == "espalier: report: --planner-user nobody-here: no such user; "* ]]
}

@test "espalier-report released tells what a site's own epilog script may tell" {
  "$BOX/bin/espalier-report" released --planner ctl --job 7 --node n9 --gpus 0,3 --exit 1
  wait_for 20 "it is heard" eval '[ "$(heard gpus_released)" = 1 ]'
  [ "$(events gpus_released)" = "ESP1 gpus_released job=7 node=n9 gpus=0,3 exit=1" ]
}
