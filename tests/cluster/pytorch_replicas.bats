# Scripts whose replicas are several processes, with tensor and pipeline parallelism of their own (unit=): jobs grow, shrink and lose a
# worker by whole replicas. No step is missing, each sample is used once, and the losses are those of one process.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# limit: 3000
# each: 900
# beside

setup_file() { . "$BOX_HERE/pytorch.bash"; set_up_python; script_options=(--kind tp); python_reference 3000; } # of one process without parallelism
setup() { . "$BOX_HERE/pytorch.bash"; }
teardown() { clean_slate; }

# bats test_tags=long:4
@test "tensor parallelism of the script's own (unit=2): it grows and shrinks by whole replicas" {
  script_options=(--kind tp)
  python_cast 2:4
  python_grows_and_shrinks
  [ "$(sed -nE 's/.*"gpus":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort -u | tr '\n' ' ')" = "2 4 " ]
  python_goes_on_well
}

# Stages of one replica wait for one another, so the loss of one process stops all eight.
# bats test_tags=long:1
@test "two stages of two shards (unit=4): it grows by a replica, a worker is killed, and it goes on from snapshots of each place" {
  script_options=(--kind tp-pp)
  rm -rf "$BOX"/home/{A,far}.*
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(pytorch A 4:8 -N1 -n1 -w n1 --gres=gpu:4 -- --steps 100000 --pause 2)
  wait_for 300 "A trains" stepped_past A 10
  finish far
  wait_for 300 "A runs on two replicas" runs_on A 8
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  grep 'grow committed\|paused' "$BOX/home/A.out" | sed 's/^/# /' >&3
  generation=$(metric A generation)
  kill -KILL "$(processes python3 "ESPALIER_GENERATION=$generation" | tail -n 1)"
  wait_for 300 "A trains in another generation" eval '[ "$(metric A generation)" -gt '"$generation"' ]'
  wait_for 30 "it is told how" grep -q 'training went on with snapshots kept elsewhere' "$BOX/home/A.out"
  grep 'training went on' "$BOX/home/A.out" | sed 's/^/# /' >&3
  python_goes_on_well
}

# bats test_tags=long:1
@test "the example with tensor and pipeline parallelism grows from one replica of four processes to two" {
  rm -f "$BOX"/home/{A,far}.*
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  cp "$BOX_REPO/examples/pytorch/megatron.py" "$BOX/share/python/megatron.py"
  sed -i 's/STEPS, TP, PP, WIDTH = 24, 400/STEPS, TP, PP, WIDTH = 24, 100000/; s/step % 100 == 0/step % 5 == 0/' "$BOX/share/python/megatron.py"
  sed -i 's/^    optimizer.step()/    __import__("time").sleep(0.2)\n&/' "$BOX/share/python/megatron.py"
  as_user tee "$BOX/home/A.sh" > /dev/null <<S
#!/bin/bash
export ${python_environment[*]}
srun --elastic=4:8 $BOX/share/python/python.sh $BOX/share/python/megatron.py
S
  A=$(as_user sbatch --parsable -J A -o "$BOX/home/A.out" -N1 -n1 -w n1 --gres=gpu:4 "$BOX/home/A.sh")
  wait_for 300 "A trains on one replica" grep -q 'step 20: .* on 4 processes' "$BOX/home/A.out"
  finish far
  wait_for 300 "A trains on two replicas" grep -q 'step .* on 8 processes' "$BOX/home/A.out"
  as_user scancel "$A"
  leaves_nothing 60
}
