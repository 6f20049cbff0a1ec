# The box itself: real, private, and gone without a trace.
# box: none
# alone

box=$BATS_TEST_DIRNAME/box.sh
daemons() { ps -eo args= | grep -c '^slurmd$\|^slurmctld\|^munged' || true; }
files() { find /tmp /run /var/lib /dev/shm -maxdepth 1 \( -name '*box*' -o -name espalier -o -name 'espalier-[0-9]*' -o -name made-inside \) | sort; }

@test "a box holds idle nodes with GPUs and runs a job of an unprivileged user on two of them" {
  run "$box" -p bash -c '. "$BOX_HERE/jobs.bash"; as_user srun -N2 --ntasks-per-node=1 --gres=gpu:2 sh -c "id -un; hostname; echo \$CUDA_VISIBLE_DEVICES"'
  [ "$status" -eq 0 ]
  [ "$(sort <<< "$output" | xargs)" = "0,1 0,1 boxuser boxuser n1 n2" ]
}

@test "a box's exit status is its command's" {
  run "$box" -p bash -c 'exit 7'
  [ "$status" -eq 7 ]
}

@test "nothing is left after the end, SIGTERM or SIGKILL of a box, nor in /tmp, /run, /var/lib or /dev/shm" {
  daemons=$(daemons) files=$(files)
  "$box" -p true
  for signal in TERM KILL; do
    "$box" -p -k "$BATS_TEST_TMPDIR/kept" sh -c 'touch /tmp/made-inside /dev/shm/made-inside; sleep 60' 3>&- &
    pid=$!
    # Its munged, its slurmctld, and a slurmd.
    for _ in $(seq 600); do [ "$(daemons)" -lt $((daemons + 3)) ] || break; sleep 0.05; done
    sleep 1
    kill -"$signal" "$pid"
    wait "$pid" || true
    for _ in $(seq 100); do [ "$(daemons)" != "$daemons" ] || break; sleep 0.1; done
  done
  [ "$(daemons)" = "$daemons" ]
  [ "$(files)" = "$files" ]
  [ -s "$BATS_TEST_TMPDIR/kept/log/slurmctld.log" ] # by the box that SIGTERM ended
}

@test "three boxes side by side do not see each other" {
  pids=()
  for i in 1 2 3; do "$box" -p -n 2 bash -c '. "$BOX_HERE/jobs.bash"; as_user srun -N2 true && squeue -h -t all -o %i | wc -l' > "$BATS_TEST_TMPDIR/$i" 3>&- & pids+=($!); done
  wait "${pids[@]}" # a bare wait would also wait for the time limit
  [ "$(cat "$BATS_TEST_TMPDIR"/[123] | xargs)" = "1 1 1" ]
}

@test "boxuser's jobs cannot read root's home, and find the programs all the same" {
  run "$box" bash -c '. "$BOX_HERE/jobs.bash"; as_user srun sh -c "command -v espalier-launch; ls /root"'
  [[ $output == */run/box/bin/espalier-launch* ]]
  [ ! -e /root ] || [ "$(stat -c %a /root)" != 700 ] || [[ $output == *"ermission denied"* ]]
}
