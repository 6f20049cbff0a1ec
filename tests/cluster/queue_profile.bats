# A job that waits is profiled stage by stage, on free GPUs of two types, and starts wide on the plan that was foreseen.
# box: -n 2 -y a100 -s -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 300
# beside

setup_file() {
  . "$BOX_HERE/jobs.bash"
  sleep 6 # slurmctld takes no grants of before its start, nor of the five seconds after it: espalierd's clock may be ahead
  # The devices of n2 are somewhat slower than those of n1. Data sheets say that they are three times as slow; the planner
  # cannot see this table.
  for speed in "4 fast" "60 slow"; do
    python3 - $speed > "$BOX/share/${speed#* }.json" << 'P'
import json, sys
block = float(sys.argv[1])
part = {"block": block, "embedding": block / 4, "head": block / 4}
rows = lambda slower: [{"unit": u, "tp": 1, "samples": s, "forward_ms": part[u] * s * slower, "backward_ms": 1.5 * part[u] * s * slower,
                        "weight_gradient_ms": 0.5 * part[u] * s * slower, "update_ms": part[u] / 4} for u in part for s in (1, 8)]
print(json.dumps({"hosts": {"n1": {"rows": rows(1)}, "n2": {"rows": rows(1.3)}}}))
P
  done
}
setup() {
  . "$BOX_HERE/training.bash"
  local unpaced=("${tiny[@]/device.gflops=0.4/device.gflops=0}")
  fast=("${unpaced[@]}" --set "device.times=$BOX/share/fast.json")
  slow=("${unpaced[@]}" --set "device.times=$BOX/share/slow.json")
}
teardown() { clean_slate; }

# A waits for three GPUs of n1, which has two idle ones; n2 has two idle ones, too. Sets kept, near, far, A.
waiting_cast() { # TRAIN-ARGUMENTS
  kept=$(plain kept -N1 -n1 -w n1 --gres=gpu:1)
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:1)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:2)
  wait_for 30 "n1 is half full" job_is "$near" RUNNING
  wait_for 30 "n2 is half full" job_is "$far" RUNNING
  A=$(elastic A 3:6 -N1 -n1 -w n1 --gres=gpu:3 -- "$@")
}
profiles() { as_user espalier profile --max=6 "$A" -- espalier-train "$BOX/share/examples/gpt-tiny.toml" --metrics "$BOX/home/A.jsonl" "$@"; }
profile_jobs() { squeue -h -n "prof-$A" -t "${1:-R,PD}" -o '%i %N'; }
profile_job_on() { profile_jobs R | awk -v node="$1" '$2 == node {print $1}'; }
runs_there() { [ -n "$(profile_job_on "$1")" ]; }
no_profile_jobs() { [ -z "$(squeue -h -p elastic -o %i)" ]; }
recorded_start() {
  local id
  id=$(espalier show decisions --job "$A" --json | python3 -c '
import json, sys
print(max(d["id"] for d in json.load(sys.stdin)["decisions"] if d["kind"] == "start" and d["outcome"] == "committed"))') &&
    espalier show decision "$id" --json > "$BOX/start.json"
}

@test "a job profiled by stages while it waits starts wide on the plan that was foreseen" {
  waiting_cast "${fast[@]}" --steps 1000000
  profiles "${fast[@]}" --steps 1000000 | tee "$BOX/home/submitted"
  [ "$(wc -l < "$BOX/home/submitted")" = 2 ]
  wait_for 60 "a GPU of n2 is measured" eval 'first=$(profile_job_on n2) && [ -n "$first" ]'
  squeue

  # Anybody's waiting job takes the GPU at once, and the profile job comes back for it.
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:2)
  wait_for 20 "the urgent job starts" job_is "$urgent" RUNNING
  job_is "$A" PENDING
  wait_for 20 "another profile job waits" eval '[ -n "$(profile_jobs PD)" ]'
  finish urgent
  wait_for 120 "both types are measured, and no profile job is left" no_profile_jobs
  cat "$BOX/home/prof-$A.out"
  grep -q "its profile job gives way; profile job [0-9]* takes its place" "$BOX/home/prof-$A.out"
  [ -z "$(squeue -h -j "$first")" ]

  espalier show profiles -o | tee "$BOX/home/profiles"
  [ "$(wc -l < "$BOX/home/profiles")" = 2 ]
  grep -q " GPUTypes=h100 .* ProfiledFor=$A StagesProfiled=[1-8] " "$BOX/home/profiles"
  grep -q " GPUTypes=a100 .* ProfiledFor=$A StagesProfiled=[1-8] " "$BOX/home/profiles"
  espalier show profiles --json | python3 -c '
import json, sys
ms = {row["gpus"]: row["computation_ms"]["mean"] for row in json.load(sys.stdin)["profiles"]}
print("a sample takes", ms, "ms")
assert 3.6 < ms["h100"] < 5.6 and 1.1 < ms["a100"] / ms["h100"] < 1.6, ms'

  finish near
  wait_for 120 "A trains" stepped_past A 3
  [ "$(head -n 1 "$BOX/home/A.jsonl" | grep -o '"gpus":[0-9]*')" = '"gpus":5' ]
  wait_for 30 "the start is recorded" recorded_start
  wait_for 60 "A does some steps" stepped_past A 12
  python3 - "$BOX/start.json" "$BOX/home/A.jsonl" >&3 << 'P'
import json, statistics, sys
start = json.load(open(sys.argv[1]))["decision"]
steps = [json.loads(line)["seconds"] for line in open(sys.argv[2]) if line.endswith("\n")][2:12]
print("# predicted %.4g s a step, measured %.4g s; foreseen: %d stages" % (start["predicted_step_seconds"], statistics.median(steps),
                                                                       len(start["plan"]["stages"])))
assert start["reason"].startswith("starts wide: "), start["reason"]
assert start["reason"].endswith("and this is the plan that was foreseen"), start["reason"]
nodes = [gpu.split("/")[0] for stage in start["plan"]["stages"] for replica in stage["replicas"] for gpu in replica["gpus"]]
assert nodes.count("n1") == 3 and nodes.count("n2") == 2, nodes
P
  espalier explain "$A" | grep -q 'this is the plan that was foreseen'
  as_user scancel "$A"
  finish kept
  leaves_nothing
}

@test "a profile job ends when the job that it profiles for is cancelled, or starts" {
  waiting_cast "${slow[@]}" --steps 1000000
  profiles "${slow[@]}" --steps 1000000
  wait_for 60 "a GPU is measured" runs_there n1
  as_user scancel "$A"
  wait_for 20 "the profile jobs end" no_profile_jobs

  A=$(elastic A 3:6 -N1 -n1 -w n1 --gres=gpu:3 -- "${slow[@]}" --steps 1000000)
  profiles "${slow[@]}" --steps 1000000
  wait_for 60 "a GPU is measured" runs_there n2
  finish near
  wait_for 30 "A starts" job_is "$A" RUNNING
  wait_for 20 "its profile jobs end" eval '[ -z "$(profile_jobs)" ]'
  as_user scancel "$A"
  finish kept
  leaves_nothing
}

refused() { # WORDS ARGUMENTS...
  local words=$1
  shift
  run as_user espalier profile "$@"
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == "espalier: "*"$words"* ]]
}
@test "what cannot be profiled is refused in words" {
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:4)
  wait_for 30 "espalierd sees it run" eval 'espalier show nodes -o | grep -q "^NodeName=n1 .* IdleGPUs=0 "'
  refused "no job is given" -- espalier-train x.toml
  refused "no program is given" "$near"
  refused '"x" is not a number from 1 up' x -- espalier-train x.toml
  refused "--accuracy is neither bitwise nor relaxed" --accuracy=good "$near" -- espalier-train x.toml
  refused "does not measure stages by itself" "$near" -- /bin/true
  refused "it does not wait any more" "$near" -- espalier-train x.toml
  finish near
  leaves_nothing
}
