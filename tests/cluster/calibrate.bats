# espalier calibrate: the cluster measures itself. Links are shaped by tc; what it finds is compared with that.
# The nodes of a box share /tmp, where Slurm's PMIx wants a directory of its own on each: ranks are started by mpirun.
# box: -n 4 -g 2 -e 'planner.log_level = "debug"'
# limit: 1500
# each: 600

setup() { . "$BOX_HERE/jobs.bash"; . "$BOX_HERE/links.bash"; }
teardown() {
  [ -z "$(squeue -h)" ] || { squeue; scancel -n espalier-calibrate; scancel -u boxuser; wait_for 45 "the queue is empty" eval '[ -z "$(squeue -h)" ]'; }
  rm -rf /tmp/ompi.* /dev/shm/*
}

of() { python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(eval(sys.argv[2], {"j": j}))' "$BOX/share/found.json" "$1"; }
# A quiet machine measures within 10% (RESULTS.md has the figures); one that is busy with other tests was seen 15% off.
near() { # PERCENT MEASURED SHAPED
  python3 -c 'import sys; p, m, s = map(float, sys.argv[1:]); e = 100 * (m / s - 1); print(f"measured {m:.5g}, shaped {s:.5g}: {e:+.1f}%"); sys.exit(abs(e) > p)' "$@"
}

# bats test_tags=long:4
@test "bandwidths are what was shaped, and the slow link is named" {
  # Slow links, so that ranks reach their speed on a machine that is busy, too.
  shape_links 120 || skip "tc and the kernel's htb and tbf are needed"
  espalier calibrate --dry-run | tee "$BOX/share/dry"
  grep -q 'Pairs: n1-n2 n3-n4 n1-n3 n1-n4 n2-n3 n2-n4' "$BOX/share/dry"
  start=$SECONDS
  espalier calibrate --program "$BOX/bin/espalier-train" --mpi mpirun --minutes 8 --json > "$BOX/share/found.json"
  echo "measured for $((SECONDS - start)) s"
  cat /var/lib/espalier/calibrated.toml
  of '"\n".join(j["slow"] + j["notes"])'
  of 'j["by_distance"], j["pair_reduce_gb_s"], j["tp_gb_s"], j["dp_gb_s"], j["reduce_error"]'
  near 25 "$(of 'j["nic_gb_s"]')" 0.015
  near 25 "$(of 'j["nic_gb_s"] * j["crossing"]')" 0.0075
  [ "$(of 'j["nics"]')" = 1 ]
  [[ $(of 'j["slow"]') == *"node n4 sends"* ]]
  [[ $(of 'j["slow"]') == *"node n4 receives"* ]]
  [[ $(of 'j["slow"]') != *"node n"[123]" sends"* ]]
  [[ $(of 'j["slow"]') != *"node n"[123]" receives"* ]]
  [[ $(of 'j["notes"]') != *"time ran out"* ]]
  [ "$(of 'j["gpus"]["h100"]["count"]')" = 8 ]
  [ -z "$(squeue -h)" ]
}

configured() { espalier show config --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
reload() { kill -HUP "$(cat "$BOX/pid/espalierd")"; }

# In the same runs as the test before it, which measures.
# bats test_tags=long:4
@test "espalierd reads what was measured at SIGHUP, and espalier.toml wins key by key" {
  [ -s /var/lib/espalier/calibrated.toml ]
  [ "$(configured network.nic_gb_s)" = 10.0 ]
  reload
  wait_for 20 "the measured figures are in force" eval '[[ $(configured calibrated.used) == *network.nic_gb_s* ]]'
  near 25 "$(configured network.nic_gb_s)" 0.015
  [ "$(configured network.nics)" = 1 ]
  [[ $(configured network.measured) == 20*T*Z ]]
  [[ $(configured gpu.h100.measured) == 20*T*Z ]]
  espalier show config | grep 'network.measured=20'
  cp /etc/espalier/espalier.toml "$BOX/share/before.toml"
  echo 'network.nics = 2' >> /etc/espalier/espalier.toml
  reload
  wait_for 20 "espalier.toml wins" eval '[ "$(configured calibrated.overruled)" = network.nics ]'
  [ "$(configured network.nics)" = 2 ]
  near 25 "$(configured network.nic_gb_s)" 0.015
  echo 'network.nic_gb_s = "fast"' > /var/lib/espalier/calibrated.toml
  reload
  wait_for 20 "a broken file is not used" eval '[ "$(configured calibrated.used)" = "" ]'
  [[ $(configured calibrated.problem) == *"calibrated.toml:1: network.nic_gb_s: must be a number"* ]]
  [ "$(configured network.nics)" = 2 ]
  cp "$BOX/share/before.toml" /etc/espalier/espalier.toml
  rm /var/lib/espalier/calibrated.toml
}

@test "where Slurm gives no nodes in time calibrate says so, and nothing is left in the queue" {
  job=$(as_user sbatch --parsable -J busy -o "$BOX/home/busy.out" -N1 -n1 -w n1 --gres=gpu:1 --wrap 'sleep 600')
  wait_for 20 "the other job runs" job_is "$job" RUNNING
  run espalier calibrate --nodes n1,n2 --wait 3
  echo "$output"
  [ "$status" -eq 1 ]
  [[ $output == *"Slurm gave no nodes within 3 s (n[1-2], whole nodes)"* ]]
  run espalier calibrate --nodes n1,n9
  [ "$status" -eq 1 ]
  [[ $output == *"n9: Slurm has no such node"* ]]
  scancel "$job"
  wait_for 45 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
}

@test "a signal and a killed calibrate end the job" {
  for signal in INT KILL; do
    espalier calibrate --program "$BOX/bin/espalier-train" --mpi mpirun --nodes n1,n2 > "$BOX/share/out" 2>&1 3>&- &
    pid=$!
    wait_for 30 "the job runs" eval '[ -n "$(squeue -h -n espalier-calibrate -t RUNNING)" ]'
    kill -$signal $pid
    wait $pid || true
    wait_for 60 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
    [ ! -e /var/lib/espalier/calibrated.toml ]
  done
  wait_for 60 "no rank is left" eval '! pgrep -x espalier-train'
}
