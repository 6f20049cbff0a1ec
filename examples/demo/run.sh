#!/bin/bash
# run.sh: `make demo`. Brings a 4-node Slurm up in a box of this machine, lets the story happen in it (story.sh), and reports
# (report.py). Everything it says is measured; it fails when a step is lost, a loss differs, or something is left behind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
export BUILD=${BUILD:-$repo/build}
BUILD=$(realpath "$BUILD")
DEMO=$BUILD/demo
exec 9> "$BUILD/demo.lock"
flock -n 9 || { echo "espalier: demo: another one runs in this checkout; wait for it" >&2; exit 1; }
rm -rf "$DEMO"
mkdir -p "$DEMO"

status=0
timeout -k 10 "${DEMO_LIMIT:-400}" "$repo/tests/cluster/box.sh" -k "$DEMO/logs" \
  -e 'planner.poll_seconds = 1' -e 'planner.cooldown_seconds = 2' "$here/story.sh" "$DEMO" || status=$?
case $status in
  0) ;;
  75) exit 75 ;;
  *) echo "espalier: demo: the story broke off; logs are in $DEMO/logs" >&2; exit 1 ;;
esac

# The box is gone: no process may still be in its namespaces.
mapfile -t namespaces < "$DEMO/namespaces"
survivors=0
for link in /proc/[0-9]*/ns/{pid,net}; do
  space=$(readlink "$link" 2>/dev/null) || continue
  for mine in "${namespaces[@]}"; do [ "$space" != "$mine" ] || survivors=$((survivors + 1)); done
done
exec python3 "$here/report.py" "$DEMO" "$survivors"
