#!/bin/bash
# calibrate.sh OUTPUT: inside a box, how far `espalier calibrate` is from the bandwidths that tc gave the links.
set -euo pipefail
# shellcheck source=../../cluster/box/links.bash
. "$BOX_HERE/links.bash"
shape_links 200
espalier calibrate --program "$BOX/bin/espalier-train" --mpi mpirun --minutes 8 --json > "$BOX/share/found.json"
python3 - "$BOX/share/found.json" "$1" <<'P'
import json
import sys

found = json.load(open(sys.argv[1]))
# In GB/s: 200 Mbit/s in a leaf, half of that across the spine.
errors = [abs(found["nic_gb_s"] / 0.025 - 1), abs(found["nic_gb_s"] * found["crossing"] / 0.0125 - 1)]
named = [text for text in found["slow"] if "node n4" in text]
others = [text for text in found["slow"] if any(f"node n{i} " in text for i in (1, 2, 3))]
json.dump({"calibrate_error_max_pct": round(100 * max(errors), 2), "slow_node_named": bool(named) and not others},
          open(sys.argv[2], "w"))
P
