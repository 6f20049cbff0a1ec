#!/bin/bash
# measure.sh ARGUMENT...: inside a box: gives each rack of the large cluster an address, since espalierd counts newcomers by address,
# and runs espalier-bench-daemon.
set -euo pipefail
for i in {0..1}; do for j in {1..250}; do echo "addr add 10.78.$i.$j/32 dev lo"; done; done | ip -batch -
exec "$BOX/bin/espalier-bench-daemon" "$@"
