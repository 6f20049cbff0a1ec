# Sourced by the plugin's tests, inside a box without espalierd: a launcher and a planner that only show what they were told.
. "$BOX_HERE/jobs.bash"

plugstack() { # ARGUMENT...: what the plugin is told, behind launcher= and planner=
  echo "optional $BOX/lib/espalier.so launcher=$BOX/bin/launcher.sh planner=ctl max=16 $*" > "$BOX/slurm/plugstack.conf"
}

start_ear() {
  : > "$BOX/log/ear" # no line of an earlier one
  python3 "$BATS_TEST_DIRNAME/spank/ear.py" /run/espalier/events.sock 7321 > "$BOX/log/ear" 2>&1 3>&- &
  echo $! > "$BOX/pid/ear"
  disown
  wait_for 5 "the ear listens" grep -q ready "$BOX/log/ear"
}
stop_ear() { kill -KILL "$(cat "$BOX/pid/ear")" 2>/dev/null || true; rm -f /run/espalier/events.sock; }
heard() { grep -c "$1" "$BOX/log/ear"; }

next_job_id() { scontrol show config | awk '$1 == "NEXT_JOB_ID" { print $3 }'; }

setup_spank() {
  install -m 755 "$BATS_TEST_DIRNAME/spank/launcher.sh" "$BOX/bin/"
  plugstack
}
