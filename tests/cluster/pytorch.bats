# A PyTorch script that is elastic by `import espalier`, through everything that happens to a job: it grows, shrinks, is preempted,
# loses its planner and its workers. No step is missing, each sample is used once, and the losses are those of one process.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# beside
# early
# limit: 3000
# each: 500

setup_file() { . "$BOX_HERE/pytorch.bash"; set_up_python; python_reference 3000; }
setup() { . "$BOX_HERE/pytorch.bash"; use_python_itself; }
teardown() { clean_slate; }

worker_of() { # GENERATION RANK
  local pid
  for pid in $(processes python3 "ESPALIER_GENERATION=$1"); do
    ! tr '\0' '\n' < "/proc/$pid/environ" | grep -qx "RANK=$2" || echo "$pid"
  done
}
generation_of() { metric A generation; }

started_ahead() { # PATTERN COUNT: so many processes that were started ahead, with this variable
  [ "$(comm -12 <(processes python3 'ESPALIER_SPARE=.*' | sort) <(processes python3 "$1" | sort) | wc -l)" -ge "$2" ]
}

@test "a PyTorch script starts, grows from 2 to 4 GPUs by processes that have loaded torch, and explains why" {
  python_cast 2:4
  wait_for 300 "two processes wait for the next generation" started_ahead 'ESPALIER_GENERATION=spare *' 2
  finish near
  wait_for 300 "A runs on 4 GPUs" runs_on A 4
  started_ahead "ESPALIER_GENERATION=$(generation_of)" 2
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  as_user espalier explain "$A" | tee "$BOX/log/explain"
  grep -q 'Kind=grow' "$BOX/log/explain"
  python_goes_on_well
}

# Where Python starts too slowly for the grace, it goes on with a snapshot when the GPUs are gone.
@test "preempted with the planner dead, it goes on with the GPUs it keeps" {
  python_cast 2:4
  finish near
  wait_for 300 "A runs on 4 GPUs" runs_on A 4
  "$BOX_HERE/planner.sh" kill
  urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:2)
  wait_for 200 "the urgent job starts" job_is "$urgent" RUNNING
  wait_for 300 "A runs on 2 GPUs" runs_on A 2
  wait_for 30 "it is told how" grep -Eq 'shrink committed|training went on with snapshots kept elsewhere' "$BOX/home/A.out"
  grep -E 'shrink committed|training went on|a smaller generation' "$BOX/home/A.out" | sed 's/^/# /' >&3
  finish urgent
  python_goes_on_well
}

@test "a worker is killed: the training goes on from a snapshot in memory" {
  python_cast 2:2
  generation=$(generation_of)
  wait_for 60 "it has trained for some snapshots" stepped_past A $(($(step_of A) + 40))
  kill -KILL "$(worker_of "$generation" 1)"
  wait_for 300 "A trains in another generation" eval '[ "$(generation_of)" -gt '"$generation"' ]'
  wait_for 30 "it is told how" grep -q 'training went on with snapshots kept elsewhere' "$BOX/home/A.out"
  grep 'training went on' "$BOX/home/A.out" | sed 's/^/# /' >&3
  python_goes_on_well
}

@test "a call that keeps the interpreter's lock for 15 s, so that no heartbeat comes, is no loss" {
  cat > "$BOX/share/python/locking.py" <<'P'
import ctypes

import espalier
run = espalier.join(global_batch=8, steps=20)
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run.register(model=model, optimizer=optimizer)
for step in run.steps():
    loss = model(torch.ones(len(run.slice(step)), 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    run.report(loss)
    if step == 5:
        ctypes.PyDLL(None).sleep(15)  # as a PyDLL it does not let the lock go
P
  script=locking.py
  A=$(pytorch A 2:2 -N1 -n1 --gres=gpu:2)
  wait_for 300 "A ends" job_over "$A"
  cat "$BOX/home/A.out"
  [ "$(exit_code "$A")" = 0:0 ]
  [ "$(grep -o 'generation [0-9]* starts' "$BOX/home/A.out")" = 'generation 0 starts' ]
  refute grep silent "$BOX/home/A.out"
}

# bats test_tags=long:1
@test "it grows to another node and gathers gradients in parts, and a job without a launcher is a plain one" {
  python_cast 2:6 --most 3
  finish far
  wait_for 300 "A runs on n2 too" runs_on A 6
  python_goes_on_well
}

@test "accuracy=bitwise is refused in words" {
  A=$(pytorch A 2:4,accuracy=bitwise -N1 -n1 -w n1 --gres=gpu:2 -- --steps 10)
  wait_for 120 "A has ended" job_over "$A"
  grep -q 'accuracy=bitwise, and the program cannot promise it' "$BOX/home/A.out"
  leaves_nothing 60
}

@test "a global batch smaller than the number of GPUs is refused in words" {
  A=$(pytorch A 2:4 -N1 -n1 -w n1 --gres=gpu:4 -- --steps 10 --batch 3)
  wait_for 120 "A has ended" job_over "$A"
  grep -q 'the program.s global batch is 3 samples, and each replica needs one' "$BOX/home/A.out"
  leaves_nothing 60
}

# bats test_tags=long:2
@test "a model that changes between generations ends the change in words, and the training goes on" {
  python_cast 2:4 --other-model 8
  finish near
  wait_for 200 "it is told" grep -q 'does not fit this program: model: .*size mismatch' "$BOX/home/A.out"
  as_user espalier hold "$A"
  runs_on A 2
  python_goes_on_well
}

# bats test_tags=long:5
@test "samples that are read one after the other: the next generation goes on at the stream's place" {
  python_cast 2:4 --stream 1
  finish near
  wait_for 300 "A runs on 4 GPUs" runs_on A 4
  python_goes_on_well
}

# bats test_tags=long:1
@test "a script that is killed in register(), or ends after it, in a later generation ends the change, and the training goes on" {
  for where in in after; do
    python_cast 2:4 --die $where
    finish near
    wait_for 200 "the change has failed" grep -q 'grow given up: .*; training goes on' "$BOX/home/A.out"
    as_user espalier hold "$A"
    runs_on A 2
    python_goes_on_well
  done
}

@test "a program that fails by itself ends the job with its own words" {
  A=$(pytorch A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- --steps 100 --fail-at 5)
  wait_for 120 "A has ended" job_over "$A"
  grep -q 'ValueError: the test says so' "$BOX/home/A.out"
  [ "$(exit_code "$A")" != 0:0 ]
  leaves_nothing 60
}

# bats test_tags=long:4
@test "torchrun --rdzv-backend=espalier: it starts, grows and shrinks as without torchrun" {
  torchrun_python
  python_cast 2:4
  python_grows_and_shrinks
  [ "$(processes python3 TORCHELASTIC_USE_AGENT_STORE=True | wc -l)" -ge 2 ]
  python_goes_on_well
}
