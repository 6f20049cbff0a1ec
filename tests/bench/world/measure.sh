#!/bin/bash
# measure.sh RANKS NODES ROUNDS OUTPUT: inside a box: the times of espalier-bench-world in a plain job of NODES nodes, as JSON.
set -euo pipefail
. "$BOX_HERE/jobs.bash"
ranks=$1 nodes=$2 rounds=$3 output=$4
here=$(cd "$(dirname "$0")" && pwd)
mpicc -O2 -o "$BOX/share/probe" "$here/probe.c"
as_user srun -N"$nodes" -n1 --ntasks-per-node=1 -r0 -w n1 --gres=gpu:4 true > /dev/null 2>&1 || true
as_user salloc --quiet -N"$nodes" --gres=gpu:$(((ranks + nodes - 1) / nodes)) \
  srun --overlap --mpi=none -N1 -n1 -w n1 "$BOX/bin/espalier-bench-world" "$ranks" "$rounds" "$BOX/home/world" "$BOX/share/probe" > "$output"
