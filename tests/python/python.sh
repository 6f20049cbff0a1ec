#!/bin/bash
# python.sh ARGUMENT...: the Python of the tests, with the pinned torch and this checkout's package `espalier`. Its wrapper
# (TEST_PYTHON) lets no PYTHONPATH through, so the package is named to it in another way.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
tree=${TORCH_HOME:?}/..
# etc/deps/accelerate.txt and lightning.txt; tests that need one ask whether it is there
more=${ACCELERATE_HOME:-$tree/../accelerate-1.15.0}:${LIGHTNING_HOME:-$tree/../lightning-2.6.6}
[ "$(readlink -f "${PYTHON:-}")" != "$(readlink -f "$0")" ] || PYTHON= # it would call itself for ever
for python in ${PYTHON:+"$PYTHON"} /usr/bin/python3 python3 python3.11; do
  [ "$("$python" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null)" = '3 11' ] || continue
  export PYTHONPATH=$tree:$more:${ESPALIER_PACKAGE:-$here/../../torchrt/python} LD_LIBRARY_PATH=$tree/absent OMP_NUM_THREADS=1
  unset PYTHONPYCACHEPREFIX # the bytecode of torch lies beside it (etc/deps/bytecode.sh)
  exec "$python" -s "$@"
done
echo "espalier: test: no Python 3.11 for the pinned torch; set PYTHON= to one" >&2
exit 127
