# What a training used, as `espalier usage` and sacct tell it. Real accounting: slurmdbd and MariaDB.
# box: -n 2 -a '' -e 'launch.start_seconds = 120' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 1200
# each: 600
# beside
# early

setup_file() {
  . "$BOX_HERE/training.bash"
  reference
  scontrol update PartitionName=elastic GraceTime=120 # what is tested here is no speed
}
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# "JOB GPUS SECONDS" of the training's jobs, by sacct. Extensions and bases are found by their names.
by_sacct() {
  { sacct -nPX -j "$A" -o JobID,AllocTRES,ElapsedRaw,State; sacct -nPX -a --name="ext-$A,base-$A" -o JobID,AllocTRES,ElapsedRaw,State; } |
    sed -nE 's/^([0-9]+)\|.*gres\/gpu=([0-9]+)[^|]*\|([0-9]+)\|.*/\1 \2 \3/p' | awk '$3 > 0' | sort -n
}
by_espalier() {
  espalier usage --json "$A" | python3 -c '
import json, sys
for one in sorted(json.load(sys.stdin)["jobs"][0]["allocations"], key=lambda one: one["job"]):
    if one["seconds"] > 0 and one["gpus"] > 0: print(one["job"], one["gpus"], round(one["seconds"]))'
}
agree() { local ours; ours=$(by_espalier); [ -n "$ours" ] && [ "$ours" = "$(by_sacct)" ]; }
field() { espalier usage "$A" | grep -o "\\b$1=[^ ]*" | head -n 1 | cut -d= -f2; }

@test "a training that grew, was shrunk, preempted, and ended: allocations equal sacct's to the second" {
  grown_cast 2:8 100000
  wait_for 60 "it does 20 steps" stepped_past A $(($(step_of A) + 20))
  squeue -h -p elastic -o %j | sort -u
  [ "$(squeue -h -p elastic -o %j | sort -u)" = "ext-$A" ]
  held_at_rest # it would grow again at once
  wait_for 60 "what it was lent is asked back" espalier reclaim "$A"
  wait_for 60 "A has given all back" eval '[ "$(field Extensions)" -ge 2 ] && runs_on A 2'
  espalier release "$A"
  wait_for 120 "A has grown again" grows_to_eight
  # A restart of the planner must not lose what was counted.
  "$BOX_HERE/planner.sh" kill
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 300 "the urgent job starts" job_is "$urgent" RUNNING
  "$BOX_HERE/planner.sh" start
  finish urgent
  wait_for 60 "the launcher is back" eval 'espalier show job "$A" | grep -q Launcher=connected'
  wait_for 60 "it does 20 more steps" stepped_past A $(($(step_of A) + 20))
  [ "$(field State)" = RUNNING ]
  as_user scancel "$A"
  wait_for 60 "A has ended" job_over "$A"
  wait_for 60 "all its extensions have ended" no_extensions
  wait_for 60 "the planner has seen it" eval '[ "$(field State)" = ENDED ]'
  wait_for 60 "sacct and espalier agree" agree || { by_sacct; echo; by_espalier; false; }
  espalier usage "$A"
  [ "$(by_sacct | wc -l)" -ge 4 ] # the anchor, and extensions of two growths
  # The sums follow from the allocations.
  by_sacct | awk -v id="$A" '{if ($1 == id) a += $2 * $3; else e += $2 * $3} END {print a, e, a + e}' > "$BOX/home/sums"
  [ "$(field AnchorGPUSeconds) $(field ExtensionGPUSeconds) $(field HeldGPUSeconds)" = "$(cat "$BOX/home/sums")" ]
  # Most of it trained: what did not is the start, pauses, and extensions that wait for each other.
  espalier usage --json "$A" | python3 -c '
import json, sys
one = json.load(sys.stdin)["jobs"][0]
held = one["anchor_gpu_seconds"] + one["extension_gpu_seconds"]
assert one["exact"], one
assert 0 < one["paused_gpu_seconds"] < one["trained_gpu_seconds"] < held, one
assert one["trained_gpu_seconds"] > 0.3 * held, one'
  # By user; another user may see it, unless PrivateData says otherwise.
  as_user espalier usage --user=boxuser | grep -q "^JobId=$A "
  as_user espalier usage --user=boxuser | grep -q '^Trainings=1$'
  [ "$(as_user espalier usage --user=mallory)" = 'No elastic training of this user is known' ]
  leaves_nothing
}

@test "a movable training whose base moved: both bases count, as sacct has them, to the second" {
  rm -f "$BOX"/home/A.*
  A=$(elastic A 2:2,movable -n1 --mem=500 -- "${tiny[@]}" --steps 100000)
  wait_for 120 "A trains" stepped_past A 10
  base=$(squeue -h -n "base-$A" -t RUNNING -o %i)
  other=n1 && [ "$(squeue -h -o %N -j "$base")" = n2 ] || other=n2
  wait_for 60 "A moves" eval 'espalier migrate "$A" --nodes "$other"'
  second() { [ "$(squeue -h -n "base-$A" -t RUNNING -o %i | wc -w)" = 1 ] && [ "$(squeue -h -n "base-$A" -t RUNNING -o %i)" != "$base" ]; }
  wait_for 180 "A has left its first base" second
  wait_for 60 "it does 20 more steps" stepped_past A $(($(step_of A) + 20))
  as_user scancel "$A"
  wait_for 60 "A has ended" job_over "$A"
  wait_for 60 "its base has ended" eval '[ -z "$(squeue -h -n "base-$A")" ]'
  wait_for 60 "the planner has seen it" eval '[ "$(field State)" = ENDED ]'
  wait_for 60 "sacct and espalier agree" agree || { by_sacct; echo; by_espalier; false; }
  espalier usage "$A"
  [ "$(by_sacct | wc -l)" = 2 ] # the two bases; the submitted job has no GPUs
  by_sacct | awk '{s += $2 * $3} END {print s, 0, s}' > "$BOX/home/sums"
  [ "$(field AnchorGPUSeconds) $(field ExtensionGPUSeconds) $(field HeldGPUSeconds)" = "$(cat "$BOX/home/sums")" ]
  # Fair share charges the submitted job for the launcher's CPUs only.
  sacct -nPX -j "$A" -o AllocTRES | tee "$BOX/home/submitted"
  grep -q 'cpu=1' "$BOX/home/submitted"
  refute grep -q gres/gpu "$BOX/home/submitted"
  leaves_nothing
}

@test "wrong uses of espalier usage are refused" {
  run espalier usage
  [ "$status" -eq 2 ]
  [[ $output == *'usage: needs a job id, or --user=USER'* ]]
  run espalier usage 999999
  [ "$status" -eq 1 ]
  [[ $output == *'job 999999: not an elastic job that this planner has seen'* ]]
  run espalier usage --user=nobody-here
  [ "$status" -eq 1 ]
  [[ $output == *'user nobody-here: not known on this host'* ]]
  run espalier show jobs --user=boxuser
  [ "$status" -eq 2 ]
  [[ $output == *'--user: only with usage'* ]]
  run espalier usage 1 2
  [ "$status" -eq 2 ]
}
