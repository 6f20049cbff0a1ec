#!/bin/bash
# report.sh: runs the tests of attacks and adds to $BUILD/attacks.json how many attacks succeeded: each test that fails is one.
# `make test-attacks` calls it.
set -uo pipefail
status=0
tests/run.sh cluster 2>&1 | tee "$BUILD/attacks.log" || status=1
python3 - "$BUILD/attacks.json" "$BUILD/attacks.log" << 'P'
import json, pathlib, re, sys
figures = pathlib.Path(sys.argv[1])
counts = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", pathlib.Path(sys.argv[2]).read_text(), re.M)
known = json.loads(figures.read_text()) if figures.exists() else {}
known["attacks_succeeded"] = int(counts[-1][1]) if counts else None
figures.write_text(json.dumps(known, sort_keys=True) + "\n")
print(figures.read_text(), end="")
P
exit $status
