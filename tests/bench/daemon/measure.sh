#!/bin/bash
# measure.sh ARGUMENT...: inside a box: gives each rack of the large cluster an address, since espalierd counts newcomers by address,
# and runs espalier-bench-daemon.
set -euo pipefail
case $(sinfo --version) in
  'slurm-wlm 22.05'* | 'slurm 22.05'*) ;;
  *) echo "espalier-bench: daemon: knows the records of Slurm 22.05 only; here is $(sinfo --version)" >&2; exit 1 ;;
esac
for i in {0..1}; do for j in {1..250}; do echo "addr add 10.78.$i.$j/32 dev lo"; done; done | ip -batch -
exec "$BOX/bin/espalier-bench-daemon" "$@"
