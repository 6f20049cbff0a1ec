# What a second, unprivileged user of the cluster can do at the store of torch in which the processes of a PyTorch training meet
# (MASTER_PORT). It asks nobody who they are, so its keys can be read and overwritten; nothing that stands there runs.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# limit: 1500
# each: 500
# beside

setup_file() { . "$BOX_HERE/pytorch.bash"; set_up_python; python_reference 1000; }
# By python.sh no spares are kept, so each process shows its own MASTER_PORT.
setup() { . "$BOX_HERE/pytorch.bash"; }
teardown() { clean_slate; rm -rf /tmp/mallory-ran; }

store() { # ADDRESS:PORT of the generation that trains
  local pid
  for pid in $(processes python3 "ESPALIER_GENERATION=$(metric A generation)"); do
    tr '\0' '\n' < "/proc/$pid/environ" | sed -n 's/^MASTER_ADDR=/a /p; s/^MASTER_PORT=/p /p' | sort | awk '{ print $2 }' | paste -sd:
    return
  done
  return 1
}
overwrite() { # NODE HOST:PORT
  (cd /tmp && exec ip netns exec "$1" setpriv --reuid mallory --regid mallory --clear-groups \
    /usr/bin/python3 "$BOX_REPO/tests/attacks/tcpstore.py" "$2" /tmp/mallory-ran) | tee -a "$BOX/log/attack"
}
# Of the store, before and after the training has changed its number of processes.
attack_the_store() {
  local at node
  at=$(store)
  ip netns exec n1 ss -Hltn "sport = :${at#*:}"
  [ "$(ip netns exec n1 ss -Hltn "sport = :${at#*:}" | awk '{ print $4 }')" = "$at" ] # nowhere else
  [ "${at%:*}" = 10.77.0.2 ]
  overwrite n1 "127.0.0.1:${at#*:}" | grep -q 'refused'
  for node in n1 n2; do
    overwrite "$node" "$at" | sed 's/^/# /' >&3
    wait_for 60 "A trains on" stepped_past A $(($(step_of A) + 10))
  done
  [ ! -e /tmp/mallory-ran ]
}
through_attacks() {
  python_cast 2:4
  attack_the_store
  finish near
  wait_for 300 "A runs on 4 GPUs" runs_on A 4
  attack_the_store
  python_goes_on_well
  [ ! -e /tmp/mallory-ran ]
}

@test "another user reads and overwrites all keys of a training's store: nothing of it runs, no step is lost, and it grows" {
  through_attacks
}

# bats test_tags=long:4
@test "the same of a training that torchrun starts" {
  torchrun_python
  through_attacks
}
