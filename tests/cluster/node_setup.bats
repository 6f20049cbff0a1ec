# node_setup= of --elastic: the user's program prepares each node for ranks, before the first of them starts there.
# box: -n 3 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 240
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# A, whose workers write what they have of the node setup to `seen` before they train. The node setup is these shell lines.
prepared() { # RANGE SETUP-LINES SBATCH-OPTION...
  local range=$1 lines=$2
  shift 2
  printf '#!/bin/sh\n%s\n' "$lines" | as_user tee setup.sh > /dev/null
  as_user tee worker.sh > /dev/null <<S
#!/bin/sh
# espalier: describes itself
case "\$*" in *--describe*) ;; *) echo "\$SLURMD_NODENAME \${MODULE:-none} \${OF_THE_USER:-none} \$TMPDIR" >> $BOX/home/seen ;; esac
exec espalier-train "\$@"
S
  as_user chmod +x setup.sh worker.sh
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
export OF_THE_USER=mine TMPDIR=/tmp
srun --elastic=$range,node_setup=$BOX/home/setup.sh ./worker.sh $BOX/share/examples/gpt-tiny.toml --metrics $BOX/home/A.jsonl ${tiny[*]} --steps 1000000
S
  A=$(as_user sbatch --parsable -J A -o "$BOX/home/A.out" "$@" A.sh)
}
said() { grep -q -- "$1" "$BOX/home/A.out"; }

@test "a movable job and its extension: each node is prepared once, its ranks have what is exported, the launcher's node is left alone" {
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  prepared 2:8,movable "echo \$SLURMD_NODENAME \$SLURM_JOB_ID >> $BOX/home/runs
echo print \$SLURMD_NODENAME is prepared
echo export MODULE=of-\$SLURMD_NODENAME
mkdir -p $BOX/home/tmp-\$SLURMD_NODENAME
echo export TMPDIR=$BOX/home/tmp-\$SLURMD_NODENAME
echo unset OF_THE_USER" -n1 --mem=500 -w n3
  wait_for 150 "A trains" stepped_past A 10
  base=$(squeue -h -n "base-$A" -o %i)
  first=$(squeue -h -j "$base" -o %N)
  finish far
  wait_for 120 "A runs on 8 GPUs" runs_on A 8
  wait_for 60 "A is held, so that it keeps its extensions" espalier hold "$A"
  wait_for 60 "A does 10 steps there" stepped_past A $(($(step_of A) + 10))
  cat "$BOX/home/runs" "$BOX/home/seen"
  extensions=$(extensions_of "$A")
  [ -n "$extensions" ]
  for job in $base $extensions; do
    [ "$(grep -c " $job\$" "$BOX/home/runs")" -eq "$(squeue -h -j "$job" -o %D)" ]
  done
  [ "$(wc -l < "$BOX/home/runs")" -eq "$(squeue -h -j "$(echo "$base" $extensions | tr ' ' ,)" -o %D | paste -sd+ | bc)" ]
  said "^$first is prepared\$"
  [ "$(awk -v home="$BOX/home" '$2 != "of-" $1 || $3 != "none" || $4 != home "/tmp-" $1' "$BOX/home/seen" | wc -l)" -eq 0 ]
  goes_on_well 60
}

@test "a node setup that fails where a training starts ends the job in words" {
  prepared 2:2 "echo no such module >&2; exit 7" -N1 -n1 -w n1 --gres=gpu:2
  wait_for 120 "A has ended" job_over "$A"
  cat "$BOX/home/A.out"
  [ "$(exit_code "$A")" != 0:0 ]
  said '^no such module$'
  [ "$(grep -c "no ranks can run on n1: node_setup $BOX/home/setup.sh: it ended with exit code 7" "$BOX/home/A.out")" = 1 ] # not tried again and again
  [ ! -e "$BOX/home/seen" ]
  assert_nothing_left
}

# bats test_tags=long:1
@test "one that fails on an extension's node alone: the growth is given up, and the training goes on" {
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  other=$(plain other -N1 -n1 -w n3 --gres=gpu:4)
  prepared 4:8 "[ \$SLURMD_NODENAME = n1 ]" -N1 -n1 -w n1 --gres=gpu:4
  wait_for 120 "A trains" stepped_past A 10
  finish far
  wait_for 90 "it is told" said 'no ranks can run on n2: node_setup .*it ended with exit code 1'
  wait_for 60 "A does 10 more steps" stepped_past A $(($(step_of A) + 10))
  runs_on A 4
  finish other
  goes_on_well 60
}

# bats test_tags=long:3
@test "one that takes longer than launch.node_setup_seconds, or is no program, ends the job in words" {
  echo 'launch.node_setup_seconds = 2' >> /etc/espalier/espalier.toml
  prepared 2:2 "sleep 100" -N1 -n1 -w n1 --gres=gpu:2
  wait_for 120 "A has ended" job_over "$A"
  sed -i '/launch.node_setup_seconds/d' /etc/espalier/espalier.toml
  said 'it took longer than 2 s (launch.node_setup_seconds)'
  assert_nothing_left
  run as_user timeout 60 srun --elastic=2:2,node_setup=/nowhere/setup.sh -n1 --gres=gpu:2 true
  echo "$output"
  [ "$status" -ne 0 ]
  [ "$(grep -c "no ranks can run on n[0-9]: node_setup /nowhere/setup.sh: " <<< "$output")" = 1 ]
  run as_user timeout 60 srun --elastic=2:2,node_setup=setup.sh -n1 --gres=gpu:2 true
  [ "$status" -ne 0 ]
  [[ $output == *'node_setup is not an absolute path'* ]]
  assert_nothing_left
}
