# What strangers, other users and broken peers may say to espalierd and to a launcher: each is refused with a message that
# names the problem, and changes nothing. A trains through all of it.
# box: -n 2 -e 'planner.least_gain = 1.2' -e 'planner.poll_seconds = 1' -e 'planner.cooldown_seconds = 1' -e 'planner.log_level = "debug"' -e 'extensions.max_gpus = 4'
# whole
# limit: 900
# each: 240

setup_file() {
  . "$BATS_TEST_DIRNAME/protocol/peers.bash"
  reference
  cast
  wait_for 20 "A is known" eval 'espalier show job "$A" -o | grep -q State=RUNNING'
  export A near far
}
setup() {
  . "$BATS_TEST_DIRNAME/protocol/peers.bash"
  before=$(state_of_things)
}
teardown() {
  [ -z "${crowd:-}" ] || kill "$crowd" 2>/dev/null || true
  [ -n "${BATS_TEST_COMPLETED:-}" ] || { tail -n 10 "$BOX/home/A.out" "$BOX/log/espalierd.log"; }
  [ -n "${changes:-}" ] || diff <(echo "$before") <(state_of_things)
}
teardown_file() { . "$BOX_HERE/training.bash"; BATS_TEST_COMPLETED=1 clean_slate; }

# --- the stream to espalierd ---------------------------------------------------------------------------------------------

@test "a truncated message ends with its connection, at once" {
  SECONDS=0
  talk boxuser $espalierd header:2:100 'text:{"type"' end
  [ "${lines[-1]}" = closed ]
  talk boxuser $control header:2:100 'text:{"type"' end
  [ "${lines[-1]}" = closed ]
  [ "$SECONDS" -le 8 ] # a service that waited for the rest would take five seconds with each
}

@test "a message that announces more than it may is refused before it has come" {
  talk boxuser $espalierd header:2:4294967295 text:x
  refused "a message of 4294967295 bytes is larger than allowed"
  talk boxuser $espalierd header:2:16385 text:x
  refused "a message of 16385 bytes is larger than allowed"
  talk boxuser $espalierd login header:2:8388609 text:x
  refused "a message of 8388609 bytes is larger than allowed"
}

@test "another protocol version is refused, and the message names both" {
  talk boxuser $espalierd header:1:2 'text:{}'
  refused "the peer speaks protocol version 1, this side 2; install the same Espalier on all nodes"
}

@test "another protocol altogether is refused" {
  talk boxuser $espalierd $'text:GET / HTTP/1.1\r\n\r\n'
  refused "not the Espalier protocol; check the port"
}

@test "what is not JSON, or has no type, is refused" {
  talk boxuser $espalierd 'frame:hold 1'
  refused "a message is not a JSON object"
  talk boxuser $espalierd 'frame:["query"]'
  refused "a message is not a JSON object"
  talk boxuser $espalierd 'frame:{"what":"ping"}'
  refused "a message has no type"
  talk boxuser $espalierd 'frame:{"type":7}'
  refused "a message has no type"
}

@test "a message nested without end is refused, before and after the handshake" {
  talk mallory $espalierd nested:refused:4000
  refused "nested too deeply"
  talk mallory $espalierd login nested:query:60000 # no larger: before admission 256 KiB are the limit
  refused "nested too deeply"
  talk mallory $control nested:query:60000
  refused "nested too deeply"
}

@test "a request without the login is refused" {
  talk boxuser $espalierd "$(query ping)"
  refused 'got \"query\" instead of \"login\"'
  talk boxuser $espalierd challenge "$(query ping)"
  refused 'got \"query\" instead of \"login\"'
}

@test "a peer that says nothing is closed after five seconds" {
  talk boxuser $espalierd challenge wait:7
  [ "${lines[-1]}" = closed ]
}

@test "a credential that is none, replayed, for others to read, or sealed for another login is refused by what is wrong" {
  talk boxuser $espalierd challenge credential:garbage
  refused "munge: credential refused"
  talk boxuser $espalierd login keep:"$BOX/home/credential"
  talk boxuser $espalierd challenge credential:@"$BOX/home/credential"
  refused "Replayed credential"
  wrong() { # CHANGE MESSAGE
    talk boxuser $espalierd challenge "seal:$1"
    refused "$2"
  }
  wrong "first=espalier 2 server" "the credential was made for something else"
  wrong "service=worker" "service worker is not here"
  wrong "job=17" "the credential is for job 17, not 0"
  wrong "server=10.77.0.3:7321" "the credential is for server 10.77.0.3:7321, not 10.77.255.254:7321: somebody passes the connection on"
  wrong "server=10.77.255.254:7322" "the credential is for server 10.77.255.254:7322, not 10.77.255.254:7321: somebody passes the connection on"
  wrong "server_uid=0" "the credential is for server_uid 0, not $(id -u "$BOX_SLURM_USER")"
  wrong "client_uid=4243" "the credential is for client_uid 4243, not 4242"
  wrong "server_nonce=00000000000000000000000000000000" "the credential is for server_nonce 00000000000000000000000000000000"
  wrong "client_nonce=0" "the credential's client_nonce is not 32 hex digits"
  wrong "token=0123" "the token is not this job's"
  wrong "key=0123" "the credential's key is not 64 hex digits"
  wrong "more=1" "the credential has more lines than it should"
  wrong "reader=" "the credential is not for uid $(id -u "$BOX_SLURM_USER") alone"
  wrong "reader=4242" "munge: credential refused: Unauthorized credential"
}

@test "what espalierd says to a stranger is who it is and a nonce, and no credential" {
  talk boxuser $espalierd
  [ "$(grep -c credential <<< "$output")" -eq 0 ]
  [[ ${lines[0]} == '{"nonce": "'*"\"uid\": $(id -u "$BOX_SLURM_USER")"* ]]
}

@test "a crowd of idle connections of another user does not keep espalierd from answering" {
  # What a service gets unless its unit says otherwise, and more connections than that.
  setpriv --reuid "$BOX_SLURM_USER" --regid "$BOX_SLURM_USER" --clear-groups prlimit --pid "$(cat "$BOX/pid/espalierd")" --nofile=1024:1024
  python3 "$BATS_TEST_DIRNAME/protocol/crowd.py" mallory $control 1100 > "$BOX/log/crowd" 2>&1 3>&- &
  crowd=$!
  wait_for 20 "the crowd is there" grep -q there "$BOX/log/crowd"
  cat "$BOX/log/crowd"
  SECONDS=0
  espalier ping
  as_user espalier show job "$A"
  [ "$SECONDS" -le 5 ]
  run as_user -u mallory espalier ping
  kill "$crowd"
  echo "$output"
  [[ $output == *"uid 4243 has too many connections; close some"* ]]
  wait_for 5 "there is room again" as_user -u mallory espalier ping
}

# --- launchers that are none ---------------------------------------------------------------------------------------------

@test "a launcher for another user's job is refused" {
  talk mallory $espalierd login "$(registration "$A")"
  refused "job $A: it belongs to uid 4242, not to uid 4243"
}

@test "a launcher for a job that does not exist, waits, or has ended is refused" {
  talk boxuser $espalierd login "$(registration 999999)"
  refused "job 999999: Slurm does not say that it is running"
  changes=1
  waiting=$(plain waiting -H --gres=gpu:1)
  talk boxuser $espalierd login "$(registration "$waiting")"
  refused "job $waiting: Slurm does not say that it is running"
  as_user scancel "$waiting"
  wait_for 5 "it has ended" job_over "$waiting"
  talk boxuser $espalierd login "$(registration "$waiting")"
  refused "job $waiting: Slurm does not say that it is running"
}

@test "a second launcher for a job that has one is refused with the reason, and the first goes on" {
  talk boxuser $espalierd login "$(registration "$A")"
  refused "job $A: it has a launcher already, process $(launcher_pid) on n1"
  run as_user timeout 60 srun --jobid="$A" --overlap -n1 --gres=gpu:2 --elastic=2:4 sh -c 'sleep 8; echo finished'
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *"another elastic step of this job runs, and a job has one at a time"*"the program runs without elasticity"* ]]
  [[ $output == *finished* ]]
  trains_on
}

@test "what only a launcher may say is refused before it has registered" {
  for message in '{"type":"status","job":'"$(job_json "$A")"'}' \
    '{"type":"bye","job":'"$A"',"exit_code":0}' \
    '{"type":"outcome","job":'"$A"'}' \
    '{"type":"transition","job":'"$A"'}'; do
    talk boxuser $espalierd login "frame:$message"
    refused 'not registered; only \"register\" and \"query\" are taken before'
  done
}

@test "a registration with fields that make no sense is refused by the field's name" {
  wrong() { # MORE MESSAGE
    talk boxuser $espalierd login "$(registration "$A" "$1")"
    refused "$2"
  }
  wrong '"max_gpus":-1' "reported with max_gpus -1; it must be between 0 and 1048576"
  wrong '"max_gpus":99999999999' "job.max_gpus: must be a smaller number"
  wrong '"max_gpus":"8"' "job.max_gpus: must be a whole number"
  wrong '"phase":"asleep"' "asleep"
  wrong '"plan":{"global_batch":8,"micro_batches":4,"stages":[{"layers":8,"tp":1,"replicas":[]}]}' "a plan with a stage's sum of shares of 0; it must be between 1 and 1048576"
}

@test "the topology of a node is taken from root and SlurmUser only" {
  talk boxuser $espalierd login 'frame:{"type":"topology","node":"n1","xml":"<?xml version=\"1.0\"?>"}'
  refused "topology is taken from root and SlurmUser only"
}

@test "hold, release and reclaim are for the job's owner" {
  for what in hold release reclaim; do
    run as_user -u mallory espalier "$what" "$A"
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *"job $A: belongs to uid 4242; only its owner, root and SlurmUser may $what it"* ]]
    talk mallory $espalierd login "$(query "$what" "{\"job\":$A}")"
    refused "only its owner, root and SlurmUser may $what it"
  done
}

# --- events --------------------------------------------------------------------------------------------------------------

accepted() { grep -q "debug .*: ESP1 job_submitted .*nodes=$1 " "$BOX/log/espalierd.log"; }
event() { echo "ESP1 job_submitted uid=0 gpus=0 nodes=$1 elastic=0"; } # NODES: marks it in the log

@test "a local event is taken from root and SlurmUser only" {
  talk boxuser datagram:$events "text:$(event 101)"
  talk root datagram:$events "text:$(event 102)"
  wait_for 5 "root's event is taken" accepted 102
  refute accepted 101
  grep -q 'event dropped .*uid 4242 may not report events' "$BOX/log/espalierd.log"
}

@test "an event over the network needs a credential of root or SlurmUser, and counts once" {
  talk boxuser udp:$espalierd "text:$(event 201)"
  talk boxuser udp:$espalierd "sealed:$(event 202)"
  talk root udp:$espalierd "sealed:$(event 203)" keep:"$BOX/share/event"
  talk root udp:$espalierd file:"$BOX/share/event"
  talk root udp:$espalierd "sealed:$(event 204)"
  wait_for 5 "root's events are taken" accepted 204
  accepted 203
  [ "$(grep -c 'debug .*: ESP1 .*nodes=203 ' "$BOX/log/espalierd.log")" -eq 1 ]
  refute accepted 201
  refute accepted 202
}

@test "root's event with nonsense in it is dropped" {
  for text in '' 'ESP2 job_submitted' 'ESP1 job_submitted' 'ESP1 gpus_released job=-1 node=n1' "ESP1 x $(printf 'a%.0s' {1..3000})"; do
    talk root datagram:$events "text:$text"
  done
  talk root datagram:$events "text:$(event 301)"
  wait_for 5 "a proper event is taken" accepted 301
}

# --- a launcher's control port -------------------------------------------------------------------------------------------

@test "a launcher talks to its own user only" {
  talk mallory "$(launcher)" "$(login_as worker)"
  refused "this job belongs to another user"
  talk mallory "$(launcher)" "$(hello 0 0)"
  refused 'got \"hello\" instead of \"login\"'
  trains_on
}

@test "a worker with a wrong token, job, rank or generation is refused, and the world goes on" {
  talk boxuser "$(launcher)" "$(login_as worker 0123456789abcdef0123456789abcdef)"
  refused "the token is not this job's"
  talk boxuser "$(launcher)" "$(login_as worker "" 999999)"
  refused "the credential is for job 999999, not $A"
  talk boxuser "$(launcher)" "$(login_as planner)"
  refused "service planner is not here"
  talk boxuser "$(launcher)" "$(login_as worker)" "$(hello 0 2)"
  refused "worker: rank 2 is not of a world of 2"
  talk boxuser "$(launcher)" "$(login_as worker)" "$(hello 0 -1)"
  refused "worker: rank -1 is not of a world of 2"
  talk boxuser "$(launcher)" "$(login_as worker)" "$(hello 0 1)"
  refused "worker: rank 1 is connected already"
  talk boxuser "$(launcher)" "$(login_as worker)" "$(hello 7 0)"
  refused "worker: generation 7 is not running"
  talk boxuser "$(launcher)" "$(login_as keeper)" "$(hello 0 0)"
  refused "message hello: the hello of what has logged in is expected first"
  trains_on
}

@test "a keeper of an unknown job, or with a wrong token, is refused" {
  talk boxuser "$(launcher)" "$(login_as keeper)" "$(keeper 999999 true)"
  refused "keeper: job 999999 is not awaited"
  talk boxuser "$(launcher)" "$(login_as keeper 00)" "$(keeper "$near" true)"
  refused "the token is not this job's"
  talk boxuser "$(launcher)" "login:service=keeper,job=$A" "$(keeper "$A" false)"
  refused "the token is not this job's"
  talk boxuser "$(launcher)" "$(login_as keeper)" "$(keeper "$near" true)"
  refused "keeper: job $near is not awaited"
  talk boxuser "$(launcher)" "$(login_as keeper)" "$(keeper "$near" false)"
  refused "keeper: job $near is not this launcher's"
  trains_on
}

@test "a rank server needs the token, does not take another's place, and is believed only of its own ranks" {
  talk boxuser "$(launcher)" "$(login_as ranks 0123456789abcdef0123456789abcdef)"
  refused "the token is not this job's"
  talk boxuser "$(launcher)" "$(login_as ranks)" "$(rank_server "$A" n1)"
  refused "rank server: that of job $A is there already"
  for of in '"generation":0,"rank":1' '"generation":0,"rank":-1' '"generation":7,"rank":0'; do
    talk boxuser "$(launcher)" "$(login_as ranks)" "$(rank_server 999999 n9)" "frame:{\"type\":\"rank_ended\",$of,\"code\":1,\"finalized\":true}" end
  done
  talk boxuser "$(launcher)" "$(login_as ranks)" "$(rank_server 999999 n9)" 'frame:{"type":"mischief"}'
  trains_on
}

@test "broken messages to a launcher are refused as espalierd refuses them" {
  talk boxuser "$(launcher)" header:1:2 'text:{}'
  refused "the peer speaks protocol version 1, this side 2"
  talk boxuser "$(launcher)" "$(login_as worker)" 'frame:{"type":"step","step":1,"loss":0,"seconds":1,"tokens_per_second":1}'
  refused "message step: the hello of what has logged in is expected first"
  talk boxuser "$(launcher)" "$(login_as worker)" nested:hello:1000000
  refused "nested too deeply"
  talk boxuser "$(launcher)" "$(login_as worker)" header:2:100 text:x end
  [ "${lines[-1]}" = closed ]
  trains_on
}

# --- forged environment --------------------------------------------------------------------------------------------------

@test "a launcher that claims another user's job in its environment gets nothing of it" {
  run as_user -u mallory timeout 60 env SLURM_JOB_ID="$A" SLURM_STEP_ID=9 SLURMD_NODENAME=n1 ESPALIER_MAX=8 \
    espalier-launch run -- sh -c 'echo "on $(hostname)"'
  echo "$output"
  [[ $output != *"on n1"* ]]
  trains_on
}

@test "the training that went on through all of this did each step once" {
  changes=1
  same_losses A
  as_user scancel "$A"
  leaves_nothing
}

@test "variables of the launcher that the user sets by hand do not reach its workers or keepers, nor lift the site's limit" {
  changes=1
  rm -f "$BOX"/home/A.*
  export ESPALIER_TOKEN=00000000000000000000000000000000 ESPALIER_LAUNCHER=10.77.0.9:1 ESPALIER_GENERATION=7 ESPALIER_ANCHOR=1 \
    ESPALIER_DIRECTORY=/nonexistent ESPALIER_MIN=0 ESPALIER_MAX=1000000 ESPALIER_ACTIVE=1 SPANK_ESPALIER_MAX=1000000
  A=$(elastic A 2:64 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  sleep 3
  runs_on A 4
  same_losses A
  as_user scancel "$A"
  leaves_nothing
}

@test "a launcher started by hand with a configuration of the user's own does not get more than the site's limit" {
  changes=1
  rm -f "$BOX"/home/A.*
  printf '[extensions]\nmax_gpus = 1000000\n[planner]\nhost = "ctl"\n[launch]\nnetwork = "10.77.0.0/16"\n' | as_user tee own.toml > /dev/null
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
ESPALIER_CONF=$BOX/home/own.toml ESPALIER_MAX=1000000 srun espalier-launch run -- espalier-train $BOX/share/examples/gpt-tiny.toml ${tiny[*]} \
  --steps 1000000 --metrics $BOX/home/A.jsonl
S
  A=$(as_user sbatch --parsable -o A.out -N1 -n1 -w n1 --gres=gpu:2 A.sh)
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  sleep 3
  runs_on A 4
  same_losses A
  as_user scancel "$A"
  leaves_nothing
}

@test "a variable that holds no number is named, and the program runs without elasticity" {
  changes=1
  run as_user timeout 30 srun -n1 --gres=gpu:2 env ESPALIER_MAX=1000001 espalier-launch run -- echo finished
  echo "$output"
  [ "$status" -eq 0 ]
  grep -qx finished <<< "$output" # on another stream than the message: either may come first
  [[ $output == *'ESPALIER_MAX="1000001": no number between 0 and 1000000'*"the program runs without elasticity"* ]]
}
