# The policy arena in the planner: jobs run on powers of two of GPUs of one type, what GPUs a waiting job needs comes back, and
# a movable job changes its type.
# box: -n 4 -y a100 -e 'planner.policy = "arena"' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 1200
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

bases_of() { squeue -h -n "base-$1" -o %i 2>/dev/null; }
one_base() { [ "$(bases_of "$A" | wc -l)" = 1 ]; }
nodes_of() { squeue -h -o %N -j "$1"; }
counts() { grep -o '"gpus":[0-9]*' "$BOX/home/A.jsonl" | sort -u | xargs; } # that it has trained on

@test "a job grows to a power of two on GPUs of its type, and gives GPUs back to a job that waits" {
  local urgent
  rm -f "$BOX"/home/A.*
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4 --mem=100)
  A=$(elastic A 2:7 -N1 -n1 -w n1 --gres=gpu:2 --mem=500 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  # Seven GPUs would be allowed, four of n2 are idle then, and eight more of another type all the time.
  finish far
  wait_for 60 "A does 40 steps there" stepped_past A $(($(step_of A) + 40))
  [ "$(counts)" = 'gpus:2 gpus:4' ]
  as_user espalier explain "$A" | tee "$BOX/log/explain"
  grep -q 'scaled from 2 to 4 h100 GPUs' "$BOX/log/explain"
  grep -q 'it has the most GPUs that it may have as a power of two' "$BOX/log/explain"
  urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:2 --mem=100)
  wait_for 60 "the waiting job starts" job_is "$urgent" RUNNING
  wait_for 60 "A does 20 steps beside it" stepped_past A $(($(step_of A) + 20))
  finish urgent
  goes_on_well
}

# bats test_tags=long:4
@test "the policy moves the base of a job of two types to the faster one, and no step is lost" {
  espalier forget --all # of earlier tests: devices here are as fast under both names
  one=$(plain one -N1 -n1 -w n1 --gres=gpu:4 --mem=100)
  two=$(plain two -N1 -n1 -w n2 --gres=gpu:4 --mem=100)
  rm -f "$BOX"/home/A.*
  A=$(elastic A 2:2,movable,types=h100+a100 -n1 --mem=500 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  [[ $(nodes_of "$(bases_of "$A")") == n[34] ]]
  finish one
  wait_for 120 "A runs on n1 alone" eval '[[ $(metric A plan) == *n1/* && $(metric A plan) != *n[34]/* ]]'
  wait_for 120 "the first base is gone" one_base
  [ "$(nodes_of "$(bases_of "$A")")" = n1 ]
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q 'h100 GPUs on n1 train it [0-9.]* times as fast as its a100' "$BOX/log/shown"
  finish two
  goes_on_well 40
}

@test "a base goes to another type where that lets a waiting job start, and no step is lost" {
  rm -f "$BOX"/home/A.*
  three=$(plain three -N1 -n1 -w n3 --gres=gpu:4 --mem=100)
  four=$(plain four -N1 -n1 -w n4 --gres=gpu:4 --mem=100)
  two=$(plain two -N1 -n1 -w n2 --gres=gpu:4 --mem=100)
  A=$(elastic A 2:2,movable,types=h100+a100 -n1 --mem=500 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  [ "$(nodes_of "$(bases_of "$A")")" = n1 ]
  # Four GPUs of n1 are wanted, of which A's base has two. None but a100 are idle elsewhere.
  finish three
  finish four
  big=$(plain big -N1 -n1 -w n1 --gres=gpu:4 --mem=100)
  wait_for 200 "the waiting job starts" job_is "$big" RUNNING
  wait_for 120 "the first base is gone" one_base
  [[ $(nodes_of "$(bases_of "$A")") == n[34] ]]
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q "job $big waits for room on n1, which its base leaves for n" "$BOX/log/shown"
  finish big
  finish two
  goes_on_well 40
}
