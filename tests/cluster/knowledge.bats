# What the planner measures of a job in its first steps, keeps over its own end, and offers to the next job.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 400
# alone

setup() {
  . "$BOX_HERE/training.bash"
  # The ranks' device is paced, so that a step takes a tenth of a second and the same whoever else uses this machine's cores.
  # Two stages: replicas wait for each other's gradients, which is not paced.
  paced=("${tiny[@]}" --set device.gflops=0.5 --set metrics.progress_every=0 --set parallel.pp=2 --set parallel.dp=1)
  espalier forget --all
}
teardown() { clean_slate; }

trains() { # NAME NODE: on two GPUs of the node, and may not grow
  local id
  id=$(elastic "$1" 2:2 -N1 -n1 -w "$2" --gres=gpu:2 -- "${paced[@]}" --steps 1000000)
  echo "$id"
}
# field JOB EXPRESSION: of the job `job` as `espalier show job` knows it
field() {
  espalier show job "$1" --json | python3 -c 'import json, sys
job = json.load(sys.stdin)["job"]
value = eval(sys.argv[1])
print(json.dumps(value, sort_keys=True) if isinstance(value, (dict, list)) else value)' "$2"
}
is() { [ "$(field "$1" "$2" 2>/dev/null)" = "$3" ]; }
own='(job["coefficients_source"] or {}).get("kind")'
unmeasured() { refute grep -q "job $1: measured after" "$BOX/log/espalierd.log"; }

@test "a job is measured within 20 steps, and each coefficient says of itself whether it is" {
  A=$(trains A n1)
  wait_for 120 "A is planned with its own profile" is "$A" "$own" "own profiles"
  wait_for 250 "its profile is calm" is "$A" 'job["coefficients_settled"]' True
  step=$(sed -n "s/.*job $A: measured after step \([0-9]*\) .*/\1/p" "$BOX/log/espalierd.log" | head -n 1)
  seconds=$(head -n "$step" "$BOX/home/A.jsonl" | python3 -c 'import json, sys; print(sum(json.loads(line)["seconds"] for line in sys.stdin))')
  echo "# measured after $step steps, $seconds s of training" >&3
  [ "$step" -le 20 ]
  # Two stages of one GPU each, without replicas whose gradients are summed. What the ends take was measured alone.
  [ "$(field "$A" '[job["coefficients_measured"][name] for name in ("boundary", "first_edge", "last_edge")]')" = '[true, true, true]' ]
  [ "$(field "$A" '[value for name, value in sorted(job["coefficients_measured"].items()) if name.startswith(("computation.", "backward.", "optimizer.", "overlap."))]')" = \
    '[true, true, true, false]' ]
  run espalier show job "$A" -o
  echo "$output"
  [[ "$output" == *" Coefficients=measured "* ]]
  [[ "$output" == *" Measured="*computation.*" Assumed="*overlap.* ]]
}

@test "a planner that was killed plans a known job with the same coefficients at once, and a second job like it too" {
  # Neither a better plan nor a later profile changes what is compared.
  paced+=(--set profile.every=1000000)
  A=$(trains A n1)
  wait_for 60 "A is held" espalier hold "$A"
  wait_for 120 "A is planned with its own profile" is "$A" "$own" "own profiles"
  wait_for 250 "its profile is calm" is "$A" 'job["coefficients_settled"]' True
  before=$(field "$A" 'job["coefficients"]')
  step=$(field "$A" 'job["coefficients_source"]["step"]')
  "$BOX_HERE/planner.sh" kill
  : > "$BOX/log/espalierd.log"
  "$BOX_HERE/planner.sh" start
  wait_for 60 "A's launcher is back" is "$A" 'job["connected"]' True
  [ "$(field "$A" 'job["coefficients"]')" = "$before" ]
  [ "$(field "$A" 'job["coefficients_source"]["kind"]')" = "own profiles" ]
  [ "$(field "$A" 'job["coefficients_source"]["step"]')" = "$step" ]
  grep -q "job $A: it is planned with what it measured until step $step" "$BOX/log/espalierd.log"
  unmeasured "$A"

  row=$(espalier show profiles --json | python3 -c 'import json, sys; [row] = json.load(sys.stdin)["profiles"]; print(row["id"], row["measurements"], row["uid"])')
  [ "${row#* }" = "1 4242" ]
  B=$(trains B n2)
  wait_for 60 "B is known from its registration" grep -q "job $B: planned with what earlier jobs like it measured (profile ${row%% *})" "$BOX/log/espalierd.log"
  [ "$(grep -n "job $B: " "$BOX/log/espalierd.log" | grep -m 1 -n 'planned with what' | cut -d: -f1)" -le 2 ] # beside "registered"
  wait_for 120 "B has its own profile in the end" is "$B" "$own" "own profiles"
  # The mean of both.
  espalier show profile "${row%% *}" -o | grep -q ' Measurements=2 '

  run as_user -u mallory espalier forget "${row%% *}"
  [ "$status" -eq 1 ]
  [[ "$output" == *"only its owner, root and SlurmUser may forget it"* ]]
  [ "$(as_user espalier forget --all)" = "1 profile is forgotten" ]
  [ "$(espalier show profiles)" = "Nothing was learnt yet" ]
}
