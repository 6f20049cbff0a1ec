# What somebody between two peers of a TCP connection can do: end it, and nothing else. The programs of the attacks are in
# tests/attacks. `relay.py` passes a login between a client and its server on and then interferes: from another port, as a second
# user of the cluster can; or on the path between both, as somebody who rules the network can.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# whole
# limit: 900
# each: 240
# beside

ping='frame:{"type":"query","what":"ping","arguments":{}}'
ctl=10.77.255.254:7321

setup_file() {
  . "$BOX_HERE/training.bash"
  reference
  A=$(elastic A 2:2 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  export A
  wait_for 120 "A trains" stepped_past A 5
  wait_for 20 "A is known" eval 'espalier show job "$A" -o | grep -q State=RUNNING'
  # A place whose only way to the controller is the attacker's.
  ip netns add victim
  ip -n victim link set lo up
  ip -n victim addr add "${ctl%:*}/32" dev lo
}
setup() {
  . "$BOX_HERE/training.bash"
  attackers=() # processes of the test's own in the background
}
teardown() {
  # bats' own jobs are left alone: its watchdog's sleep would outlive it and hold the output open.
  [ ${#attackers[@]} -eq 0 ] || kill "${attackers[@]}" 2> /dev/null || true
  [ -n "${BATS_TEST_COMPLETED:-}" ] || tail -n 5 "$BOX"/log/{relay,espalierd.log}
}
teardown_file() {
  . "$BOX_HERE/training.bash"
  ip netns del victim
  BATS_TEST_COMPLETED=1 clean_slate
}

hold() { echo "{\"type\":\"query\",\"what\":\"hold\",\"arguments\":{\"job\":$A}}"; }
held() { espalier show job "$A" -o | grep -q Held=Yes; }
# on_path MODE [TEXT]: a relay between the place `victim` and espalierd, which both take for a direct connection.
on_path() {
  rm -f "$BOX/log/relay" # of the one before, which listened too
  (cd /tmp && exec /usr/bin/python3 "$BOX_REPO/tests/attacks/relay.py" --in victim "$ctl" "$ctl" "$@" > "$BOX/log/relay" 2>&1 3>&-) &
  attackers+=($!)
  wait_for 10 "the relay listens" grep -q listening "$BOX/log/relay"
}
# victim STEP...: boxuser's client in that place. What it prints, and what the relay saw, is in $output.
victim() {
  run timeout 30 ip netns exec victim python3 "$BATS_TEST_DIRNAME/protocol/probe.py" boxuser "$ctl" login "$@"
  wait_for 20 "the relay is done" grep -q over "$BOX/log/relay"
  output+=$'\n'$(cat "$BOX/log/relay")
  echo "$output"
  grep -q 'logged in' "$BOX/log/relay"
}

# outside COMMAND...: as root of a machine that is on the network and not of the cluster. Its MUNGE has a key of its own.
outside() {
  ip netns add outside
  ip link add outside type veth peer name eth0 netns outside
  ip link set outside master br0 up
  ip -n outside -batch - <<< $'link set lo up\naddr add 10.77.200.1/16 dev eth0\nlink set eth0 up'
  run timeout 60 ip netns exec outside unshare --mount --pid --fork --kill-child --mount-proc bash -c '
    for one in /etc/munge /run/munge /var/lib/munge /run/espalier; do mount -t tmpfs none $one || exit; done
    chown munge: /etc/munge /run/munge /var/lib/munge && chmod 700 /etc/munge /var/lib/munge && chmod 755 /run/munge &&
      mungekey -c -k /etc/munge/munge.key && chown munge: /etc/munge/munge.key &&
      setpriv --reuid munge --regid munge --clear-groups munged && munge -n > /dev/null && echo "munge answers" && "$@"' - "$@"
  ip netns del outside
  echo "$output"
  [[ $output == *"munge answers"* ]]
}

@test "outside the cluster, with a MUNGE of its own: espalierd lets nobody in, whoever he says he is" {
  outside bash -c "setpriv --reuid boxuser --regid boxuser --clear-groups $BOX/bin/espalier hold $A; $BOX/bin/espalier hold $A"
  refute held
  [ "$status" -ne 0 ]
  [ "$(grep -c '^espalier: ' <<< "$output")" -ge 2 ]
}

@test "outside the cluster, with a MUNGE of its own: the launcher takes none of its workers or keepers from there" {
  port=$(ip netns exec n1 ss -Hltnp | sed -n 's/.*:\([0-9]*\) *[^ ]*:\* *users:(("espalier-launch",.*/\1/p' | head -n 1)
  [ -n "$port" ]
  before=$(step_of A)
  outside timeout 30 python3 "$BATS_TEST_DIRNAME/protocol/probe.py" boxuser "10.77.0.2:$port" login \
    'frame:{"type":"hello","generation":0,"rank":0,"node":"n1","pid":1}'
  [[ $output != *'"type": "assign"'* ]]
  wait_for 60 "A trains on" stepped_past A $((before + 5))
  refute grep -q recovering "$BOX/home/A.out"
}

@test "live relay from another port: the victim's client is not let in, and nothing is done in its name" {
  sed "s/^planner.host.*/planner.host = \"10.77.0.3\"\nplanner.port = 7399\nplanner.run_dir = \"\/nonexistent\"/" /etc/espalier/espalier.toml \
    > "$BOX/share/relayed.toml"
  rm -f "$BOX/log/relay"
  (cd /tmp && exec ip netns exec n2 setpriv --reuid mallory --regid mallory --clear-groups /usr/bin/python3 \
    "$BOX_REPO/tests/attacks/relay.py" 10.77.0.3:7399 "$ctl" inject "$(hold)" > "$BOX/log/relay" 2>&1 3>&-) &
  attackers+=($!)
  wait_for 10 "the relay listens" grep -q listening "$BOX/log/relay"
  run timeout 60 ip netns exec n1 setpriv --reuid boxuser --regid boxuser --clear-groups \
    env ESPALIER_CONF="$BOX/share/relayed.toml" "$BOX/bin/espalier" ping
  echo "$output"
  cat "$BOX/log/relay"
  refute held
  refute grep -q 'logged in' "$BOX/log/relay"
  [[ $output == *"the credential is for server 10.77.0.3:7399, not $ctl: somebody passes the connection on"* ]]
}

@test "live relay on the path: a message of the attacker's own ends the connection and is not obeyed" {
  on_path inject "$(hold)"
  victim "$ping"
  refute held
  [[ $output == *"message 0 was not sent as it came: it has been altered on the way, or somebody else has sent it"* ]]
  [[ $output != *'"type": "reply"'* ]]
}

@test "live relay on the path: a message that passes untouched is answered" {
  on_path pass
  victim "$ping" "$ping"
  [ "$(grep -c '^server: .*"type": "reply"' "$BOX/log/relay")" -eq 2 ]
}

@test "live relay on the path: an altered message ends the connection" {
  on_path alter
  victim "$ping"
  [[ $output == *"message 0 was not sent as it came: it has been altered on the way"* ]]
  [[ $output != *'"type": "reply"'* ]]
}

@test "live relay on the path: a message that comes twice is answered once and ends the connection" {
  on_path replay
  victim "$ping"
  [[ $output == *"message 1 was not sent as it came: it repeats message 0"* ]]
  [ "$(grep -c '^server: .*"type": "reply"' "$BOX/log/relay")" -le 1 ]
}

@test "live relay on the path: messages in another order, or one left out, end the connection" {
  for mode in reorder drop; do
    on_path $mode
    victim "$ping" "$ping"
    [[ $output == *"message 0 was not sent as it came: it is message 1, and others before it are missing"* ]]
    [[ $output != *'"type": "reply"'* ]]
  done
}

@test "live relay on the path: half a message is not answered" {
  on_path cut
  victim "$ping"
  [[ $output != *'"type": "reply"'* ]]
}

@test "live relay on the path: a message to the client that is not the server's is noticed" {
  on_path inject-to-client '{"type":"reply","result":{}}'
  victim "$ping"
  [[ $output == *"a frame of the server's has a wrong tag"* ]]
}

@test "12,000 squatted ports: a job of two nodes starts, its keepers find it, and nobody comes to the attacker" {
  as_user scancel "$A"
  wait_for 60 "A is over" job_over "$A"
  over=$(mktemp -u /tmp/ports-over.XXXXXX) # where mallory sees it
  (cd /tmp && exec ip netns exec n1 setpriv --reuid mallory --regid mallory --clear-groups /usr/bin/python3 \
    "$BOX_REPO/tests/attacks/ports.py" 20000 12000 120 "$over" > "$BOX/log/ports" 2>&1 3>&-) &
  wait_for 30 "mallory has the ports" grep -q took "$BOX/log/ports"
  rm -f "$BOX"/home/B.*
  B=$(elastic B 4:4 -N2 -n2 -w n1,n2 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 50 "B trains on both nodes" stepped_past B 5
  place=$(tr '\0' '\n' < "/proc/$(processes espalier-train ESPALIER_GENERATION=0 | head -n 1)/environ" | sed -n 's/^ESPALIER_LAUNCHER=//p')
  echo "the launcher is at $place" >&3
  keeper_is_there() { ip netns exec n2 ss -Htnp state established dst "$place" | grep -q espalier-keeper; }
  wait_for 30 "the keeper of n2 has found it" keeper_is_there
  touch "$over"
  wait_for 90 "the attack is over" grep -q connections "$BOX/log/ports"
  cat "$BOX/log/ports"
  rm -f "$over"
  grep -qx 'connections 0' "$BOX/log/ports"
  as_user scancel "$B"
  leaves_nothing
}
