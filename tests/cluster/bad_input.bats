# Bad input: each is refused where the user types it, with a message that names the thing and the remedy; nothing changes.

setup() { . "$BOX_HERE/jobs.bash"; }
teardown() { [ -z "$(squeue -h)" ] || { squeue; as_user scancel -u boxuser; false; }; }

refused() { # MESSAGE COMMAND...: fails with the message, and submits nothing
  local message=$1 before
  before=$(scontrol show config | sed -n 's/^NEXT_JOB_ID *= *//p')
  shift
  run as_user timeout 20 "$@"
  echo "$output"
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
  [[ $output == *"espalier: "*"$message"* ]]
  [ -n "$before" ] && [ "$before" = "$(scontrol show config | sed -n 's/^NEXT_JOB_ID *= *//p')" ]
}

@test "--elastic=8:4 is refused by srun, sbatch and salloc: MAX is below MIN" {
  refused "MAX is below MIN" srun --elastic=8:4 --gres=gpu:2 hostname
  refused "MAX is below MIN" sbatch --elastic=8:4 --gres=gpu:2 --wrap hostname
  refused "MAX is below MIN" salloc --elastic=8:4 --gres=gpu:2 hostname
}

@test "--elastic=abc is refused: not MIN:MAX" { refused "not MIN:MAX" srun --elastic=abc --gres=gpu:2 hostname; }
@test "--elastic=0 is refused" { refused '"0"' srun --elastic=0 --gres=gpu:2 hostname; }
@test "--elastic=-1:4 is refused: MIN is no number of GPUs" { refused "MIN is not a number" srun --elastic=-1:4 --gres=gpu:2 hostname; }
@test "--elastic=4:8 for two GPUs is refused: MIN is above the request" { refused "requests 2 GPUs" srun --elastic=4:8 --gres=gpu:2 hostname; }
@test "--elastic without GPUs is refused" { refused "no GPUs requested" srun --elastic=1:8 hostname; }
@test "an unknown key of --elastic is refused" { refused "unknown key" srun --elastic=1:8,colour=red --gres=gpu:2 hostname; }
@test "an unknown accuracy is refused" { refused "accuracy" srun --elastic=1:8,accuracy=exact --gres=gpu:2 hostname; }
@test "MAX above the site's limit is refused" { refused "64" srun --elastic=2:65 --gres=gpu:2 hostname; }

@test "espalierd names file, line and key of what is wrong in its configuration" {
  wrong() { # KEY LINE
    { echo '# first line'; echo "$2"; } > "$BATS_TEST_TMPDIR/wrong.toml"
    chmod -R a+rX "$BATS_TEST_TMPDIR"
    run timeout 10 espalierd --foreground --config "$BATS_TEST_TMPDIR/wrong.toml"
    echo "$output"
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    [[ $output == *"wrong.toml:2: $1"* ]]
  }
  wrong planner.colour 'planner.colour = "red"'
  wrong planner.port 'planner.port = "seven"'
  wrong launch.start_seconds 'launch.start_seconds = -5'
}

@test "espalierd refuses a configuration file that is not there" {
  run timeout 10 espalierd --foreground --config /etc/espalier/missing.toml
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
  [[ $output == *"/etc/espalier/missing.toml"* ]]
}

@test "a training whose layers cannot fill the stages is refused by the trainer, with the remedy" {
  run as_user mpirun --oversubscribe -np 3 espalier-train "$BOX/share/examples/gpt-tiny.toml" --set model.layers=2 --data "$BOX/share/text" --steps 1
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"2 layers cannot fill 3 pipeline stages"* ]]
}

@test "a training configuration with an unknown key names file, line and key" {
  sed 's/^seed/sead/' "$BOX/share/examples/gpt-tiny.toml" > "$BOX/home/wrong.toml"
  run as_user espalier-train wrong.toml
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"wrong.toml"*"sead"* ]]
}
