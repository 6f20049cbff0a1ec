# Hugging Face's Trainer, Accelerate and Lightning on an elastic run: jobs grow and shrink. No step is missing, each sample is used once, and the
# losses are those of one process.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# limit: 3000
# each: 900
# beside

setup_file() {
  . "$BOX_HERE/pytorch.bash"
  set_up_python
}
setup() { . "$BOX_HERE/pytorch.bash"; }
teardown() { clean_slate; }

# bats test_tags=long:5
@test "Trainer: it grows and shrinks; logs and checkpoints are those of one training" {
  need_accelerate
  script=train_trainer.py script_options=(--most 7)
  python_reference 1500
  python_cast 2:4 --save 25
  python_grows_and_shrinks
  handed_off
  python3 "$BOX/share/python/logs.py" "$BOX/home/A.jsonl" "$BOX/share/python-reference.jsonl"
  ls "$BOX/home/A.jsonl.files" | sed 's/^/# /' >&3
  python_goes_on_well
}

# A, on two GPUs, loses a worker.
goes_on_after_a_loss() {
  wait_for 60 "it has trained for some snapshots" stepped_past A $(($(step_of A) + 40))
  kill -KILL "$(processes python3 ESPALIER_GENERATION=0 | head -n 1)"
  wait_for 300 "A trains in another generation" eval '[ "$(metric A generation)" -gt 0 ]'
  wait_for 30 "it is told how" grep -q 'training went on with snapshots kept elsewhere' "$BOX/home/A.out"
  python_goes_on_well
}

# bats test_tags=long:5
@test "Trainer: a worker is killed, and the training goes on from a snapshot in memory" {
  need_accelerate
  script=train_trainer.py script_options=(--items 1)
  python_reference 1500
  python_cast 2:2
  goes_on_after_a_loss
}

# bats test_tags=long:2
@test "Accelerate: it grows and shrinks" {
  need_accelerate
  script_options=(--kind accelerate)
  python_reference 1500
  python_cast 2:4
  python_grows_and_shrinks
  python_goes_on_well
}

# The DataLoader's batch_size of 7 gives two batches a step on 2 processes, and one on 4.
# bats test_tags=long:4
@test "Lightning: it grows and shrinks; logs, checkpoints and validation are those of one training, written by one process" {
  need_lightning
  script=train_lightning.py script_options=(--most 7)
  python_reference 1500
  python_cast 2:4 --save 25
  python_grows_and_shrinks
  python_goes_on_well
  # Where Slurm took the GPUs before the smaller generation had started, some steps were done again.
  local again=()
  ! grep -q 'training went on with' "$BOX/home/A.out" || again=(again)
  echo "# ${again[*]:-handed over}" >&3
  env "${python_environment[@]}" "$BOX/share/python/python.sh" "$BOX/share/python/lightning_files.py" "$BOX/home/A.jsonl" 25 "${again[@]}"
}

# bats test_tags=long:1
@test "Lightning: a worker is killed, and the training goes on from a snapshot in memory" {
  need_lightning
  script=train_lightning.py script_options=()
  python_reference 1500
  python_cast 2:2
  goes_on_after_a_loss
}
