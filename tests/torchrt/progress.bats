# Work that is no step: the launcher hears from programs in C and in Python that they get on with an evaluation.
# data.bats has the same of espalier-train's validations.
# limit: 600
# each: 300

setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  prepare
}

# evaluates PROGRAM ARGUMENT...: two replicas train five steps. No more: the director reads no profile of such a program.
evaluates() {
  cat > script.json << 'J'
{"first": {"global_batch": 48, "micro_batches": 1,
           "stages": [{"layers": 1, "tp": 1, "replicas": [{"share": 24, "gpus": ["a/0"]}, {"share": 24, "gpus": ["a/1"]}]}]}, "acts": []}
J
  rm -f summary.json
  STAGE_DIRECTOR_SECONDS=120 timeout -k 5 150 "$here/with_munge.sh" "$director" script.json summary.json -- "$@"
}
told_after() { # STEPS: after which the launcher heard that the program gets on
  python3 -c 'import json, sys; told = json.load(open("summary.json"))["progressed"]; print(told); assert told == json.loads(sys.argv[1])' "$1"
}

@test "a program in C tells in its evaluations that it gets on, and not in between" {
  evaluates "$built/test/c_worker" --steps 5 --pause 0.05 --evaluate 2
  told_after '[2, 4]'
  evaluates "$built/test/c_worker" --steps 5 --pause 0.05
  told_after '[]'
}

@test "a Python script tells in its evaluations that it gets on, by whichever rank, and also after its last step" {
  [ -e "${TORCH_HOME:-}/lib/libtorch_python.so" ] || skip "no torch for Python at TORCH_HOME"
  cat > evaluates.py << 'P'
import os
import sys
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1], GLOO_SOCKET_IFNAME="lo")
import espalier
run = espalier.join(global_batch=48, steps=5)
import torch
import torch.distributed as dist


def evaluate():
    time.sleep(1)  # rank 0 tells its step meanwhile
    run.progress()
    time.sleep(1)


dist.init_process_group("gloo")
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
run.register(model=ddp, optimizer=optimizer)
for step in run.steps():
    optimizer.zero_grad()
    loss = ddp(torch.ones(len(run.slice(step)), 4)).square().mean()
    loss.backward()
    optimizer.step()
    run.report(loss)
    if step == 3 and run.rank == 1:
        evaluate()
    dist.barrier()
if sys.argv[2] == "evaluates" and run.rank == 1:
    evaluate()
P
  port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
  evaluates "$here/../python/python.sh" "$PWD/evaluates.py" "$(port)" evaluates
  told_after '[3, 5]'
  evaluates "$here/../python/python.sh" "$PWD/evaluates.py" "$(port)" ends
  told_after '[3]'
}
