#!/usr/bin/env bats
# A generation looks at the links between its nodes, tells the launcher, and trains the same. All nodes are this machine.
# limit: 600
# each: 300

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  source "$BATS_TEST_DIRNAME/plays.bash"
  prepare
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
}

# told EXPRESSION: over `looks`, a list of (generation, number of the look, {pair of nodes: GB/s}), each look once
told() {
  python3 -c 'import json, sys
looks = []
for one in json.load(open("summary.json"))["profiles"]:
    links = one["links"]
    figures = {f["from"] + f["to"]: f["gb_s"] for f in links["figures"]}
    if not looks or looks[-1][:2] != (one["generation"], links["number"]):
        looks.append((one["generation"], links["number"], figures))
print(looks)
assert eval(sys.argv[1]), sys.argv[1]' "$1"
}

@test "every generation looks at the links that its plan uses, at its start, soon after and now and then, and no bit changes" {
  script "$(plan 4:2@a/0 4:2@b/0)" 60 "$(plan 8:1@a/0,1@b/0)" '{"abort": null}' 90 "$(plan 3:2@a/0 3:2@b/0 2:2@c/0)" '{"abort": null}' \
    120 "$(plan 4:2@a/0 4:2@a/1)" '{"abort": null}' > script.json
  play --set profile.links=4 --set profile.every=4 --set profile.dense=0 --set device.gflops=2
  losses_as_alone
  # The first report may come after the second look.
  told 'all(a[0] < b[0] or a[1] < b[1] for a, b in zip(looks, looks[1:])) and max(look[1] for look in looks if look[0] == 0) >= 3'
  told 'all(set(look[2]) == {"ab"} for look in looks if look[0] in (0, 1))'
  told 'any(look[0] == 1 and look[1] >= 2 for look in looks)'
  told 'all(set(look[2]) == {"ab", "bc"} for look in looks if look[0] == 2) and any(look[0] == 2 for look in looks)'
  told 'all(0.001 < gb_s < 1000 for look in looks for gb_s in look[2].values())'
}

@test "the first look is one before the first step, and the next one comes when it is time" {
  script "$(plan 4:2@a/0 4:2@b/0)" 20 "$(plan 8:2@a/0)" '{"abort": null}' > script.json
  play --set profile.links=1800 --set profile.every=4 --set profile.dense=0
  told '[look[1] for look in looks if look[0] == 0] == [1]'
}

@test "without another node, and with links = 0, nothing is looked at" {
  script "$(plan 4:2@a/0 4:2@a/1)" 20 "$(plan 8:2@a/0)" '{"abort": null}' > script.json
  play --set profile.links=10 --set profile.every=4 --set profile.dense=0
  told 'looks and all(look[1] == 0 for look in looks)'
  script "$(plan 4:2@a/0 4:2@b/0)" 20 "$(plan 8:2@a/0)" '{"abort": null}' > script.json
  play --set profile.links=0 --set profile.every=4 --set profile.dense=0
  told 'looks and all(look[1] == 0 for look in looks)'
}
