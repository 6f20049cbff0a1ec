# espalierd and more launchers than a box has GPUs for (tests/bench/daemon): `espalier-bench daemon` in small.
# box: -d -n 1 -e 'planner.topology_file = "/run/box/share/topology.conf"'
# each: 300
bats_require_minimum_version 1.5.0

@test "150 launchers register, grow and are asked about; after SIGKILL of espalierd all come back, and it decides again" {
  [[ $(sinfo --version) == *22.05* ]] || skip "made for the records of Slurm 22.05"
  "$BOX_REPO/tests/bench/daemon/measure.sh" --gpus 512 --launchers 150 --seconds 5 --settle 5 --questions 20 --churn 2 --seed 1 --output "$BOX/log/figures.json"
  python3 - "$BOX/log/figures.json" << 'P'
import json, sys
figures = json.load(open(sys.argv[1]))
print({name: figures[name] for name in ("first_registered_s", "all_back_s", "first_decision_s", "cpu_cores", "rss_mib", "ping_p99_ms")})
assert figures["committed"] > 0 and figures["first_decision_s"] is not None, figures
# Jobs end and start meanwhile: those of the last moments may still be on their way.
assert figures["running"] >= 100 and figures["back"] >= figures["running"] - 3 and figures["all_back_s"] < 60, figures
assert figures["questions_failed"] == 0 and figures["refused"] == 0, figures
P
}
