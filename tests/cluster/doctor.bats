# espalier doctor on a site without fault, and on sites with one. A site is broken as an administrator breaks it: in slurm.conf,
# plugstack.conf, espalier.toml, or by what runs and what lies where.
# box: -n 2 -c SchedulerParameters=bf_interval=5 -e 'planner.poll_seconds = 1' -e 'planner.cooldown_seconds = 1'
# limit: 1500
# each: 200
# beside
# early

setup_file() { cp "$SLURM_CONF" "$BOX/share/slurm.conf"; cp "$BOX/slurm/plugstack.conf" /etc/espalier/espalier.toml "$BOX/share/"; }
setup() { . "$BOX_HERE/jobs.bash"; }
teardown() {
  [ -n "${BATS_TEST_COMPLETED:-}" ] || { tail -n 60 "$BOX/share/found.json"; tail -n 5 "$BOX/log/slurmctld.log"; }
  cp "$BOX/share/plugstack.conf" "$BOX/slurm/"
  cp "$BOX/share/espalier.toml" /etc/espalier/
  cmp -s "$BOX/share/slurm.conf" "$SLURM_CONF" || { cp "$BOX/share/slurm.conf" "$SLURM_CONF"; restart; }
  "$BOX/bin/espalier" ping > /dev/null 2>&1 || "$BOX_HERE/planner.sh" start
}

# slurmctld with the present slurm.conf. Some settings change only so.
restart() {
  local pid
  pid=$(cat "$BOX/pid/slurmctld" 2>/dev/null || true)
  [ -z "$pid" ] || { kill "$pid" 2>/dev/null && wait_for 60 "slurmctld ends" eval "[ ! -d /proc/$pid ]"; } || true
  slurmctld 3>&-
  wait_for 30 "slurmctld answers" sinfo -h
  wait_for 60 "the nodes are idle" eval '[ "$(sinfo -h -t idle -p main -o %D)" = 2 ]'
}
# edit SED-SCRIPT: of slurm.conf; slurmctld then runs with it.
edit() { sed -i "$1" "$SLURM_CONF"; restart; }

# ails CHECK WORDS FILE LINE [WITHIN]: doctor ends with code 1, and the check is a fault that says WORDS and advises LINE.
ails() {
  local status=0
  espalier doctor --admin --json > "$BOX/share/found.json" || status=$?
  [ "$status" -eq 1 ] || { echo "ended with $status"; return 1; }
  named fault "$@"
}
named() { # VERDICT CHECK WORDS FILE LINE [WITHIN]
  python3 - "$BOX/share/found.json" "$@" <<'P'
import json, sys
path, verdict, name, words, file, line, within = (sys.argv + [""])[1:8]
check = next(c for c in json.load(open(path))["checks"] if c["name"] == name)
print(check)
assert check["verdict"] == verdict, check["verdict"]
assert words in check["found"], check["found"]
assert {"file": file, "line": line, "within": within} in check["remedies"], check["remedies"]
P
}

@test "a site without fault: exit code 0, for its administrator and for a user" {
  run espalier doctor
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *", 0 faults" ]]
  grep -q '^ok  *state-folder ' <<< "$output"
  run as_user espalier doctor
  echo "$output"
  [ "$status" -eq 0 ]
  refute grep -q ' state-folder ' <<< "$output"
  grep -q '^ok  *planner-port ' <<< "$output"
}

@test "PrivateData hides partitions: a fault, and an elastic job runs at once without elasticity" {
  edit '$aPrivateData=partitions,jobs'
  ails private-data 'hides partitions' "$SLURM_CONF" PrivateData=jobs
  local began=$SECONDS
  run as_user srun -N1 -n1 --gres=gpu:1 --elastic=1:2 echo ran
  echo "$output"
  [ "$status" -eq 0 ]
  [ $((SECONDS - began)) -lt 60 ]
  [[ $output == *'PrivateData in slurm.conf hides partitions from users'*'runs without elasticity'*ran* ]]
}

@test "the lines to add, by file, and what of them is done is not printed again" {
  espalier doctor --fix-plan | tee "$BOX/share/plan"
  grep -A9 "^# $SLURM_CONF\$" "$BOX/share/plan" | grep -qx 'ProctrackType=proctrack/cgroup'
  grep -A1 '^# into PartitionName=elastic$' "$BOX/share/plan" | grep -qx 'MaxTime=60'
  refute grep -q '^PreemptType' "$BOX/share/plan"
  edit '/^PartitionName=elastic/s/MaxTime=[^ ]*/MaxTime=60/'
  refute eval 'espalier doctor --fix-plan | grep -q MaxTime'
}

@test "wrong usage: exit code 2" {
  run espalier doctor --fix
  [ "$status" -eq 2 ]
  run espalier doctor --json --fix-plan
  [ "$status" -eq 2 ]
}

said() { grep -q "^$1  *$2 " "$BOX/share/run"; } # VERDICT CHECK
job_runs() { [ -n "$(squeue -h -n espalier-doctor -t RUNNING)" ]; }
# What --run started, and its files.
all_gone() { [ -z "$(squeue -h)" ] && nothing_left && [ -z "$(ls -A "$BOX/home")" ]; }

@test "--run: an elastic job starts, reports, grows and ends, and nothing of it is left" {
  status=0
  as_user espalier doctor --run > "$BOX/share/run" || status=$?
  cat "$BOX/share/run"
  [ "$status" -eq 0 ]
  for what in start report growth end; do said ok "run-$what"; done
  wait_for 60 "everything of it is gone" all_gone
}

@test "--run: a signal, and a kill, end its job" {
  for signal in INT KILL; do
    as_user espalier doctor --run --dir /tmp > "$BOX/share/run" 2>&1 3>&- &
    wait_for 60 "the job runs" job_runs
    wait_for 60 "its launcher runs" pgrep -u boxuser -x espalier-launch
    kill -$signal "$(pgrep -u boxuser -x espalier)"
    status=0
    wait $! || status=$?
    [ "$status" -ne 0 ]
    wait_for 60 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
    # Nothing runs after SIGKILL that could remove the folder.
    [ $signal = INT ] || rm -rf /tmp/espalier-doctor-*
    wait_for 60 "everything of it is gone" all_gone
  done
}

# bats test_tags=long:6
@test "--run: no planner is a fault of the report, and the job ends all the same" {
  "$BOX_HERE/planner.sh" kill
  status=0
  as_user espalier doctor --run > "$BOX/share/run" || status=$?
  "$BOX_HERE/planner.sh" start
  cat "$BOX/share/run"
  [ "$status" -eq 1 ]
  said ok run-start
  said fault run-report
  said ok run-end
  wait_for 60 "everything of it is gone" all_gone
}

@test "--run: a busy cluster is no fault, and nothing stays in the queue; a refused job is one" {
  job=$(as_user sbatch --parsable -o /dev/null -N2 --ntasks-per-node=1 --gres=gpu:4 --wrap 'sleep 600')
  wait_for 20 "the other job runs" job_is "$job" RUNNING
  status=0
  as_user espalier doctor --run --wait 3 > "$BOX/share/run" || status=$?
  cat "$BOX/share/run"
  [ "$status" -eq 0 ]
  said warning run-start
  said skipped run-end
  [ "$(squeue -h -o %i)" = "$job" ]
  scancel "$job"
  wait_for 60 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
  status=0
  as_user espalier doctor --run --partition none > "$BOX/share/run" || status=$?
  cat "$BOX/share/run"
  [ "$status" -eq 1 ]
  said fault run-start
  wait_for 60 "everything of it is gone" all_gone
}

@test "fault: no partition for extensions" {
  edit '/^PartitionName=elastic/d'
  ails partition "no partition elastic" "$SLURM_CONF" \
    'PartitionName=elastic Nodes=ALL MaxTime=60 PriorityTier=1 PreemptMode=CANCEL GraceTime=30'
}

# bats test_tags=long:1
@test "fault: its PriorityTier is that of the others" {
  edit '/^PartitionName=elastic/s/PriorityTier=1/PriorityTier=10/'
  ails priority-tier "main (10)" "$SLURM_CONF" PriorityTier=1 PartitionName=elastic
}

@test "fault: PreemptMode=OFF" {
  edit '/^PartitionName=elastic/s/PreemptMode=CANCEL/PreemptMode=OFF/'
  ails preempt-mode "PreemptMode is OFF" "$SLURM_CONF" PreemptMode=CANCEL PartitionName=elastic
}

# bats test_tags=long:2
@test "fault: PreemptType=preempt/none" {
  edit 's/^PreemptType=.*/PreemptType=preempt\/none/; s/^PreemptMode=.*/PreemptMode=OFF/'
  ails preempt-type "preempt/none" "$SLURM_CONF" PreemptType=preempt/partition_prio
}

# bats test_tags=long:3
@test "fault: MaxTime below the longest lease" {
  edit '/^PartitionName=elastic/s/MaxTime=[^ ]*/MaxTime=30/'
  ails partition-time "MaxTime is 30 minutes, leases are up to 60" /etc/espalier/espalier.toml 'max_lease_minutes = 30' '[extensions]'
}

# bats test_tags=long:4
@test "fault: RootOnly=YES" {
  edit '/^PartitionName=elastic/s/$/ RootOnly=YES/'
  ails partition-access "RootOnly=YES" "$SLURM_CONF" RootOnly=NO PartitionName=elastic
}

# bats test_tags=long:5
@test "fault: a notice that is too short" {
  edit '/^PartitionName=elastic/s/GraceTime=30/GraceTime=2/'
  ails grace-time "GraceTime is 2 s" "$SLURM_CONF" GraceTime=30 PartitionName=elastic
}

# bats test_tags=long:6
@test "fault: KillWait is longer than espalierd counts on" {
  edit '$aKillWait=120'
  ails kill-wait "KillWait is 120 s, espalierd counts on 30 s" /etc/espalier/espalier.toml 'kill_wait_seconds = 120' '[extensions]'
}

@test "fault: no backfill" {
  edit '$aSchedulerType=sched/builtin'
  ails backfill "sched/builtin" "$SLURM_CONF" SchedulerType=sched/backfill
}

# bats test_tags=long:1
@test "fault: whole nodes only" {
  edit 's/^SelectType=.*/SelectType=select\/linear/; s/^SelectTypeParameters=.*/SelectTypeParameters=CR_Memory/'
  ails select-type "select/linear" "$SLURM_CONF" SelectType=select/cons_tres
}

@test "fault: plugstack.conf does not name the plugin" {
  : > "$BOX/slurm/plugstack.conf"
  ails plugstack "does not name espalier.so" "$BOX/slurm/plugstack.conf" \
    "optional $BOX/lib/espalier.so planner=ctl max=64 launcher=$BOX/bin/espalier-launch report=$BOX/sbin/espalier-report"
  grep -q '"srun does not know --elastic' "$BOX/share/found.json"
}

@test "fault: the plugin's file is not there, and its planner is each node itself" {
  echo "optional $BOX/lib/slurm/espalier.so planner=localhost" > "$BOX/slurm/plugstack.conf"
  ails spank-plugin "is not there" "$BOX/slurm/plugstack.conf:1" "$BOX/lib/espalier.so" espalier.so
  named fault spank-planner "planner=localhost is each node itself" "$BOX/slurm/plugstack.conf:1" planner=ctl espalier.so
}

@test "fault: the plugins were built for another Slurm" {
  mkdir "$BOX/share/old"
  # Their version is a number of four bytes, once among their constants.
  python3 - "$BOX/lib/espalier.so" "$BOX/share/old/espalier.so" <<'P'
import struct, subprocess, sys
line = next(l for l in subprocess.run(["readelf", "-sW", "--dyn-syms", sys.argv[1]], capture_output=True, text=True).stdout.splitlines() if l.endswith(" plugin_version"))
address = int(line.split()[1], 16)
data = bytearray(open(sys.argv[1], "rb").read())
for l in subprocess.run(["readelf", "-lW", sys.argv[1]], capture_output=True, text=True).stdout.splitlines():
    if l.split()[:1] == ["LOAD"]:
        offset, start, size = (int(l.split()[i], 16) for i in (1, 2, 4))
        if start <= address < start + size:
            data[offset + address - start:offset + address - start + 4] = struct.pack("<I", 20 << 16 | 11 << 8 | 9)
open(sys.argv[2], "wb").write(data)
P
  sed -i "s|$BOX/lib/|$BOX/share/old/|" "$BOX/slurm/plugstack.conf"
  version=$(scontrol show config | sed -n 's/^SLURM_VERSION *= //p')
  ails spank-plugin "was built for Slurm 20.11.9, this is $version" "" "make clean && make install  # with the headers of Slurm $version"
}

@test "fault: slurmctld's plugin is in no folder of PluginDir" {
  mv "$BOX/lib/job_submit_espalier.so" "$BOX/share/"
  status=0
  ails submit-plugin "no folder of PluginDir has job_submit_espalier.so" "$SLURM_CONF" \
    "PluginDir=$BOX/lib/slurm:$(sed -n 's/^PluginDir=//p' "$SLURM_CONF")" || status=$?
  mv "$BOX/share/job_submit_espalier.so" "$BOX/lib/"
  [ "$status" -eq 0 ]
}

@test "fault: all nodes are drained" {
  scontrol update NodeName=n[1-2] State=DRAIN Reason=test
  status=0
  ails nodes "n[1-2] cannot be used" "" \
    'scontrol show node n[1-2]  # its Reason; then: scontrol update NodeName=n[1-2] State=RESUME' || status=$?
  scontrol update NodeName=n[1-2] State=RESUME
  [ "$status" -eq 0 ]
}

# bats test_tags=long:2
@test "fault: slurmctld is dead" {
  kill "$(cat "$BOX/pid/slurmctld")"
  wait_for 60 "slurmctld ends" refute pidof slurmctld
  status=0
  ails slurmctld "cannot be asked" "" "systemctl status slurmctld" || status=$?
  restart
  [ "$status" -eq 0 ]
}

@test "fault: espalierd is dead" {
  "$BOX_HERE/planner.sh" kill
  ails espalierd "does not answer" "" "systemctl enable --now $BOX/lib/systemd/system/espalierd.service"
}

@test "fault: launchers look for espalierd on their own node" {
  sed -i '/planner.host/d' /etc/espalier/espalier.toml
  ails planner-host "planner.host is localhost" /etc/espalier/espalier.toml 'host = "ctl"' '[planner]'
}

@test "fault: espalierd listens at another port than launchers are told" {
  echo 'planner.port = 7999' >> /etc/espalier/espalier.toml
  ails planner-port "not at ctl:7999" "" \
    "ss -ltn 'sport = :7999'  # and let the firewall pass TCP and UDP from the nodes"
  named fault spank-planner "port 7321, espalierd's is 7999" "$BOX/slurm/plugstack.conf:1" planner=ctl:7999 espalier.so
  named warning same-settings 'planner.port is 7321 there and 7999 here' "" \
    "systemctl restart espalierd  # after /etc/espalier/espalier.toml is the same on all hosts"
}

@test "fault: a wrong key in espalier.toml" {
  echo 'planner.prot = 1' >> /etc/espalier/espalier.toml
  ails espalier.toml "planner.prot" "" "man espalier.toml"
}

@test "fault: others can read espalierd's state" {
  chmod 0755 /var/lib/espalier
  status=0
  ails state-folder "has mode 0755" "" "chmod 0700 /var/lib/espalier" || status=$?
  chmod 0700 /var/lib/espalier
  [ "$status" -eq 0 ]
}

@test "fault: espalier-train does not find torch" {
  status=0
  # An empty folder lies over torch's.
  unshare --mount sh -c 'mount -t tmpfs tmpfs "$1" && exec env LD_LIBRARY_PATH= espalier doctor --json' sh "$TORCH_HOME/lib" \
    > "$BOX/share/found.json" || status=$?
  [ "$status" -eq 1 ]
  named fault torch "does not find libtorch_cpu.so" /etc/ld.so.conf.d/espalier.conf "TORCH_HOME/lib  # then: ldconfig"
}

# bats test_tags=long:5
@test "fault: munged stands still, and nothing waits for it without end" {
  kill -STOP "$(pidof munged)"
  status=0 start=$SECONDS
  ails munge "no answer within 10 s" "" "systemctl restart munge" || status=$?
  kill -CONT "$(pidof munged)"
  echo "$((SECONDS - start)) s"
  [ "$status" -eq 0 ]
  named fault slurmctld "no answer within" "" "systemctl status slurmctld"
}

@test "options before doctor, simulate, schedule, calibrate and profile are refused, and the message says where they belong" {
  for command in doctor simulate schedule calibrate profile; do
    run "$BOX/bin/espalier" --json "$command"
    [ "$status" = 2 ]
    [[ $output == *"$command: its options come behind it: espalier $command [OPTION...]"* ]]
  done
}
