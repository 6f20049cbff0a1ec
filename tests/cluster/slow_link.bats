# A node whose link is far slower than those of its like.
# box: -n 4 -g 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.plan_trials = 0' -e 'planner.log_level = "debug"'
# limit: 900
# each: 500
# bats file_tags=long:5

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# What n3 sends and gets. The other links are veths without a limit.
slow_link_of_n3() {
  tc -n n3 qdisc add dev eth0 root tbf rate 100mbit burst 32kb latency 50ms &&
    tc qdisc add dev v3 root tbf rate 100mbit burst 32kb latency 50ms
}
record_of() { espalier show nodes | grep -A5 "^NodeName=$1 "; }
shows_slow_links() { record_of n3 | grep -qE 'SlowLinks=to n[][0-9,-]* at [0-9]+% of their like, as 1 job measured'; }
told_to() { espalier show nodes --json | python3 -c 'import json, sys
nodes = {node["name"]: node for node in json.load(sys.stdin)["nodes"]}
print(*(name for name, node in sorted(nodes.items()) if "slow_links" in node))'; }

@test "a slow link is named by the job that trains across it, and a growth of the user's next job goes elsewhere" {
  slow_link_of_n3 || skip "tc and the kernel's tbf are needed"
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:1)
  A=$(elastic A 4:4 -N4 -n4 --gres=gpu:1 -- "${tiny[@]}" --set parallel.pp=1 --set parallel.tp=1 --set profile.links=20 --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  wait_for 120 "n3 is named" shows_slow_links
  espalier show nodes
  [ "$(told_to)" = n3 ]
  grep -E "node n3: its links to n[][0-9,-]* reach [0-9]+% of their like, as job $A measured" "$BOX/log/espalierd.log"
  # n2, n3 and n4 have an idle GPU each. By their names n3 would come first.
  B=$(elastic B 1:2 -N1 -n1 -w n2 --gres=gpu:1 -- "${tiny[@]}" --set parallel.pp=1 --set parallel.tp=1 --steps 1000000)
  wait_for 120 "B trains" stepped_past B 10
  wait_for 200 "B runs on 2 GPUs" runs_on B 2
  espalier show job "$B"
  [[ $(metric B plan) == *n4/* ]]
  [[ $(metric B plan) != *n3/* ]]
  same_losses B
  as_user scancel "$B"
  goes_on_well
}
