# Movable jobs and the rules of a site: partitions, constraints, limits. Real accounting: slurmdbd and MariaDB.
# n3 has no GPUs. Partition one is n1 alone.
# box: -n 3 -y none -a '' -c 'PartitionName=cpu Nodes=n3 MaxTime=INFINITE' -c 'PartitionName=one Nodes=n1 MaxTime=INFINITE PriorityTier=10' -c TrackWCKey=yes -e 'launch.base_partition = "main"' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 1200
# each: 300
# beside

setup_file() {
  . "$BOX_HERE/training.bash"
  reference
  cp /etc/espalier/espalier.toml "$BOX/share/as_it_was.toml"
}
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  sacctmgr -i modify qos normal set MaxTRESPerUser=gres/gpu=-1 > /dev/null || true
  scontrol update PartitionName=main MaxTime=UNLIMITED
  cp "$BOX/share/as_it_was.toml" /etc/espalier/espalier.toml
  clean_slate
}

bases_of() { squeue -h -n "base-$1" -t "${2:-PENDING,RUNNING}" -o %i 2>/dev/null; }
nodes_of() { squeue -h -o %N -j "$1"; }
said() { grep -q -- "$1" "$BOX/home/A.out"; }
movable() { # RANGE STEPS SBATCH-OPTION...
  rm -f "$BOX"/home/A.*
  A=$(elastic A "$1,movable" -n1 --mem=500 "${@:3}" -- "${tiny[@]}" --steps "$2")
}
trains() { wait_for 120 "A trains" stepped_past A 10; base=$(bases_of "$A" RUNNING); }

# bats test_tags=long:3
@test "submitted to CPU nodes: its launcher stays there, its base is in the site's partition, and its constraint binds only the launcher" {
  scontrol update NodeName=n3 AvailableFeatures=quiet ActiveFeatures=quiet
  movable 2:4 400 -p cpu -C quiet
  trains
  [ "$(nodes_of "$A")" = n3 ]
  [ "$(squeue -h -o %P -j "$base")" = main ]
  [[ $(nodes_of "$base") == n[12] ]]
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  for id in $(extensions_of "$A"); do [[ $(nodes_of "$id") == n[12] ]]; done
  ends_well 400
}

@test "without such a partition it is refused, in words" {
  sed -i '/base_partition/d' /etc/espalier/espalier.toml
  movable 2:2 400 -p cpu
  wait_for 60 "A ends" job_over "$A"
  said "partition cpu has no GPUs for the job's base; submit it to a partition with GPUs"
  [ -z "$(bases_of "$A")" ]
}

@test "a limit of the user that cannot hold two bases: the move is given up at once, and nothing changes" {
  movable 2:2 1000000
  trains
  sacctmgr -i modify qos normal set MaxTRESPerUser=gres/gpu=3 > /dev/null
  there=$(nodes_of "$base")
  other=n1 && [ "$there" = n2 ] || other=n2
  start=$SECONDS
  wait_for 60 "A is asked to move" eval 'espalier migrate "$A" --nodes "$other"'
  wait_for 30 "the move is given up" eval 'espalier show decisions --job "$A" --limit 50 | grep -q "waits for a limit of its user, account or QOS"'
  echo "# from the wish to the end of the move: $((SECONDS - start)) s" >&3
  wait_for 30 "only the first base is there" eval '[ "$(bases_of "$A")" = "$base" ]'
  [ "$(nodes_of "$base")" = "$there" ]
  goes_on_well 40
}

@test "a base moves only within its partition" {
  movable 2:2 1000000 -p one
  trains
  [ "$(nodes_of "$base")" = n1 ]
  asked_to_move --nodes n2
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"node n2: is not in the partition and the reservation of its base"* ]]
  goes_on_well 40
}

# bats test_tags=long:1
@test "a base and the extensions have the nice value and the wckey of the submitted job" {
  movable 2:4 400 --nice=77 --wckey=thesis
  trains
  has() { scontrol show job "$1" | tee -a "$BOX/home/shown" | grep -q 'Nice=77 ' && [ "$(squeue -h -j "$1" -o %w)" = thesis ]; }
  has "$A"
  has "$base"
  wait_for 120 "A has grown" eval '[ -n "$(extensions_of "$A")" ]'
  for id in $(extensions_of "$A"); do has "$id"; done
  ends_well 400
}

# bats test_tags=long:2
@test "a base asks for no more time than its own partition allows, and goes on waiting where that is lowered" {
  scontrol update PartitionName=main MaxTime=30
  for n in 1 2; do held[$n]=$(plain "f$n" -N1 -n1 -w "n$n" -t 20 --gres=gpu:4 --mem=100); done
  wait_for 30 "they run" eval '[ "$(squeue -h -t RUNNING | wc -l)" = 2 ]'
  movable 2:2 400 -p cpu
  wait_for 60 "the base waits" eval 'base=$(bases_of "$A" PENDING) && [ -n "$base" ]'
  limit_is() { scontrol show job "$base" | grep -q "TimeLimit=$1 "; }
  limit_is 00:30:00
  wait_for 20 "it is told" said "the bases of job $A may run 30 minutes, the MaxTime of partition main, and not without a limit"
  scontrol update PartitionName=main MaxTime=25
  wait_for 60 "its limit is lowered" limit_is 00:25:00
  wait_for 20 "it is told" said "base $base waits as its time limit is longer than the MaxTime of partition main; it is lowered to that"
  [ "$(bases_of "$A")" = "$base" ]
  finish f1
  finish f2
  trains
  ends_well 400
}
