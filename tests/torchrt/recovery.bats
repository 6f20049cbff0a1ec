#!/usr/bin/env bats
# Ranks and nodes that are lost while they train: a director plays the launcher and keeps the vaults of all nodes. What
# is left is found, and training goes on as if nothing had been.
# limit: 900
# each: 200

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  source "$BATS_TEST_DIRNAME/plays.bash"
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  prepare
}

# script FIRST [AFTER PLAN LOSS]...: a loss is JSON, e.g. {"kill": [1]}
script() {
  python3 - "$@" << 'PY'
import json, sys
first, rest = sys.argv[1], sys.argv[2:]
acts = [{"after": int(a), "plan": json.loads(p), **json.loads(x)} for a, p, x in zip(rest[::3], rest[1::3], rest[2::3])]
print(json.dumps({"first": json.loads(first), "acts": acts}))
PY
}

two() { plan 4:2@a/0 4:2@a/1; }
replicas() { plan 8:1@a/0,1@b/0; }

@test "a killed rank's state outlives it: the next generation adopts all of it and no step is lost" {
  script "$(two)" 5 "$(two)" '{"kill": [1]}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["from"] == "generation" and acts[0]["step"] >= 5 and acts[0]["living"] == 0'
  acts 'acts[0]["bytes_copied"] == acts[0]["bytes_sent"] == 0 and acts[0]["bytes_adopted"] > 0'
}
