# Workers that break the protocol, under a real launcher: it says what is wrong, goes on without that generation where another
# one can, and ends in time. It never hangs, and nothing is left.
# box: -n 1 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'launch.start_seconds = 20' -e 'launch.switch_seconds = 5' -e 'planner.log_level = "debug"'
# limit: 1800
# each: 300
# beside

setup_file() {
  . "$BOX_HERE/pytorch.bash"
  set_up_python
}
setup() { . "$BOX_HERE/pytorch.bash"; }
teardown() { clean_slate; }

# A is such a worker on one GPU, and may have a second one. It has ended within three minutes.
hostile() { # HOW
  rm -f "$BOX"/home/A.*
  as_user tee "$BOX/home/A.sh" > /dev/null <<S
#!/bin/bash
export ${python_environment[*]}
srun --elastic=1:2 $BOX/share/python/python.sh $BOX/share/python/hostile.py $1 $BOX/home/A.jsonl
S
  A=$(as_user sbatch --parsable -J A -o "$BOX/home/A.out" -N1 -n1 --gres=gpu:1 "$BOX/home/A.sh")
  wait_for 180 "A has ended" job_over "$A"
  refute grep -Ei 'terminate called|Segmentation|core dumped|invariant' "$BOX/home/A.out"
  leaves_nothing 60
}
told() { grep -qE "$1" "$BOX/home/A.out"; }
ended_well() { [ "$(exit_code "$A")" = 0:0 ] && [ "$(step_of A)" = 100 ]; }

@test "a worker that keeps to the protocol grows and ends well" {
  hostile good
  ended_well
  grep -q '"gpus":2' "$BOX/home/A.jsonl"
}

@test "fields that the launcher does not know, and losses that are no number, change nothing" {
  hostile more-fields
  ended_well
  grep -q '"gpus":2' "$BOX/home/A.jsonl"
  hostile null-loss
  ended_well
}

# bats test_tags=long:1
@test "nonsense on the stream loses the generation, and the next one goes on" {
  for how in nan large version tag; do
    hostile $how
    grep -E 'lost|went on' "$BOX/home/A.out" | sed "s/^/# $how: /" >&3
    told 'training (went on|begins anew|started again)|generation 1'
    ended_well
  done
}

# bats test_tags=long:2
@test "messages out of their order lose the generation, and the launcher says which" {
  hostile unasked
  told 'stands at a boundary that nobody asked for'
  ended_well
  hostile unknown
  told 'unknown message dance'
  ended_well
}

@test "a worker that dies before or after its hello ends the job, with its code or a reason" {
  hostile dies-at-login
  [ "$(exit_code "$A")" = 3:0 ]
  hostile dies-at-hello
  [ "$(exit_code "$A")" != 0:0 ]
  told 'rank 0 on n1'
}

@test "a worker that ignores a switch trains on, and is not asked for ever" {
  hostile ignores-switch
  ended_well
  refute grep -q '"gpus":2' "$BOX/home/A.jsonl"
  told 'aborted|given up|gives up|did not'
}

# bats test_tags=long:3
@test "a next generation that is never ready, or takes another state, costs the running one nothing" {
  for how in never-ready other-state; do
    hostile $how
    ended_well
    [ "$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort -n | uniq | wc -l)" = 100 ]
  done
}

# bats test_tags=long:5
@test "steps that go backwards and a state that nobody asked for are borne, or lose the generation" {
  for how in backwards loaded; do hostile $how; done
}
