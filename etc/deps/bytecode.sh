#!/bin/bash
# bytecode.sh PYTHON DIR...: compiles the Python files in the packages of each DIR, once. A process that imports torch compiles a
# thousand files otherwise, each time where it may not write there, e.g. as another user: half of the import's time.
# The files of transformers' models stay out: there are thousands, and a program uses one or two.
set -euo pipefail
python=$1
shift
"$python" -c '' 2> /dev/null || exit 0 # no Python 3.11 here: nothing will import them
for dir; do
  [ -d "$dir" ] && [ -w "$dir" ] && [ ! -e "$dir/.bytecode" ] || continue
  if "$python" -m compileall -q -j 0 -x '/transformers/models/' "$dir" > /dev/null; then
    touch "$dir/.bytecode"
  else
    echo "espalier: deps: some Python files in $dir could not be compiled; programs that use them start more slowly. Is the disk full?" >&2
  fi
done
