# What a second user, and strangers, can cost espalierd and the jobs of others. The programs of the attacks are in tests/attacks;
# `make test-attacks` prints what was measured.
# box: -n 2 -e 'planner.poll_seconds = 60' -e 'planner.store_mb = 16' -e 'extensions.max_gpus = 4'
# whole
# limit: 600
# each: 120

control=/run/espalier/control.sock
figures=$BUILD/attacks.json

setup_file() {
  . "$BOX_HERE/jobs.bash"
  printf '{}\n' > "$BOX/log/figures"
  mallory=$(as_user -u mallory sbatch --parsable -o /tmp/mallory.out -N1 -n1 -w n1 --gres=gpu:1 --wrap 'sleep 600')
  wait_for 30 "mallory's job runs" job_is "$mallory" RUNNING
  export mallory
}
setup() { . "$BOX_HERE/jobs.bash"; }
teardown() { [ -n "${BATS_TEST_COMPLETED:-}" ] || tail -n 15 "$BOX/log/espalierd.log"; }
teardown_file() {
  cp "$BOX/log/figures" "$figures"
  scancel -u boxuser
  scancel -u mallory
}

# attack PROGRAM ARGUMENT...: as mallory, in the background, on the first core. Its output is in $BOX/log/PROGRAM.
attack() {
  local program=$1
  shift
  (cd /tmp && exec taskset -c 0 setpriv --reuid mallory --regid mallory --clear-groups /usr/bin/python3 \
    "$BOX_REPO/tests/attacks/$program.py" "$@" > "$BOX/log/$program" 2>&1 3>&-) &
  attackers+=($!)
}
attackers=()
# By their process ids: for a moment they are still this shell, and nobody's who attacks.
attacks_over() {
  local pid
  for pid in "${attackers[@]}"; do [ ! -d "/proc/$pid" ] || return 1; done
}
pings() { # SECONDS: "P99 FAILED"
  as_user /usr/bin/python3 "$BOX_REPO/tests/attacks/pings.py" $control "$1"
}
rss_mib() { awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$(cat "$BOX/pid/espalierd")/status"; }
disk_mib() { du -cm /var/lib/espalier/espalier.db* | awk 'END { print $1 }'; }
figure() { # NAME VALUE
  python3 - "$BOX/log/figures" "$1" "$2" <<'P'
import json, sys
figures = json.load(open(sys.argv[1]))
figures[sys.argv[2]] = json.loads(sys.argv[3])
json.dump(figures, open(sys.argv[1], "w"), sort_keys=True)
P
}
# How long it takes until espalierd has seen that a job of boxuser's has given its GPU back, in s.
notices_release() {
  local job start
  job=$(plain probe -N1 -n1 -w n2 --gres=gpu:1)
  wait_for 30 "the probe runs" job_is "$job" RUNNING
  wait_for 30 "espalierd sees it" eval "espalier show nodes -o | grep -q 'HeldGPUs=$job'"
  start=$EPOCHREALTIME
  finish probe
  wait_for 30 "espalierd sees that it has ended" eval "! espalier show nodes -o | grep -q 'HeldGPUs=$job'"
  rm -f "$BOX/home/probe.finish"
  awk -v from="$start" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", to - from }'
}

@test "records: a job of one GPU gets no fat plan stored, and neither bye nor registering anew gives it more room" {
  attack records $control "$mallory" n1 15
  wait_for 60 "the attack is over" attacks_over
  cat "$BOX/log/records"
  grep -qx 'fat plans taken 0' "$BOX/log/records"
  acts=$(espalier show decisions --job="$mallory" --limit=1000 -o | grep -c '^DecisionId=')
  echo "$acts acts of its own were recorded" >&3
  [ "$acts" -le 60 ]
  [ "$(disk_mib)" -le 16 ]
}

@test "queries, unread answers, records and strangers at once: pings and decisions of others go on" {
  quiet=$(pings 5) quiet_release=$(notices_release)
  attack queries $control 25
  attack unread $control 60 25
  attack records $control "$mallory" n1 25
  attack strangers ctl:7321 25 200
  sleep 1
  during=$(pings 12)
  release=$(notices_release)
  wait_for 60 "the attacks are over" attacks_over
  tail -n 3 "$BOX"/log/{queries,unread,records,strangers}
  echo "pings: quiet ${quiet% *} ms P99, attacked ${during% *} ms; a release is seen after $quiet_release s, attacked $release s; RSS $(rss_mib) MiB" >&3
  figure ping_p99_ms "${during% *}"
  figure ping_quiet_p99_ms "${quiet% *}"
  figure decision_delay_s "$(awk -v a="$release" -v b="$quiet_release" 'BEGIN { d = a - b; print d < 0 ? 0 : d }')"
  figure rss_mib "$(rss_mib)"
  figure disk_mib "$(disk_mib)"
  [ "${during#* }" = 0 ]
  # The target is 50 ms. A machine that also builds and tests is given ten times as long.
  awk -v p99="${during% *}" 'BEGIN { exit !(p99 <= 500) }'
  awk -v seen="$release" 'BEGIN { exit !(seen <= 10) }'
  [ "$(rss_mib)" -le 256 ]
  [ "$(disk_mib)" -le 16 ]  # planner.store_mb
  grep -q 'credentials 0$' "$BOX/log/strangers"
  espalier ping
}

@test "munged stopped and strangers at the port: local users are answered" {
  pkill -STOP -x munged
  attack strangers ctl:7321 8 100
  sleep 1
  run pings 4
  pkill -CONT -x munged
  echo "$output"
  wait_for 30 "the attack is over" attacks_over
  [ "${output#* }" = 0 ]
  wait_for 30 "TCP is answered again" timeout 5 ip netns exec n2 "$BOX/bin/espalier" ping
}

@test "an extension of a job that is no elastic one is ended, and so is one of another user's job" {
  anchor=$(plain anchor -N1 -n1 -w n2 --gres=gpu:1)
  foreign=$(as_user -u mallory sbatch --parsable -p elastic --comment "espalier:ext:$anchor:0123abcd" -o /dev/null -N1 -n1 \
    -w n2 --gres=gpu:1 --wrap 'sleep 600')
  wait_for 30 "it runs" job_is "$foreign" RUNNING
  sleep 11
  sed -i 's/^planner.poll_seconds.*/planner.poll_seconds = 1/' /etc/espalier/espalier.toml
  pkill -HUP -x espalierd
  wait_for 60 "espalierd has ended it" job_over "$foreign"
  grep "extension $foreign of job $anchor: its anchor is a job of another user" "$BOX/log/espalierd.log"
  finish anchor
}

@test "with PrivateData=jobs the jobs of others are hidden; the store is for its owner alone" {
  [ "$(stat -c %a /var/lib/espalier)" = 700 ]
  [ "$(stat -c %a /var/lib/espalier/espalier.db)" = 600 ]
  run as_user -u mallory head -c 16 /var/lib/espalier/espalier.db
  [ "$status" -ne 0 ]
  run as_user espalier show job "$mallory"
  [ "$status" -eq 0 ]
  echo PrivateData=jobs >> "$BOX/slurm/slurm.conf"
  scontrol reconfigure
  "$BOX_HERE/planner.sh" stop
  "$BOX_HERE/planner.sh" start
  wait_for 20 "it has asked Slurm" eval 'espalier show nodes > /dev/null'
  run as_user espalier show job "$mallory"
  echo "$output"
  [ "$status" -ne 0 ]
  [ -z "$(as_user espalier show decisions -o | grep DecisionId)" ]
  as_user -u mallory espalier show job "$mallory"
}
