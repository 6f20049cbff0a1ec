# The policy flextrain in the planner: jobs grow by pipeline stages alone, and what GPUs a waiting job needs comes back.
# box: -n 2 -e 'planner.policy = "flextrain"' -e 'flextrain.least_gpus = 1' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

degrees() { grep -o '"plan":"pp[0-9]* dp[0-9]*' "$BOX/home/A.jsonl" | sed 's/.*pp//' | uniq; } # "STAGES dpREPLICAS", in turn
replicas() { degrees | sed 's/.*dp//' | sort -u | xargs; }

@test "a job grows by stages alone, explains the odds, and gives GPUs back to a job that waits" {
  local urgent
  cast 2:8
  finish near
  finish far
  wait_for 120 "A has more stages" eval '[ "$(gpus_of A)" -gt 2 ]'
  as_user espalier explain "$A" | tee "$BOX/log/explain"
  grep -q 'arrivals an hour: probability' "$BOX/log/explain"
  [ "$(replicas | wc -w)" -eq 1 ]
  [ "$(degrees | wc -l)" -ge 2 ] # a node's GPUs may have come before the other's
  urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:2)
  wait_for 60 "the waiting job starts" job_is "$urgent" RUNNING
  # Slurm may have taken them before the planner did. The launcher's plan for what is left may have other replicas.
  wait_for 60 "A does 20 steps beside it" stepped_past A $(($(step_of A) + 20))
  finish urgent
  goes_on_well
}
