#!/bin/bash
# plugins.sh: inside a box without espalierd (tests/cluster/box.sh -d -n 1 tests/bench/plugins.sh): what the plugins cost.
# job_submit in microseconds for each submission, and how long after a job's last process its GPUs are known to be free.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$BOX_HERE/jobs.bash"
"${CC:-cc}" -O2 -I"$BOX_REPO" -o "$BOX/bin/job_submit" "$here/job_submit.c" -Wl,--no-as-needed -lslurm -ldl -pthread
"$BOX/bin/job_submit" "$BOX/lib/job_submit_espalier.so" "${CALLS:-10000}"

python3 "$here/../cluster/spank/ear.py" /run/espalier/events.sock 7321 > "$BOX/log/ear" &
trap 'kill $! 2>/dev/null' EXIT
wait_for 5 "the ear listens" grep -q ready "$BOX/log/ear"
for _ in $(seq "${JOBS:-30}"); do as_user srun -Q --gres=gpu:1 date +%s.%N; done > "$BOX/home/ends"
wait_for 5 "every end is heard" eval '[ "$(grep -c gpus_released "$BOX/log/ear")" = "${JOBS:-30}" ]'
python3 - "$BOX/home/ends" "$BOX/log/ear" <<'P'
import json, statistics, sys
ends = [float(line) for line in open(sys.argv[1])]
heard = [json.loads(line)["time"] for line in open(sys.argv[2]) if "gpus_released" in line]
took = [(b - a) * 1000 for a, b in zip(ends, heard)]
print(f"epilog event, from the task's last act  jobs={len(took)} median_ms={statistics.median(took):.1f} max_ms={max(took):.1f}")
P
