# With a key for grants, slurmctld keeps every job out of the partition for extensions but those that espalierd has decided:
# a training grows as without the key, and what a user submits there by hand is refused.
# box: -n 2 -s -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# A job as the launcher submits it, but for what the arguments say. Prints what sbatch says.
submits() { # ACCOUNT GRANT SBATCH-OPTION...
  local account=$1 grant=$2
  shift 2
  ESPALIER_GRANT=$grant as_user -u "$account" sbatch --parsable -J espalier-ext -D /tmp -o /dev/null -n1 "$@" --wrap 'sleep 600' 2>&1
}
# A grant made with espalierd's own key, as root can.
sealed() { python3 "$BOX_REPO/tests/attacks/grants.py" "$@"; }
refused() { # WHY ARGUMENT-OF-submits...
  local why=$1
  shift
  run submits "$@"
  echo "$output"
  [ "$status" -ne 0 ]
  grep -q "partition elastic: is for the extensions of elastic jobs, and $why" <<< "$output"
}

@test "a training grows with grants, and no step of it is lost" {
  grown_cast
  comments=$(squeue -h -p elastic -o %k)
  refute grep -Evx "espalier:ext:$A:[0-9a-f]{16}" <<< "$comments"
  goes_on_well
}

@test "a user's own job is refused in the partition: alone, beside another partition, by its comment, by a change of a waiting job" {
  refused 'this job has no grant' boxuser '' -p elastic --gres=gpu:1
  refused 'this job has no grant' boxuser '' -p main,elastic --gres=gpu:1
  refused 'this job has no grant' boxuser '' -p elastic --gres=gpu:1 --comment=espalier:ext:1:0123456789abcdef
  refused 'this job has no grant' boxuser '' -p elastic
  run as_user srun -p elastic --gres=gpu:1 -n1 true
  echo "$output"
  [ "$status" -ne 0 ]
  waiting=$(as_user sbatch --parsable -H -o /dev/null -n1 --gres=gpu:1 --wrap true)
  run as_user scontrol update "JobId=$waiting" Partition=elastic
  echo "$output"
  [ "$status" -ne 0 ]
  [ "$(squeue -h -j "$waiting" -o %P)" = main ]
  scancel "$waiting"
  # What is not in the partition is nobody's business here, and administrators may.
  completed -o /dev/null -n1 --wrap true
  admins=$(sbatch --parsable -p elastic -D /tmp -o /dev/null -n1 --wrap true)
  wait_for 30 "root's job ran" job_over "$admins"
}

@test "a grant is good for its own extension alone: forged, replayed, another user's, another job's, too long or expired ones are refused" {
  now=$(date +%s)
  id=0123456789abcdef expiry=$((now + 119)) # made a second ago
  good=$(sealed $id 4242 77 n2 2 10 $expiry)
  options=(-p elastic -w n2 -N1 --gres=gpu:2 -t 10 "--comment=espalier:ext:77:$id")
  forged=${good%?}$(tr 0-9a-f 1-9a-f0 <<< "${good: -1}") # its last digit is another one
  refused 'its grant is not of espalierd' boxuser "$forged" "${options[@]}"
  refused 'its grant is not of espalierd' boxuser "${good/:77:/:78:}" "${options[@]}"
  refused 'its grant is not of espalierd' boxuser nonsense "${options[@]}"
  refused "its grant is another user's" mallory "$good" "${options[@]}"
  refused 'its grant is for another node' boxuser "$good" "${options[@]}" -w n1
  refused 'its grant is for another node' boxuser "$good" "${options[@]}" -w n1,n2 -N2
  refused 'its grant is for another number of GPUs' boxuser "$good" "${options[@]}" --gres=gpu:4
  refused 'its grant is for another number of GPUs' boxuser "$good" "${options[@]}" --exclusive
  refused 'its grant is for a shorter time limit' boxuser "$good" "${options[@]}" -t 11
  refused 'its grant is for another extension' boxuser "$good" "${options[@]}" --comment="espalier:ext:78:$id"
  refused 'it names another partition' boxuser "$good" "${options[@]}" -p elastic,main
  refused 'an extension is one job' boxuser "$good" "${options[@]}" -a 1-2
  refused 'its grant has expired' boxuser "$(sealed $id 4242 77 n2 2 10 $((now - 1)))" "${options[@]}"
  refused 'its grant is older than' boxuser "$(sealed $id 4242 77 n2 2 10 $((expiry + 1000)))" "${options[@]}"
  # None of these has used it up.
  run submits boxuser "$good" "${options[@]}"
  echo "$output"
  [ "$status" -eq 0 ]
  refused 'its grant was used before' boxuser "$good" "${options[@]}"
}

@test "a grant that its owner uses again brings at most a job that espalierd ends; none is good after a restart of slurmctld" {
  grown_cast
  id=$(squeue -h -p elastic -o %k | head -n 1 | cut -d: -f4)
  again=(boxuser "$(sealed "$id" 4242 "$A" n2 1 10 $(($(date +%s) + 119)))" -p elastic -w n2 -N1 --gres=gpu:1 -t 10 "--comment=espalier:ext:$A:$id")
  # Where the launcher's extension started at once, its grant is good for one that waits.
  if second=$(submits "${again[@]}"); then
    wait_for 60 "espalierd has ended it" job_over "$second"
    grep -q "extension $second of job $A: another extension was submitted with the same grant" "$BOX/log/espalierd.log"
  fi
  refused 'its grant was used before' "${again[@]}"
  runs_on A 8
  fresh=$(sealed fedcba9876543210 4242 77 n2 2 10 $(($(date +%s) + 100)))
  pkill -x slurmctld
  wait_for 60 "slurmctld has ended" eval '! pgrep -x slurmctld'
  slurmctld
  wait_for 30 "slurmctld answers" sinfo
  refused 'its grant is older than' boxuser "$fresh" -p elastic -w n2 -N1 --gres=gpu:2 -t 10 --comment=espalier:ext:77:fedcba9876543210
  goes_on_well
}

@test "nobody but SlurmUser reads the key; a key that others can read is not used, and slurmctld starts all the same" {
  run as_user -u mallory cat /etc/espalier/grant.key
  [ "$status" -ne 0 ]
  chmod 644 /etc/espalier/grant.key
  pkill -x slurmctld
  wait_for 60 "slurmctld has ended" eval '! pgrep -x slurmctld'
  slurmctld
  wait_for 30 "slurmctld answers" sinfo
  grep -q 'grant.key: others than SlurmUser may read it' "$BOX/log/slurmctld.log"
  job=$(submits boxuser '' -p elastic --gres=gpu:1)
  wait_for 30 "it runs: there is no key" job_is "$job" RUNNING
  pkill -HUP -x espalierd
  wait_for 10 "espalierd says so" eval 'espalier show config -o | grep -q "extensions.grants=false\|grants=no\|grants=0" || grep -q "extensions get no grants" "$BOX/log/espalierd.log"'
  chmod 600 /etc/espalier/grant.key
}
