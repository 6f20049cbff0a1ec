# Hugging Face's Trainer and Accelerate on an elastic run: jobs grow and shrink. No step is missing, each sample is used once, and the
# losses are those of one process.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# limit: 3000
# each: 900
# beside

setup_file() {
  . "$BOX_HERE/pytorch.bash"
  need_accelerate
  set_up_python
}
setup() { . "$BOX_HERE/pytorch.bash"; }
teardown() { clean_slate; }

@test "Trainer: it grows and shrinks; logs and checkpoints are those of one training" {
  script=train_trainer.py script_options=(--most 7)
  python_reference 1500
  python_cast 2:4 --save 25
  python_grows_and_shrinks
  handed_off
  python3 "$BOX/share/python/logs.py" "$BOX/home/A.jsonl" "$BOX/share/python-reference.jsonl"
  ls "$BOX/home/A.jsonl.files" | sed 's/^/# /' >&3
  python_goes_on_well
}

# bats test_tags=long:3
@test "Trainer: a worker is killed, and the training goes on from a snapshot in memory" {
  script=train_trainer.py script_options=(--items 1)
  python_reference 1500
  python_cast 2:2
  wait_for 60 "it has trained for some snapshots" stepped_past A $(($(step_of A) + 40))
  kill -KILL "$(processes python3 ESPALIER_GENERATION=0 | head -n 1)"
  wait_for 300 "A trains in another generation" eval '[ "$(metric A generation)" -gt 0 ]'
  grep -q 'training went on with snapshots kept elsewhere' "$BOX/home/A.out"
  python_goes_on_well
}

# bats test_tags=long:2
@test "Accelerate: it grows and shrinks" {
  script_options=(--kind accelerate)
  python_reference 1500
  python_cast 2:4
  python_grows_and_shrinks
  python_goes_on_well
}
