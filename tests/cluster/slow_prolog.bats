# A site whose Prolog takes longer than 20 s. Slurm calls a base running meanwhile, and its keepers cannot come.
# box: -n 2 -c 'Prolog=/run/box/share/prolog.sh' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1'
# limit: 400
# each: 200
# beside

setup_file() {
  . "$BOX_HERE/training.bash"
  cat > "$BOX/share/prolog.sh" << 'S'
#!/bin/sh
case $(squeue -h -j "$SLURM_JOB_ID" -o %j) in base-*) sleep 30 ;; esac
S
  cat > "$BOX/share/train-and-tell" << S
#!/bin/sh
case \$OMPI_COMM_WORLD_RANK in # a spare has no rank yet
  [0-9]*) echo "\$(ulimit -Sn) \$OMPI_MCA_btl_tcp_eager_limit \$OMPI_MCA_btl_vader_eager_limit" >> $BOX/home/seen ;;
esac
exec espalier-train "\$@"
S
  chmod 755 "$BOX/share/prolog.sh" "$BOX/share/train-and-tell"
  reference
}
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

descriptors_of() { awk '/^Max open files/ { print $4 }' "/proc/$1/limits"; } # PID: its soft limit

@test "a movable job whose base starts after a Prolog of 30 s trains, and gives nothing back before" {
  ulimit -Sn 1000
  A=$(TRAINER=$BOX/share/train-and-tell SRUN_OPTIONS=--export=ALL,OMPI_MCA_btl_vader_eager_limit=8192 elastic A 2:2,movable -n1 --mem=500 -- "${tiny[@]}" --steps 60)
  wait_for 60 "the base runs, in Slurm's words" eval '[ -n "$(squeue -h -n "base-$A" -t RUNNING -o %i)" ]'
  local base
  base=$(squeue -h -n "base-$A" -o %i)
  sleep 24
  [ "$(squeue -h -n "base-$A" -o '%i %t')" = "$base R" ]
  refute grep -q 'its keeper did not reach' "$BOX/home/A.out"
  wait_for 60 "A trains" stepped_past A 5
  # The launcher of many ranks needs more descriptors than its user has asked for. Its ranks start with what was asked for.
  # What the user says of MPI's messages holds, and the rest is the launcher's.
  [ "$(descriptors_of "$(pgrep -u boxuser -x espalier-launch | head -n 1)")" -gt 1000 ]
  sort -u "$BOX/home/seen"
  [ "$(sort -u "$BOX/home/seen")" = "1000 1048576 8192" ]
  ends_well 60
}
