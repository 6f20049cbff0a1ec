# [share] and [health]: whose jobs may have extensions on which nodes, how many GPUs an account may be lent, and the fair share that Slurm computes.
# box: -n 3 -a 'modify user boxuser where account=chemistry set fairshare=0' -c PriorityType=priority/multifactor -c PriorityWeightFairshare=1000 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 300
# beside
# early

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  clean_slate
  share </dev/null
}

# [share] is standard input from now on.
share() {
  sed -i '/^# share/,$d' /etc/espalier/espalier.toml
  { echo '# share'; cat; } >> /etc/espalier/espalier.toml
  kill -HUP "$(cat "$BOX/pid/espalierd")"
}
of_account() { # ACCOUNT RANGE
  A=$(elastic A "$2" -N1 -n1 -w n1 --gres=gpu:2 -A "$1" -- "${tiny[@]}" --steps 1000000)
}
nodes_of_extensions() { extensions_of "$A" | xargs -n 1 squeue -h -o %N -j | sort -u | xargs; }
explains() { as_user espalier explain "$A" > "$BOX/log/explained" && grep -qF "$1" "$BOX/log/explained"; }

@test "nodes of a rule are lent to the jobs that it admits, and to no others; explain names the rule" {
  share <<T
[[share.rules]]
name = "the node of physics"
nodes = "n2"
accounts = ["physics"]
[[share.rules]]
name = "for short jobs"
nodes = "n3"
qos = ["short"]
T
  of_account chemistry 2:12
  wait_for 120 "A runs on all of n1" runs_on A 4
  wait_for 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))
  wait_for 30 "explain names the rules" explains 'rule "the node of physics" of [share] keeps n2 for accounts physics'
  explains 'rule "for short jobs" of [share] keeps n3 for QOS short'
  [ "$(nodes_of_extensions)" = n1 ]
  # Without the second rule n3 is everybody's.
  share <<T
[[share.rules]]
name = "the node of physics"
nodes = "n2"
accounts = ["physics"]
T
  grows_to_eight 300 # by n3's
  [ "$(nodes_of_extensions)" = "n1 n3" ]
  goes_on_well
  rm -f "$BOX"/home/A.*
  far=$(plain far -N1 -n1 -w n3 --gres=gpu:4)
  of_account physics 2:8
  grows_to_eight 300 # by n1's and n2's
  [ "$(nodes_of_extensions)" = "n1 n2" ]
  explains '; rule "the node of physics" lends it n2'
  goes_on_well
}

@test "no account is lent more GPUs than its limit, and explain says so" {
  share <<T
[share]
account_gpus = 1
[share.accounts]
chemistry = 2
T
  of_account chemistry 2:12
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  wait_for 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))
  wait_for 30 "explain names the limit" explains 'the jobs of account chemistry have been lent 2 GPUs; [share] of espalier.toml allows 2'
  goes_on_well
  [ "$(grep -o '"gpus":[0-9]*' "$BOX/home/A.jsonl" | cut -d: -f2 | sort -n | tail -n 1)" = 4 ]
}

@test "a decision tells the fair share that weighed it, as sshare does" {
  sshare -a -n -P -o account,user,fairshare
  wait_for 60 "Slurm has fair shares" eval 'sshare -a -n -P -o account,user,fairshare | grep -q "chemistry|boxuser|0\.[0-9]*[1-9]"'
  "$BOX_HERE/planner.sh" stop # what it knows of shares may be a minute old
  "$BOX_HERE/planner.sh" start
  of_account chemistry 2:4
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  factor=$(sshare -a -n -P -o account,user,fairshare | sed -n 's/^ *chemistry|boxuser|//p')
  wait_for 30 "explain tells it" explains "; fair share $(python3 -c 'import sys; print(f"{float(sys.argv[1]):.3g}")' "$factor")"
  goes_on_well
}

@test "a wrong [share] is refused in words, and what was read before stays in force" {
  share <<T
[[share.rules]]
name = "typo"
nodes = "n[1-"
accounts = ["physics"]
T
  wait_for 30 "it is told" grep -q 'share.rules: rule "typo": nodes: "n\[1-" is no list of nodes.*the configuration stays as it was' "$BOX/log/espalierd.log"
  espalier show config | grep -q 'share.weight=fairshare'
  refute eval 'espalier show config | grep -q typo'
}

@test "a node that the site's health check names is not lent until the check names it no more; explain tells the reason" {
  printf '%s\n' '#!/bin/sh' "echo \"\$1\" >> $BOX/log/checked" "cat $BOX/share/faults" > "$BOX/share/check"
  chmod 755 "$BOX/share/check"
  echo "n[2-3] GPU 1 has uncorrected memory errors" > "$BOX/share/faults"
  share <<T
[health]
command = "$BOX/share/check"
valid_minutes = 0.1
T
  of_account physics 2:8
  wait_for 120 "A runs on all of n1" runs_on A 4
  wait_for 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))
  wait_for 30 "explain tells the fault" \
    explains "the site's health check keeps n[2-3] from being lent: GPU 1 has uncorrected memory errors"
  [ "$(nodes_of_extensions)" = n1 ]
  espalier show nodes | grep -F 'Health=GPU 1 has uncorrected memory errors'
  grep -qxF 'n[1-3]' "$BOX/log/checked"
  echo "n3 a fan stands" > "$BOX/share/faults"
  grows_to_eight 300 # by n2's
  [ "$(nodes_of_extensions)" = "n1 n2" ]
  goes_on_well
}

@test "names in [share] and [objective] that Slurm does not know are warned of, at start and at each reload, and are no error" {
  warned() { grep -qF "$1" "$BOX/log/espalierd.log"; }
  : > "$BOX/log/espalierd.log"
  share <<T
[objective]
account_weights = { physics = 2.0, phsyics = 2.0 }
qos_weights = { normal = 1.5, nromal = 1.5 }
[[share.rules]]
name = "the node of physics"
nodes = "n2"
accounts = ["Physics", "chemistry"]
partitions = ["main", "mian"]
T
  wait_for 30 "an account of a rule" warned '[share] rule "the node of physics": Slurm has no account "Physics" (it has "physics"); no job is admitted by it'
  wait_for 10 "a partition of a rule" warned 'Slurm has no partition "mian"; no job is admitted by it; sinfo lists those that it has'
  wait_for 10 "an account's weight" warned '[objective] account_weights: Slurm has no account "phsyics"; it counts for no job; sacctmgr show account lists'
  wait_for 10 "a QOS's weight" warned '[objective] qos_weights: Slurm has no QOS "nromal"'
  [ "$(grep -c 'Slurm has no ' "$BOX/log/espalierd.log")" -eq 4 ]
  refute grep -q ' error ' "$BOX/log/espalierd.log"
  "$BOX_HERE/planner.sh" stop
  : > "$BOX/log/espalierd.log"
  "$BOX_HERE/planner.sh" start
  wait_for 30 "at start" eval '[ "$(grep -c "Slurm has no " "$BOX/log/espalierd.log")" = 4 ]'
  # An account that is made later is warned of no more.
  sacctmgr -i add account phsyics Cluster=box
  wait_for 30 "slurmctld knows it" eval 'scontrol show assoc_mgr flags=assoc | grep -q Account=phsyics'
  : > "$BOX/log/espalierd.log"
  kill -HUP "$(cat "$BOX/pid/espalierd")"
  wait_for 30 "three are left" eval '[ "$(grep -c "Slurm has no " "$BOX/log/espalierd.log")" = 3 ]'
  sacctmgr -i delete account phsyics
}
