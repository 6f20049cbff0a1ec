# A site upgrades espalierd, the plugins and the launchers one after the other, while jobs train. The newer version is tests/upgrade:
# the same sources with a higher version, whose messages and events hold fields that this version does not know.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# beside
# early
# limit: 1500
# each: 400

setup_file() {
  . "$BOX_HERE/training.bash"
  reference
  mkdir "$BOX/this" # the version that runs before an upgrade
  cp -r "$BOX/bin" "$BOX/lib" "$BOX/this"
}
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  "$BOX_HERE/planner.sh" stop 2>/dev/null || true
  for part in planner tool launcher plugins; do install_of "$BOX/this" $part; done
  restart_slurm
  clean_slate
}

# As a package manager does it: a new file takes the name, and who runs keeps the old one.
put() { install -m 755 "$1" "$2.new" && mv "$2.new" "$2"; }
install_of() { # VERSION-FOLDER PART
  local one files
  case $2 in
    planner) files=bin/espalierd ;;
    tool) files=bin/espalier ;;
    launcher) files='bin/espalier-launch bin/espalier-ranks' ;;
    plugins) files='lib/espalier.so lib/job_submit_espalier.so bin/espalier-report' ;;
  esac
  for one in $files; do put "$1/$one" "$BOX/$one"; done
}
next=$BUILD/next
upgrade() { for part; do install_of "$next" "$part"; done; }
restart_planner() { "$BOX_HERE/planner.sh" stop; "$BOX_HERE/planner.sh" start; }
# Each daemon loads its plugin when it starts. Jobs go on without them.
restart_slurm() {
  local pid
  pid=$(cat "$BOX/pid/slurmctld")
  kill -TERM "$pid"
  wait_for 30 "slurmctld has ended" eval '! kill -0 '"$pid"
  slurmctld
  wait_for 30 "slurmctld answers" scontrol ping
  for node in n1 n2; do
    pid=$(cat "$BOX/pid/$node")
    kill -TERM "$pid"
    wait_for 30 "slurmd of $node has ended" eval '! kill -0 '"$pid"
    "$BOX_HERE/node.sh" start "$node"
  done
  wait_for 60 "the nodes are there" eval '[ "$(sinfo -h -o %t -N -p main | grep -vc "[*]\|down\|unk")" = 2 ]'
}

planner_is() { espalier ping | tr ' ' '\n' | grep -qxF "Version=$(version_of "$1")"; }
version_of() { "$1/bin/espalierd" --version | sed 's/.* //'; }
runs_file() { cmp -s "/proc/$1/exe" "$2"; } # PID FILE
keepers_of() { # VERSION-FOLDER: how many processes of extensions run its launcher
  local pid count=0
  for pid in $(pgrep -u boxuser -x espalier-launch); do
    [ "$pid" = "$(launcher_pid)" ] || ! runs_file "$pid" "$1/bin/espalier-launch" || count=$((count + 1))
  done
  echo $count
}
# A step that was lost is done twice.
no_step_lost() {
  local twice
  twice=$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort | uniq -d)
  [ -z "$twice" ] || { echo "twice: $twice"; return 1; }
  refute grep -q 'training went on' "$BOX/home/A.out"
}
# Nothing that a part of one version said was refused by a part of the other.
nobody_complained() {
  refute grep -E 'refused: |unknown|not known|same version|must be|missing' <(grep -hE 'espalierd|warn|error|espalier: ' "$BOX/log/espalierd.log" "$BOX"/home/*.out)
}
registered() { espalier show jobs | grep -q "JobId=$1 "; }
shrinks_and_grows() { # A on eight GPUs gives n2's to another job, and has them again
  local urgent
  rm -f "$BOX/home/urgent.finish"
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 25 "the urgent job starts" job_is "$urgent" RUNNING
  wait_for 30 "A runs on n1's GPUs only" runs_on A 4
  finish urgent
  grows_to_eight
}

@test "the planner, the plugins and the launcher are replaced one after the other, and a job trains on" {
  local launcher B
  cast
  launcher=$(launcher_pid)
  finish far
  wait_for 120 "A has an extension on n2" eval '[ "$(gpus_of A)" -ge 4 ]'
  wait_for 60 "it is at rest" phase_is running
  planner_is "$BOX/this"
  # It waits for the GPUs of A's own, and so it starts when A has ended.
  B=$(elastic B 2:4 -N1 -n1 -w n1 --gres=gpu:2 --dependency=afterany:"$A" -- "${tiny[@]}" --steps 60)

  upgrade planner tool
  restart_planner
  planner_is "$next"
  wait_for 60 "A is registered with the new planner" registered "$A"

  upgrade plugins
  restart_slurm
  grep -q "job_submit_espalier.so$" "/proc/$(cat "$BOX/pid/slurmctld")/maps"

  # The old launcher with its old keeper on n2 gets an extension whose keeper is new.
  upgrade launcher
  runs_file "$launcher" "$BOX/this/bin/espalier-launch"
  [ "$(keepers_of "$BOX/this")" -ge 1 ]
  finish near
  grows_to_eight
  wait_for 30 "an extension has a keeper of the next version" eval '[ "$(keepers_of "$next")" -ge 1 ]'
  shrinks_and_grows
  runs_file "$launcher" "$BOX/this/bin/espalier-launch"
  no_step_lost
  nobody_complained
  same_losses A
  as_user scancel "$A"

  # Submitted under the old plugins, started under the new ones.
  wait_for 120 "B trains" stepped_past B 5
  runs_file "$(launcher_pid)" "$next/bin/espalier-launch"
  wait_for 240 "B ends" job_over "$B"
  same_losses B 60
  nobody_complained
  leaves_nothing
}

# bats test_tags=long:2
@test "the other way round: a new launcher and new plugins with an old planner" {
  upgrade launcher plugins
  restart_slurm
  planner_is "$BOX/this"
  grown_cast
  runs_file "$(launcher_pid)" "$next/bin/espalier-launch"
  shrinks_and_grows
  grep -q 'ESP1 job_submitted .* of_the_next_version=red' "$BOX/log/espalierd.log"
  no_step_lost
  nobody_complained
  # And a planner of the newer version at last.
  upgrade planner tool
  restart_planner
  planner_is "$next"
  wait_for 60 "A is registered with the new planner" registered "$A"
  shrinks_and_grows
  no_step_lost
  goes_on_well
}

# bats test_tags=long:3
@test "old plugins with a new planner and a new launcher" {
  upgrade launcher planner tool
  restart_planner
  grown_cast
  shrinks_and_grows
  no_step_lost
  nobody_complained
  goes_on_well
}

@test "a downgrade to a planner that is older than its store is refused in words, and the job trains on without it" {
  upgrade planner tool
  restart_planner
  cast
  "$BOX_HERE/planner.sh" stop
  schema=$(python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("PRAGMA user_version").fetchone()[0])' /var/lib/espalier/espalier.db)
  newer=$((schema + 1))
  python3 -c 'import sqlite3, sys; s = sqlite3.connect(sys.argv[1]); s.execute("PRAGMA user_version=" + sys.argv[2]); s.commit()' /var/lib/espalier/espalier.db "$newer"
  install_of "$BOX/this" planner
  run "$BOX_HERE/planner.sh" start
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"schema $newer is newer than this espalierd knows ($schema); install the newer espalierd, or move the file away"* ]]
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  # Nothing was changed in it: the newer planner would go on with it.
  python3 -c 'import sqlite3, sys; s = sqlite3.connect(sys.argv[1]); s.execute("PRAGMA user_version=" + sys.argv[2]); s.commit()' /var/lib/espalier/espalier.db "$schema"
  upgrade planner
  "$BOX_HERE/planner.sh" start
  wait_for 60 "A is registered" registered "$A"
  no_step_lost
  goes_on_well
}
