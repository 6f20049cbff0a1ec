# GPUs that a job could have beside its own are another Slurm job's: whole nodes come first.
# box: -n 3 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 600
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# The nodes of the first extensions that were asked for, and the reason.
first_growth() {
  espalier show decisions --job "$A" --limit 50 --json | python3 -c '
import json, sys
all = [d.get("decision", d) for d in json.load(sys.stdin)["decisions"]]
first = min((d for d in all if d["acquire"]), key=lambda d: d["id"])
print(" ".join(request["node"] for request in first["acquire"]))
print(first["reason"])'
}

idle_gpus() {
  espalier show nodes --json | python3 -c '
import json, sys
print(" ".join(node["name"] + ":" + str(node["idle_gpus"]) for node in json.load(sys.stdin)["nodes"]))'
}

@test "a whole node is taken before GPUs beside the job's own" {
  tiny+=(--set device.jobs_reach=false) # as on GPUs
  plain rest -N1 -n1 -w n3 --gres=gpu:4 # n1 and n2 are under one leaf switch, n3 under another
  cast 2:6
  wait_for 60 "A is held" espalier hold "$A"
  finish near
  finish far
  wait_for 60 "the planner sees their GPUs idle" eval '[ "$(idle_gpus)" = "n1:2 n2:4 n3:0" ]'
  espalier release "$A"
  wait_for 120 "A has grown" eval '[ "$(gpus_of A)" -ge 3 ]'
  first_growth | tee "$BOX/log/first"
  [ "$(sed -n 1p "$BOX/log/first")" = n2 ]
  refute grep -q 'over the network only' "$BOX/log/first"
  finish rest
  goes_on_well
}

@test "GPUs beside the job's own are told apart from them, and the losses stay what they are" {
  tiny+=(--set device.jobs_reach=false) # as on GPUs
  plain far -N2 --ntasks-per-node=1 -w n2,n3 --gres=gpu:4
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A has grown" runs_on A 4
  first_growth | tee "$BOX/log/first"
  [ "$(sed -n 1p "$BOX/log/first")" = n1 ]
  grep -q '; those on n1 reach the job.s other GPUs there over the network only' "$BOX/log/first"
  espalier explain "$A" | grep -q ' n1:2+[12]'
  goes_on_well
}
