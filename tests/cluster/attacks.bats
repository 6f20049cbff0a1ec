# What a second, unprivileged user of the cluster can do to a running training, on its node and from another one: nothing. The
# programs of the attacks are in tests/attacks.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 1200
# each: 300

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() {
  . "$BOX_HERE/training.bash"
  attackers=() # processes of the test's own in the background
}
teardown() {
  # bats' own jobs are left alone: its watchdog's sleep would outlive it and hold the output open.
  [ ${#attackers[@]} -eq 0 ] || kill "${attackers[@]}" 2> /dev/null || true
  clean_slate
}

# "PROGRAM ADDRESS PORT" of everything of the job's user that listens on a node.
listeners() { # NODE
  ip netns exec "$1" ss -Hltnp | sed -n 's/.* \([0-9.]*\|\*\|\[.*\]\):\([0-9]*\) *[^ ]*:\* *users:(("\([^"]*\)",.*/\3 \1 \2/p' |
    grep -E '^(espalier-(launch|ranks|train)|srun) ' || true
}
ports() { listeners "$1" | awk -v program="$2" '$1 == program { print $3 }'; }
# Runs an attack as mallory on a node, in the background, until its connections stand.
attack() { # NODE SECONDS BYTES HOST:PORT...
  local node=$1
  shift
  rm -f "$BOX/log/attack" # of an earlier one, which is waited for no more
  (cd /tmp && exec ip netns exec "$node" setpriv --reuid mallory --regid mallory --clear-groups \
    /usr/bin/python3 "$BOX_REPO/tests/attacks/connections.py" "$@" > "$BOX/log/attack" 3>&-) &
  attackers+=($!)
  wait_for 30 "mallory's connections stand" grep -q connected "$BOX/log/attack"
}
attack_and_wait() { attack "$@" && wait_for 60 "the attack is over" eval '! pgrep -u mallory > /dev/null'; }
# The longest time between two steps of A while a command runs, in ms.
longest_gap() {
  local from
  from=$(wc -l < "$BOX/home/A.jsonl")
  "$@" || return
  python3 - "$BOX/home/A.jsonl" "$from" <<'P'
import json, sys
steps = [json.loads(line) for line in open(sys.argv[1]) if line.endswith("\n")][int(sys.argv[2]):]
print(round(max((step.get("seconds", 0) for step in steps), default=0) * 1000))
P
}

@test "a world listens where the launcher and MPI do, and on the loopback interface; no port of it starts or ends processes" {
  grown_cast
  for node in n1 n2; do
    listeners "$node"
    [ "$(listeners "$node" | grep -c '^espalier-ranks 127.0.0.1 ')" -ge 1 ]
    [ "$(listeners "$node" | grep '^espalier-ranks ' | grep -vc ' 127.0.0.1 ')" -eq 0 ]
    [ "$(listeners "$node" | grep -Evc '^(espalier-ranks|espalier-launch|espalier-train|srun) ')" -eq 0 ]
  done
  [ "$(ports n2 espalier-launch | wc -l)" -eq 0 ] # one launcher, on n1
  goes_on_well
}

# bats test_tags=long:6
@test "connections of another user of the node to PMIx are closed at once, and the next generation starts beside them" {
  cast
  targets=$(for port in $(ports n1 espalier-ranks); do echo "127.0.0.1:$port"; done)
  [ -n "$targets" ]
  attack n1 20 0 $targets
  finish near
  finish far
  grows_to_eight
  wait_for 60 "the attack is over" eval '! pgrep -u mallory > /dev/null'
  cat "$BOX/log/attack"
  for target in $targets; do grep -qx "$target 0" "$BOX/log/attack"; done
  goes_on_well
}

# bats test_tags=long:2
@test "another user's connections to all ports of a training, silent or with nonsense, from its node, another and outside, end and stop nothing" {
  grown_cast
  held_at_rest
  generation=$(metric A generation)
  # A machine on the network that is none of the cluster's.
  ip netns add outside
  ip link add outside type veth peer name eth0 netns outside
  ip link set outside master br0 up
  ip -n outside -batch - <<< $'link set lo up\naddr add 10.77.200.1/16 dev eth0\nlink set eth0 up'
  for node in n1 n2 outside; do
    targets=$(for port in $(ports n1 espalier-launch) $(ports n1 espalier-train); do echo "10.77.0.2:$port"; done
      for port in $(ports n2 espalier-train); do echo "10.77.0.3:$port"; done)
    for bytes in 0 7 200; do
      before=$(step_of A)
      gap=$(longest_gap attack_and_wait "$node" 4 "$bytes" $targets)
      cat "$BOX/log/attack"
      echo "from $node with $bytes bytes: the longest step took $gap ms" >&3
      [ "$gap" -le "$(awk -v most=2000 -v cores="$(nproc)" '{ print ($1 >= cores ? 2 * most : most) }' /proc/loadavg)" ] # seen: below 600 ms; Open MPI alone waits for two seconds
      wait_for 60 "A trains on" stepped_past A $((before + 5))
    done
  done
  ip netns del outside
  [ "$(metric A generation)" = "$generation" ]
  refute reached recovering
  goes_on_well
}

# Finding 5 of the security review: the names of vaults' sockets can be guessed, and a user of the node can take them first.
@test "another user of the node holds the names of a job's vaults: the job trains, and a loss heals from memory as without that" {
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:1)
  (cd /tmp && exec ip netns exec n1 setpriv --reuid mallory --regid mallory --clear-groups /usr/bin/python3 \
    "$BOX_REPO/tests/attacks/squat.py" "espalier-vault-$((near + 1)).0" 64 600 > "$BOX/log/squat" 3>&-) &
  attackers+=($!)
  wait_for 30 "the names are taken" grep -q squatted "$BOX/log/squat"
  A=$(elastic A 3:3 -N1 -n1 -w n1 --gres=gpu:3 -- "${tiny[@]}" --steps 1000000)
  [ "$A" = $((near + 1)) ]
  wait_for 120 "A trains" stepped_past A 10
  [ "$(ip netns exec n1 ss -Hlxp | grep -c "@espalier-vault-$A")" -ge 66 ] # mallory's, and one of the job's own
  held_at_rest # it may just get a faster plan on its GPUs
  before=$(metric A generation)
  kill -KILL "$(workers "$before" | tail -n 1)"
  wait_for 120 "A trains in a generation after $before" eval '[ "$(metric A generation)" -gt '"$before"' ]'
  wait_for 60 "it is told" grep -q 'training went on' "$BOX/home/A.out"
  grep 'training went on' "$BOX/home/A.out"
  # From the memory of the step before the loss: no step is done again. The ranks may have done one more than they had told.
  grep 'training went on' "$BOX/home/A.out" | sed -n 's/.* after step \([0-9]*\);.* of step \([0-9]*\),.*/\1 \2/p' > "$BOX/log/steps"
  [ -z "$(awk '$2 < $1' "$BOX/log/steps")" ]
  kill "${attackers[@]}"
  attackers=()
  wait_for 10 "mallory is gone" eval '! pgrep -u mallory > /dev/null'
  goes_on_well
}
