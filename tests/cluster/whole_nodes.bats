# Jobs that wait for more of a node than GPUs, where Slurm preempts nothing: only espalierd can have extensions leave.
# box: -n 2 -c PreemptType=preempt/none -c PreemptMode=OFF -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'extensions.max_lease_minutes = 2' -e 'planner.log_level = "debug"'
# limit: 900
# each: 400
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# A trains on half of n2 and, by an extension, on half of n1. The rest of n2 belongs to others.
grown_onto_n1() {
  plain rest -N1 -n1 -w n2 --gres=gpu:2
  A=$(elastic A 2:4 -N1 -n1 -w n2 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  [ "$(squeue -h -o %N -j "$(extensions_of "$A")")" = n1 ]
  wait_for 30 "A does 10 steps there" stepped_past A $(($(step_of A) + 10))
}
goes_on_alone() {
  wait_for 90 "A runs on its own GPUs" runs_on A 2
  finish "$1"
  finish rest
  goes_on_well 40
}

@test "extensions leave the node of a job with --exclusive, which has idle GPUs enough" {
  grown_onto_n1
  whole=$(plain whole -N1 -n1 -w n1 --exclusive --gres=gpu:1)
  wait_for 90 "the job has the node" job_is "$whole" RUNNING
  goes_on_alone whole
}

@test "an extension is not prolonged while a job without GPUs waits for the CPUs of its node" {
  grown_onto_n1
  cpus=$(scontrol show node n1 | sed -n 's/.*CPUTot=\([0-9]*\).*/\1/p')
  waits=$(plain waits -N1 -n1 -w n1 -c "$cpus")
  wait_for 240 "the job has its CPUs" job_is "$waits" RUNNING
  goes_on_alone waits
}
