# Evaluations that take longer than a step may: the launcher hears that the job gets on, and takes no generation for hung.
# box: -n 1 -e 'launch.hang_seconds = 5' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# limit: 900
# each: 400
# beside

setup() {
  . "$BOX_HERE/pytorch.bash"
  hung='was not done within'
}
teardown() { clean_slate; }

ends_in_generation_0() {
  wait_for 200 "A ends" job_over "$A"
  cat "$BOX/home/A.out"
  [ "$(grep -c "$hung" "$BOX/home/A.out")" = 0 ]
  [ "$(grep -o 'generation [0-9]* starts' "$BOX/home/A.out")" = 'generation 0 starts' ]
  leaves_nothing 60
}

@test "a program in C evaluates for 8 s, and a step may take 5 s" {
  make -s -C "$BOX_REPO" BUILD="$BUILD" "$BUILD/test/c_worker" > /dev/null
  install -m 755 "$BUILD/test/c_worker" "$BOX/share/c_worker"
  # Of four processes each computes a quarter of 2 s in a step, and an evaluation has four batches of 2 s.
  as_user tee "$BOX/home/A.sh" > /dev/null <<S
#!/bin/bash
export LD_LIBRARY_PATH=$BOX/lib:$LD_LIBRARY_PATH
srun --elastic=4:4 $BOX/share/c_worker --steps 10 --pause 2 --evaluate 5 | tee $BOX/home/A.told
S
  A=$(as_user sbatch --parsable -J A -o "$BOX/home/A.out" -N1 -n1 --gres=gpu:4 "$BOX/home/A.sh")
  ends_in_generation_0
  [ "$(grep -c '"evaluated"' "$BOX/home/A.told")" = 2 ]
  [ "$(grep -c '"loss"' "$BOX/home/A.told")" = 10 ]
}

@test "a Python script evaluates for 8 s within its loop and after it was left early, and without a word it is taken for hung" {
  [ -e "${TORCH_HOME:-}/lib/libtorch_python.so" ] || skip "no torch for Python at TORCH_HOME"
  set_up_python
  cat > "$BOX/share/python/evaluating.py" <<'P'
import json
import sys
import time

import espalier
run = espalier.join(global_batch=8, steps=1000)
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
run.register(model=ddp, optimizer=optimizer)
metrics, tells = sys.argv[sys.argv.index("--metrics") + 1], "--silent" not in sys.argv


def evaluate():
    for _ in range(8):
        time.sleep(1)
        if tells and run.rank == 1:
            run.progress()


for step in run.steps():
    loss = ddp(torch.ones(len(run.slice(step)), 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    run.report(loss)
    time.sleep(0.1)
    if run.is_writer:
        with open(metrics, "a") as file:
            file.write(json.dumps({"step": step}, separators=(",", ":")) + "\n")
    if step % 10 == 0:
        evaluate()
    if step == 20:
        break
evaluate()
P
  script=evaluating.py
  A=$(pytorch A 2:2 -N1 -n1 --gres=gpu:2)
  ends_in_generation_0
  [ "$(metric A step)" = 20 ]

  rm -f "$BOX"/home/A.*
  A=$(pytorch A 2:2 -N1 -n1 --gres=gpu:2 -- --silent)
  wait_for 200 "it is taken for hung" grep -q "$hung" "$BOX/home/A.out"
  as_user scancel "$A"
  leaves_nothing 60
}
