# Bad input to daemon and trainer: refused with a message that names the thing and the remedy. The option: spank_option.bats.
# beside

setup() { . "$BOX_HERE/jobs.bash"; }
teardown() { [ -z "$(squeue -h)" ] || { squeue; as_user scancel -u boxuser; false; }; }

@test "espalierd names file, line and key of what is wrong in its configuration" {
  wrong() { # KEY LINE
    { echo '# first line'; echo "$2"; } > "$BATS_TEST_TMPDIR/wrong.toml"
    chmod -R a+rX "$BATS_TEST_TMPDIR"
    run timeout 10 espalierd --foreground --config "$BATS_TEST_TMPDIR/wrong.toml"
    echo "$output"
    [ "$status" -ne 0 ]
    [ "$status" -ne 124 ]
    [[ $output == *"wrong.toml:2: $1"* ]]
  }
  wrong planner.colour 'planner.colour = "red"'
  wrong planner.port 'planner.port = "seven"'
  wrong launch.start_seconds 'launch.start_seconds = -5'
}

@test "espalierd refuses a configuration file that is not there" {
  run timeout 10 espalierd --foreground --config /etc/espalier/missing.toml
  [ "$status" -ne 0 ]
  [ "$status" -ne 124 ]
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

@test "a task of a job array is named as squeue shows it, and one that is not there is refused" {
  array=$(as_user sbatch --parsable --array=0-1 --mem=100 -o /dev/null --wrap 'sleep 600')
  wait_for 30 "both tasks run" eval '[ "$(squeue -h -t R -j "$array" | wc -l)" = 2 ]'
  task=$(squeue -h -j "${array}_0" -o %A)
  [ "$task" != "$array" ]
  run espalier explain "${array}_0"
  echo "$output"
  [[ $output == *"job $task"* ]]
  run espalier explain "${array}_7"
  echo "$output"
  [ "$status" = 1 ]
  [[ $output == *"job ${array}_7: the array has no such task that has started"* ]]
  run env SLURM_CONF=/nonexistent/slurm.conf espalier explain "${array}_0"
  echo "$output"
  [ "$status" = 1 ]
  [[ $output == "espalier: Slurm: no usable configuration on this host ("* ]]
  as_user scancel "$array"
  wait_for 30 "the tasks have ended" eval '[ -z "$(squeue -h)" ]'
}
