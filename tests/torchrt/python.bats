# The Python package outside Slurm: its unit tests, and plain process groups whose losses are those of one process.
# limit: 2400
# each: 600
# early

setup() {
  cd "$BATS_TEST_DIRNAME/../.."
  [ -e "${TORCH_HOME:-}/lib/libtorch_python.so" ] || skip "no torch for Python at TORCH_HOME"
  python=$PWD/tests/python/python.sh
}

@test "slices, frames, profiles and bad input of each" {
  run "$python" tests/python/test_run.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "state: its memory, what is handed over and to whom, its parts, the order of the data, and bad input" {
  for part in test_state test_shards test_data; do
    run "$python" tests/python/$part.py
    echo "$output"
    [ "$status" -eq 0 ]
  done
}

@test "a state that lives in shared memory: its pages are handed over, whoever is killed, forks or goes on; children have no sockets" {
  for part in test_home test_home_forks test_home_handover test_forks; do
    run "$python" tests/python/$part.py
    echo "$output"
    [ "$status" -eq 0 ]
  done
}

@test "the end of a loop: break, return, exceptions, and what ends by itself around the steps are told apart" {
  run "$python" tests/python/test_leaving.py
  echo "$output"
  [ "$status" -eq 0 ]
  grep -o '# .*' <<< "$output" >&3
}

# bats test_tags=long:1
@test "the end of a training: what is written and told then, on one process and on three" {
  run "$python" tests/python/test_ending.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "the beginning of a training: processes that would not begin alike are refused" {
  run "$python" tests/python/test_beginning.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "Trainer: what cannot be elastic is refused, also for its version" {
  run "$python" tests/python/test_trainer.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "Trainer and Lightning: a generation goes on from its state, whatever checkpoints of their own they find" {
  for part in test_resuming_trainer test_resuming_lightning; do
    run "$python" tests/python/$part.py
    echo "$output"
    [ "$status" -eq 0 ]
  done
}

@test "gradients that are accumulated over several steps: a change, a snapshot and a checkpoint wait for the optimizer" {
  run "$python" tests/python/test_accumulated.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "registered objects: compiled modules, moving averages, devices, and bad use" {
  run "$python" tests/python/test_registered.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "snapshots: heads that grow, and a vault or memory that fails" {
  run "$python" tests/python/test_snapshots.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "measuring: why a job does not grow, losses that nobody tells, and marks on a GPU" {
  run "$python" tests/python/test_measuring.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "work that is no step: evaluations of scripts, of the Trainer and of Lightning tell the launcher that they get on, and nothing else does" {
  run "$python" tests/python/test_progress.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "gradients: FSDP2 weighs slices that differ in size on meshes of every shape" {
  run "$python" tests/python/test_gradients.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "exchanges: the same on one, two and three processes, and nothing of a stranger is run" {
  run "$python" tests/python/test_exchange.py
  echo "$output"
  [ "$status" -eq 0 ]
}

# bats test_tags=long:2
@test "layouts of a replica: every tensor moves between all pairs of some, losses are those of one process, and bad use is refused" {
  run "$python" tests/python/test_layouts.py
  echo "$output"
  [ "$status" -eq 0 ]
  grep -o '# .*' <<< "$output" >&3
}

@test "streams: each sample once, the next generation at its place, and bad use" {
  run "$python" tests/python/test_stream.py
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "a process that was started ahead loads torch, and learns later which rank it is" {
  run "$python" tests/python/test_spare.py
  echo "$output"
  [ "$status" -eq 0 ]
}

# group WORLD OUT ARGUMENT...: tests/python/$script, with some arguments.
script=train.py
group() {
  local world=$1 out=$2
  shift 2
  processes "$world" "$PWD/tests/python/$script" --metrics "$out" --steps "${steps:-40}" --pause 0 --batch 25 "$@"
}
# processes WORLD SCRIPT ARGUMENT...: as torchrun would start them.
processes() {
  local world=$1 rank status=0 pids=() port
  shift
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  for ((rank = 0; rank < world; rank++)); do
    env RANK=$rank WORLD_SIZE="$world" LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" timeout 500 "$python" "$@" & pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || status=$?; done
  return "$status"
}
need_lightning() {
  local at=${LIGHTNING_HOME:-$TORCH_HOME/../../lightning-2.6.6}
  [ -e "$at/lightning/__init__.py" ] || skip "lightning is not at $at: \`make deps\` could not fetch etc/deps/lightning.txt"
}
need_accelerate() {
  local at=${ACCELERATE_HOME:-$TORCH_HOME/../../accelerate-1.15.0}
  [ -e "$at/accelerate/__init__.py" ] || skip "accelerate is not at $at: \`make deps\` could not fetch etc/deps/accelerate.txt"
}
first_step_of_second_run() { sed -nE 's/.*"step":([0-9]+).*/\1/p' "$1" | sed -n "$2p"; }

@test "three processes with 9, 8 and 8 samples, whole or in parts of 3, do what one process does" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 3 "$BATS_TEST_TMPDIR/three.jsonl"
  group 3 "$BATS_TEST_TMPDIR/parts.jsonl" --most 3
  for run in three parts; do
    python3 tests/python/losses.py "$BATS_TEST_TMPDIR/$run.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
    [ "$(wc -l < "$BATS_TEST_TMPDIR/$run.jsonl")" = 40 ]
  done
}

@test "random augmentations are those of one process on two and three, also where a DataLoader reads" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl" --noise 1
  group 1 "$BATS_TEST_TMPDIR/clean.jsonl"
  run python3 tests/python/losses.py "$BATS_TEST_TMPDIR/clean.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
  [ "$status" != 0 ]
  for world in 2 3; do
    group $world "$BATS_TEST_TMPDIR/$world.jsonl" --noise 1 --most $((world == 2 ? 5 : 0))
    python3 tests/python/losses.py "$BATS_TEST_TMPDIR/$world.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
  done
  need_accelerate
  group 3 "$BATS_TEST_TMPDIR/loader.jsonl" --noise 1 --kind accelerate
  python3 tests/python/losses.py "$BATS_TEST_TMPDIR/loader.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
}

@test "a stream: three processes do what one does, whole or in parts, also where another number goes on from a checkpoint" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 3 "$BATS_TEST_TMPDIR/parts.jsonl" --stream 1 --most 3
  python3 tests/python/losses.py "$BATS_TEST_TMPDIR/parts.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
  steps=90 # more than two epochs
  group 1 "$BATS_TEST_TMPDIR/one90.jsonl"
  group 3 "$BATS_TEST_TMPDIR/run.jsonl" --stream 1 --checkpoint "$BATS_TEST_TMPDIR/c" --every 10 --break-at 51
  group 2 "$BATS_TEST_TMPDIR/run.jsonl" --stream 1 --checkpoint "$BATS_TEST_TMPDIR/c" --every 10
  python3 tests/python/losses.py "$BATS_TEST_TMPDIR/run.jsonl" "$BATS_TEST_TMPDIR/one90.jsonl" 25
  [ "$(wc -l < "$BATS_TEST_TMPDIR/run.jsonl")" = 90 ]
}

@test "a training that is started again goes on from its checkpoint" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 1 "$BATS_TEST_TMPDIR/two.jsonl" --checkpoint "$BATS_TEST_TMPDIR/c" --every 15 --fail-at 33 || true
  group 1 "$BATS_TEST_TMPDIR/two.jsonl" --checkpoint "$BATS_TEST_TMPDIR/c" --every 15
  [ "$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BATS_TEST_TMPDIR/two.jsonl" | uniq | sed -n 33p)" = 31 ]
  python3 tests/python/losses.py "$BATS_TEST_TMPDIR/two.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
}

# bats test_tags=long:3
@test "a loop left by break before report() leaves the checkpoint of the step before, and none after the optimizer" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  for late in 0 1; do
    run=$BATS_TEST_TMPDIR/left$late
    group 1 "$run.jsonl" --checkpoint "$run.checkpoint" --every 15 --break-at 33 --break-late $late
    [ "$(wc -l < "$run.jsonl")" = 32 ]
    group 1 "$run.jsonl" --checkpoint "$run.checkpoint" --every 15
    [ "$(first_step_of_second_run "$run.jsonl" 33)" = $((late ? 31 : 33)) ]
    python3 tests/python/losses.py "$run.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
  done
}

# bats test_tags=long:4
@test "Trainer: three processes do what one does, with parts of 3 samples, also where items of labels are counted" {
  need_accelerate
  script=train_trainer.py steps=90 # two epochs of the Trainer, and more
  for items in 0 1; do
    group 1 "$BATS_TEST_TMPDIR/one$items.jsonl" --items $items
    group 3 "$BATS_TEST_TMPDIR/parts$items.jsonl" --items $items --most 3
    python3 tests/python/losses.py "$BATS_TEST_TMPDIR/parts$items.jsonl" "$BATS_TEST_TMPDIR/one$items.jsonl" 25
  done
}

# bats test_tags=long:2
@test "Trainer: a subclass whose loss is the mean over a batch: three processes do what one does, whole or in parts of 3" {
  need_accelerate
  script=train_trainer.py
  group 1 "$BATS_TEST_TMPDIR/one.jsonl" --mean-loss 1
  group 3 "$BATS_TEST_TMPDIR/three.jsonl" --mean-loss 1
  group 3 "$BATS_TEST_TMPDIR/parts.jsonl" --mean-loss 1 --most 3
  for run in three parts; do python3 tests/python/losses.py "$BATS_TEST_TMPDIR/$run.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25; done
}

@test "Trainer: worker processes of different ranks draw different augmentations, also where a dataset reads whole batches" {
  need_accelerate
  script=train_trainer.py steps=4
  group 2 "$BATS_TEST_TMPDIR/two.jsonl" --noise 1
  [ "$(wc -l < "$BATS_TEST_TMPDIR/two.jsonl.drawn")" = 100 ]
  [ -z "$(sort "$BATS_TEST_TMPDIR/two.jsonl.drawn" | uniq -d)" ]
}

# bats test_tags=long:5
@test "Trainer: a training that is started again goes on from the Trainer's own checkpoint" {
  need_accelerate
  script=train_trainer.py
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 1 "$BATS_TEST_TMPDIR/two.jsonl" --save 15 --stop-at 33
  group 1 "$BATS_TEST_TMPDIR/two.jsonl" --save 15
  [ "$(first_step_of_second_run "$BATS_TEST_TMPDIR/two.jsonl" 34)" = 31 ]
  python3 tests/python/losses.py "$BATS_TEST_TMPDIR/two.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
}

@test "Trainer: what cannot be elastic is refused in words" {
  need_accelerate
  script=train_trainer.py
  refused() { # WORDS ARGUMENT...
    run group 1 "$BATS_TEST_TMPDIR/one.jsonl" "${@:2}"
    [ "$status" != 0 ]
    [[ $output == *"cannot make this Trainer elastic: $1"* ]]
  }
  refused "max_steps=41, and espalier.join() was told of 40 steps" --other-steps 41
  refused "Own.get_train_dataloader(), which would not be called; pass the dataset as train_dataset=" --own get_train_dataloader
  refused "Own._get_train_sampler(), which would not be called; pass the dataset as train_dataset=" --own _get_train_sampler
  refused "MeanLoss.compute_loss(), whose loss may be the mean over a batch, or be divided by num_items_in_batch already; say which" --mean-loss 2
}

# bats test_tags=long:2
@test "Lightning: three processes do what one does, whole, in parts of 3, and where one has more parts; one process writes" {
  need_lightning
  script=train_lightning.py steps=90 # two epochs and more
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 3 "$BATS_TEST_TMPDIR/three.jsonl" --sync 1
  group 3 "$BATS_TEST_TMPDIR/parts.jsonl" --most 3 --sync 1
  group 3 "$BATS_TEST_TMPDIR/uneven.jsonl" --most 1
  for run in three parts uneven; do
    python3 tests/python/losses.py "$BATS_TEST_TMPDIR/$run.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
    [ "$(wc -l < "$BATS_TEST_TMPDIR/$run.jsonl")" = 90 ]
    python3 tests/python/lightning_files.py "$BATS_TEST_TMPDIR/$run.jsonl"
  done
}

# bats test_tags=long:1
@test "Lightning: another number of processes goes on from Lightning's own checkpoint, in the middle of an epoch" {
  need_lightning
  script=train_lightning.py steps=90
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 2 "$BATS_TEST_TMPDIR/two.jsonl" --save 15 --stop-at 53
  group 3 "$BATS_TEST_TMPDIR/three.jsonl" --save 15 --most 3 --out "$BATS_TEST_TMPDIR/two.jsonl.files"
  [ "$(first_step_of_second_run "$BATS_TEST_TMPDIR/three.jsonl" 1)" = 46 ]
  head -n 45 "$BATS_TEST_TMPDIR/two.jsonl" | cat - "$BATS_TEST_TMPDIR/three.jsonl" > "$BATS_TEST_TMPDIR/both.jsonl"
  awk '$2 < 46' "$BATS_TEST_TMPDIR/two.jsonl.samples" | cat - "$BATS_TEST_TMPDIR/three.jsonl.samples" > "$BATS_TEST_TMPDIR/both.jsonl.samples"
  python3 tests/python/losses.py "$BATS_TEST_TMPDIR/both.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
  # The second run has its own folder of logs, and a checkpoint every 15 steps.
  [ "$(cd "$BATS_TEST_TMPDIR/two.jsonl.files/lightning_logs/version_1/checkpoints" && echo *)" = '60.ckpt 75.ckpt 90.ckpt' ]
}

@test "Lightning: what cannot be elastic is refused in words" {
  need_lightning
  script=train_lightning.py
  refused() { # SETTINGS WORDS
    run group 1 "$BATS_TEST_TMPDIR/one.jsonl" --refused "$1"
    [ "$status" != 0 ]
    [[ $output == *"cannot make this Trainer elastic: $2"* ]]
  }
  refused '{"max_steps": 41}' 'max_steps=41, and espalier.join() was told of 40 steps'
  refused '{"accumulate_grad_batches": 2}' 'accumulate_grad_batches=2'
  for sampler in '{"num_samples": 100}' '{"replacement": true}'; do
    run group 1 "$BATS_TEST_TMPDIR/one.jsonl" --sampler "$sampler"
    [ "$status" != 0 ]
    [[ $output == *"cannot make this Trainer elastic: a RandomSampler with replacement or num_samples"* ]]
  done
  refused '{"val_check_interval": 41, "check_val_every_n_epoch": 1}' 'val_check_interval=41 steps, and an epoch has 40'
  run group 3 "$BATS_TEST_TMPDIR/three.jsonl" --most 1 --sync 1
  [ "$status" != 0 ]
  [[ $output == *"a step has 8 batches in one process and 9 in another; give the DataLoader a larger batch_size"* ]]
}

# bats test_tags=long:6
@test "Accelerate: three processes do what one does, whole or in parts of 3" {
  need_accelerate
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 3 "$BATS_TEST_TMPDIR/three.jsonl" --kind accelerate
  group 3 "$BATS_TEST_TMPDIR/parts.jsonl" --kind accelerate --most 3
  for run in three parts; do python3 tests/python/losses.py "$BATS_TEST_TMPDIR/$run.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25; done
}

# bats test_tags=long:5
@test "FSDP2: one and three processes do what one does without, whole or in parts, also where one needs more parts than another" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 1 "$BATS_TEST_TMPDIR/alone.jsonl" --kind fsdp
  group 3 "$BATS_TEST_TMPDIR/three.jsonl" --kind fsdp
  group 3 "$BATS_TEST_TMPDIR/parts.jsonl" --kind fsdp --most 3
  group 2 "$BATS_TEST_TMPDIR/more.jsonl" --kind fsdp --most 4 # 13 samples and 12: four parts each
  run group 2 "$BATS_TEST_TMPDIR/single.jsonl" --kind fsdp --most 1
  [ "$status" != 0 ]
  [[ $output == *"12 samples of one process cannot be as many parts as 13 of another"* ]]
  for run in alone three parts more; do python3 tests/python/losses.py "$BATS_TEST_TMPDIR/$run.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25; done
}

@test "FSDP2: set_gradient_divide_factor() holds: gradients are summed and divided by it, not weighed, in single and double precision" {
  cat > "$BATS_TEST_TMPDIR/factor.py" <<'P'
import espalier
run = espalier.join(global_batch=5, steps=1)
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
for kind in (torch.float32, torch.float64):
    for factor in (None, 1.0, 2.5, 2.0):
        torch.manual_seed(1)
        model = torch.nn.Linear(4, 1, bias=False).to(kind)
        numbers = torch.arange(20).reshape(5, 4).to(kind)
        mine = numbers[torch.tensor(run.slice(1))]
        fully_shard(model)
        if factor is not None:
            model.set_gradient_divide_factor(factor)
        one = type(run)(5, 1, seed=0, checkpoint=None, checkpoint_every=0, checkpoint_minutes=0, snapshot_seconds=0, start_seconds=1)
        one.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
        one.start()
        one.begin()
        (model(mine).mean() if factor is None else model(mine).sum()).backward()
        gradient = model.weight.grad.full_tensor()[0]
        wanted = numbers.mean(0) if factor is None else numbers.sum(0) / factor
        assert torch.allclose(gradient, wanted), (kind, factor, gradient, wanted)
        print(f"rank {run.rank}: {kind}, {factor}: {gradient.tolist()}", flush=True)
P
  run processes 2 "$BATS_TEST_TMPDIR/factor.py"
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(grep -o 'rank [01]: ' <<< "$output" | wc -l)" = 16 ]
}

# bats test_tags=long:6
@test "layouts: a loss that the script divides by the global batch, in micro-batches, on one, two and four processes" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl" --kind blocks
  group 2 "$BATS_TEST_TMPDIR/tp.jsonl" --kind blocks --layouts tp=2 --tokens 1
  group 4 "$BATS_TEST_TMPDIR/both.jsonl" --kind blocks --layouts tp=2 --tokens 1
  for run in tp both; do python3 tests/python/losses.py "$BATS_TEST_TMPDIR/$run.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25; done
}

# bats test_tags=long:1
@test "FSDP2: a checkpoint of three processes is gone on with by five, that by one, and what DDP wrote by three" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  run=$BATS_TEST_TMPDIR/run.jsonl c=$BATS_TEST_TMPDIR/c
  group 3 "$run" --kind fsdp --checkpoint "$c" --every 5 --break-at 11
  [ "$(ls "$c".*)" = "$(printf '%s\n' "$c".10.{0,1,2})" ]
  group 5 "$run" --kind fsdp --checkpoint "$c" --every 5 --break-at 21
  group 1 "$run" --kind fsdp --checkpoint "$c" --every 5 --break-at 31
  [ "$(ls "$c".*)" = "$c.30.0" ]
  rm "$c" "$c".*
  group 2 "$BATS_TEST_TMPDIR/ddp.jsonl" --checkpoint "$c" --every 5 --break-at 31
  group 3 "$run" --kind fsdp --checkpoint "$c" --every 5
  python3 tests/python/losses.py "$run" "$BATS_TEST_TMPDIR/one.jsonl" 25
  [ "$(wc -l < "$run")" = 40 ]
}

# bats test_tags=long:3
@test "tensor and pipeline parallelism of the script's own (unit=2, unit=4): one and two replicas do what one process does without" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 2 "$BATS_TEST_TMPDIR/alone.jsonl" --kind tp
  group 4 "$BATS_TEST_TMPDIR/two.jsonl" --kind tp
  group 4 "$BATS_TEST_TMPDIR/parts.jsonl" --kind tp --most 3
  group 4 "$BATS_TEST_TMPDIR/stages.jsonl" --kind tp-pp
  for run in alone two parts stages; do python3 tests/python/losses.py "$BATS_TEST_TMPDIR/$run.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25; done
}

# bats test_tags=long:5
@test "unit=2: a checkpoint of one replica is gone on with by two, and by no other unit" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  run=$BATS_TEST_TMPDIR/run.jsonl c=$BATS_TEST_TMPDIR/c
  group 2 "$run" --kind tp --checkpoint "$c" --every 5 --break-at 11
  [ "$(ls "$c".*)" = "$(printf '%s\n' "$c".10.{0,1})" ]
  group 4 "$run" --kind tp --checkpoint "$c" --every 5
  python3 tests/python/losses.py "$run" "$BATS_TEST_TMPDIR/one.jsonl" 25
  run group 1 "$BATS_TEST_TMPDIR/other.jsonl" --checkpoint "$c" --every 5
  [ "$status" != 0 ]
  [[ $output == *"is of replicas of 2 processes, and this program's have 1"* ]]
}

@test "torchrun finds the rendezvous of the package, installed or as a wheel, and refuses it in words without a launcher" {
  info=$BUILD/espalier-0.1.0.dist-info
  [ -e "$info/entry_points.txt" ] || make --no-print-directory BUILD="$BUILD" "$info/entry_points.txt" "$info/METADATA"
  mkdir "$BATS_TEST_TMPDIR/installed"
  cp -r torchrt/python/espalier "$info" "$BATS_TEST_TMPDIR/installed/"
  export ESPALIER_PACKAGE=$BATS_TEST_TMPDIR/installed
  cat > "$BATS_TEST_TMPDIR/sum.py" <<'P'
import os, subprocess, torch, torch.distributed as dist
dist.init_process_group("gloo")
listening = subprocess.run(["ss", "-Hltn", f"sport = :{os.environ['MASTER_PORT']}"], capture_output=True, text=True, check=True).stdout
print("the store listens at", *[line.split()[3] for line in listening.splitlines()], flush=True)
one = torch.ones(1)
dist.all_reduce(one)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {int(one)}, store of the agent: {os.environ['TORCHELASTIC_USE_AGENT_STORE']}", flush=True)
dist.destroy_process_group()
P
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  local agents=()
  for rank in 0 1; do
    env ESPALIER_LAUNCHER=h:1 ESPALIER_GENERATION=0 RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" timeout 300 "$python" \
      -m torch.distributed.run --rdzv-backend=espalier "$BATS_TEST_TMPDIR/sum.py" > "$BATS_TEST_TMPDIR/out$rank" 2>&1 3>&- &
    agents+=($!)
  done
  # By number: a bare `wait` also waits for the process with which bats limits the test's time.
  wait "${agents[@]}" || true
  cat "$BATS_TEST_TMPDIR"/out*
  for rank in 0 1; do grep -q "rank $rank of 2: sum 2, store of the agent: True" "$BATS_TEST_TMPDIR/out$rank"; done
  for rank in 0 1; do grep -qx "the store listens at 127.0.0.1:$port" "$BATS_TEST_TMPDIR/out$rank"; done # and nowhere else
  run timeout 300 "$python" -m torch.distributed.run --rdzv-backend=espalier "$BATS_TEST_TMPDIR/sum.py"
  [ "$status" != 0 ]
  [[ $output == *"there is no launcher of Espalier here; start torchrun by srun --elastic"* ]]
  # A wheel brings the same.
  make --no-print-directory wheel BUILD="$BATS_TEST_TMPDIR/build" || skip "no pip, setuptools and wheel to build one with"
  unzip -p "$BATS_TEST_TMPDIR"/build/wheel/espalier-0.1.0-*.whl espalier-0.1.0.dist-info/entry_points.txt | diff -B - "$info/entry_points.txt"
}

@test "each example differs from its plain script in at most 10 lines" {
  for plain in examples/pytorch/plain*.py; do
    elastic=${plain/plain.py/ddp.py} elastic=${elastic/plain_/}
    # Titles and indentation aside, and lines that moved.
    changed=$(diff <(sed '1d; s/^ *//' "$plain" | sort) <(sed '1d; s/^ *//' "$elastic" | sort) | grep -c '^>')
    echo "$elastic: $changed lines"
    [ "$changed" -le 10 ]
  done
}

# examples_run WORLD STEP NAME...: each of these examples runs on so many processes, to this last step.
examples_run() {
  local world=$1 last=$2 examples=$PWD/examples/pytorch one
  shift 2
  cd "$BATS_TEST_TMPDIR"
  for one; do
    processes "$world" "$examples/$one.py" > "$one.out"
    grep "step $last: loss .* on $world processes" "$one.out"
  done
}

# bats test_tags=long:6
@test "the examples of DDP, FSDP2 and Accelerate run on two processes" {
  need_accelerate
  examples_run 2 400 ddp fsdp accelerate_loop
}

# bats test_tags=long:2
@test "the example with tensor and pipeline parallelism of its own runs on four processes, with Espalier and without" {
  examples_run 4 400 plain_megatron megatron
}

# bats test_tags=long:4
@test "the examples of torchtitan's kind and with layouts run on four processes, with Espalier and without" {
  (examples_run 4 100 plain_titan titan)
  (examples_run 4 40 plain_layouts layouts)
}

# bats test_tags=long:1
@test "the example with Trainer runs on two processes" {
  need_accelerate
  examples=$PWD/examples/pytorch
  cd "$BATS_TEST_TMPDIR"
  processes 2 "$examples/trainer.py" > trainer.out
  grep "'train_loss'" trainer.out
  [ -e out/checkpoint-400/rng_state_1.pth ]
}

# bats test_tags=long:3
@test "the example with Lightning runs on two processes" {
  need_lightning
  examples=$PWD/examples/pytorch
  cd "$BATS_TEST_TMPDIR"
  processes 2 "$examples/lightning_fit.py" > lightning.out
  ls lightning_logs/version_0/checkpoints/*step=400.ckpt
  [ "$(find lightning_logs -name metrics.csv | wc -l)" = 1 ]
}
