# The example in C (examples/c/worker.c) on libespalier-worker, as A: it is measured, and the planner gives it more GPUs.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 1200
# each: 500
# beside

setup_file() {
  . "$BOX_HERE/training.bash"
  make -s -C "$BOX_REPO" BUILD="$BUILD" "$BUILD/test/c_worker" > /dev/null
  install -m 755 "$BUILD/test/c_worker" "$BOX/share/c_worker"
}
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# c_worker RANGE ARGUMENT...: prints the job's id. Its losses are in A.jsonl, its other output in A.out.
c_worker() {
  local range=$1
  shift
  as_user tee "$BOX/home/A.sh" > /dev/null <<S
#!/bin/bash
export LD_LIBRARY_PATH=$BOX/lib:$LD_LIBRARY_PATH
srun --elastic=$range $BOX/share/c_worker $* | tee >(grep --line-buffered '^{"step"' > $BOX/home/A.jsonl)
S
  as_user sbatch --parsable -J A -o "$BOX/home/A.out" -N1 -n1 -w n1 --gres=gpu:2 "$BOX/home/A.sh"
}
# No step is missing, none is there twice, and the loss falls as that of one process would.
steps_are_whole() {
  python3 - "$BOX/home/A.jsonl" <<'P2'
import json, sys
lines = open(sys.argv[1]).read().split("\n")[:-1]  # the last one may be half written
steps = [json.loads(line) for line in lines]
assert [one["step"] for one in steps] == list(range(1, len(steps) + 1)), "steps are missing, or done twice"
# The training itself, as in worker.c.
def sample(number):
    seed, mask = (number * 0x9E3779B97F4A7C15 + 1) % 2**64, 2**64 - 1
    x = []
    for _ in range(64):
        seed ^= (seed << 13) & mask
        seed ^= seed >> 7
        seed ^= (seed << 17) & mask
        x.append((seed >> 11) / 9007199254740992.0 - 0.5)
    return x, sum(v * (i % 7 - 3) for i, v in enumerate(x))
weights, worst = [0.0] * 64, 0.0
for one in steps[:300]:
    gradient, loss = [0.0] * 64, 0.0
    for number in range((one["step"] - 1) * 48, one["step"] * 48):
        x, y = sample(number)
        error = sum(a * b for a, b in zip(x, weights)) - y
        loss += error * error / 48
        for i in range(64): gradient[i] += 2 * error * x[i] / 48
    for i in range(64): weights[i] -= 0.3 * gradient[i]
    worst = max(worst, abs(loss - one["loss"]) / max(loss, 1e-9))
assert worst < 1e-9, worst
print(f"{len(steps)} steps, {steps[0]['gpus']} to {max(one['gpus'] for one in steps)} GPUs, losses of one process within {worst:.1e}")
P2
}
explains() { as_user espalier explain "$A" > "$BOX/log/explained" && grep -qE "$1" "$BOX/log/explained"; }

@test "the example in C is measured, grows by the planner's decision, to another node too, and shrinks" {
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(c_worker 2:6 --steps 1000000 --pause 1)
  wait_for 120 "A trains" stepped_past A 10
  [ "$(gpus_of A)" = 2 ]
  finish near
  wait_for 200 "A runs on 4 GPUs" runs_on A 4
  explains 'Kind=grow'
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  finish far
  wait_for 200 "A runs on n2 too" runs_on A 6
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 200 "the urgent job runs" job_is "$urgent" RUNNING
  wait_for 200 "A runs on 4 GPUs" runs_on A 4
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  finish urgent
  steps_are_whole | sed 's/^/# /' >&3
  as_user scancel "$A"
  leaves_nothing 60
}
