# espalierd's metrics: what a training does shows in them, a real Prometheus reads them, and the dashboard asks for what exists.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# beside
# limit: 900
# each: 300

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  [ ! -e "$BOX/pid/prometheus" ] || kill "$(cat "$BOX/pid/prometheus")" 2>/dev/null || true
  rm -f "$BOX/pid/prometheus"
  clean_slate
}

scrape() { python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:7322/metrics", timeout=10).read().decode(), end="")'; }
shows() { scrape | grep -qxE "$1"; }
needs() { for program; do command -v "$program" > /dev/null || skip "$program is not installed: etc/deps/packages.sh prometheus"; done; }

@test "what a training does shows in the metrics" {
  grown_cast
  held_at_rest # with another plan the growth's prediction is compared no more
  wait_for 20 "its six extensions' GPUs are told" shows 'espalier_gpus\{state="lent"\} 6'
  shows 'espalier_gpus\{state="anchor"\} 2'
  shows 'espalier_gpus\{state="idle"\} 0'
  shows "espalier_job_gpus\{slurm_job=\"$A\",uid=\"4242\",part=\"lent\"\} 6"
  wait_for 20 "the growth is counted" shows 'espalier_decisions_total\{kind="grow",outcome="committed"\} [1-9][0-9]*'
  wait_for 20 "its pause is counted" shows 'espalier_pause_seconds_count\{kind="grow"\} [1-9][0-9]*'
  wait_for 60 "the prediction's error is known" shows 'espalier_prediction_error_ratio_count\{kind="grow"\} [1-9][0-9]*'
  wait_for 60 "its tokens are told" shows "espalier_job_tokens_per_second\{slurm_job=\"$A\",uid=\"4242\"\} [0-9.e+]+"
  kill -KILL "$(workers "$(metric A generation)" | head -n 1)"
  wait_for 120 "a loss is counted" shows 'espalier_losses_total 1'
  as_user scancel "$A"
  leaves_nothing
  wait_for 20 "its series are gone" eval '! scrape | grep -q "slurm_job=\"$A\""'
}

@test "Prometheus reads the metrics, and every query of the dashboard names metrics that exist" {
  needs prometheus promtool
  scrape | promtool check metrics
  cat > "$BOX/prometheus.yml" <<'Y'
global: {scrape_interval: 1s}
scrape_configs: [{job_name: espalier, static_configs: [{targets: ['127.0.0.1:7322']}]}]
Y
  promtool check config "$BOX/prometheus.yml"
  prometheus --config.file="$BOX/prometheus.yml" --storage.tsdb.path="$BOX/prometheus" --web.listen-address=127.0.0.1:9090 \
    > "$BOX/log/prometheus.log" 2>&1 3>&- &
  echo $! > "$BOX/pid/prometheus"
  cast
  run timeout 120 python3 "$BOX_REPO/tests/cluster/dashboard.py" http://127.0.0.1:9090 "$BOX_REPO/etc/espalier-dashboard.json"
  echo "$output"
  [ "$status" -eq 0 ]
  as_user scancel "$A"
  leaves_nothing
}

# bats test_tags=long:5
@test "a user who floods the port keeps neither planner nor tools waiting" {
  cast
  as_user -u mallory /usr/bin/python3 "$BOX_REPO/tests/attacks/scrapes.py" 30 > "$BOX/log/flood" 2>&1 3>&- &
  flood=$!
  wait_for 20 "the flood has begun" grep -q begun "$BOX/log/flood"
  for _ in {1..20}; do timeout 5 espalier ping > /dev/null; done
  finish near
  finish far
  wait_for 100 "A grows all the same" eval '[ "$(gpus_of A)" -gt 2 ]'
  wait "$flood"
  cat "$BOX/log/flood"
  shows 'espalier_slurm_up 1'
  refute grep -q 'no file descriptor' "$BOX/log/espalierd.log"
  goes_on_well
}
