# A base of a movable job is lost, mostly while training moves to a second one: the move is given up or completed, or the job ends and
# says how to go on. It never trains on extensions alone, and nothing is left.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 200
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

bases_of() { squeue -h -n "base-$1" -t PENDING,RUNNING -o %i 2>/dev/null; }
only_base_is() { [ "$(bases_of "$A")" = "$1" ]; }
no_bases() { [ -z "$(bases_of "$A")" ]; }
second_base() { bases_of "$A" | grep -vx "$base"; }
trains_without() { [[ $(metric A plan) != *$1/* ]]; } # NODE
trains_only_on() { [ "$(metric A plan | grep -o ' n[12]/' | sort -u)" = " $1/" ]; }
no_step_twice() { local twice; twice=$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort | uniq -d); [ -z "$twice" ] || { echo "twice: $twice"; return 1; }; }
movable() { # [RANGE]: A, whose base is on n1, trains
  rm -f "$BOX"/home/{A,near}.*
  A=$(elastic A "${1:-2:2},movable" -n1 --mem=500 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  base=$(bases_of "$A")
  [ "$(squeue -h -o %N -j "$base")" = n1 ]
}
# What the launcher has said since the last move began.
said_since() { tail -n "+$since" "$BOX/home/A.out" | grep -q -- "$1"; }
moves_until() { # NODE PHASE
  # Refused while a plan on the same GPUs is on its way: what is said of that one does not count.
  begins() { since=$(($(wc -l < "$BOX/home/A.out") + 1)); espalier migrate "$A" --nodes "$1"; }
  wait_for 60 "A moves to $1" begins "$1"
  timeout 60 bash -c 'until tail -n "+$1" "$2" | grep -q -- "--> $3\$"; do sleep 0.02; done' phase "$since" "$BOX/home/A.out" "$2"
}
ends_and_says_how_to_go_on() {
  wait_for 90 "A has ended" job_over "$A"
  grep "submit the job again to go on from its newest checkpoint" "$BOX/home/A.out"
  leaves_nothing 60
}

# bats test_tags=long:1
@test "a second base that is cancelled before training has gone over to it: the move is given up, and no step is lost" {
  as_user mkdir "$BOX/home/bin"
  as_user tee "$BOX/home/bin/espalier-train" > /dev/null <<S
#!/bin/sh
[ "\$(uname -n)" != n2 ] || exec sleep 60
exec $BOX/bin/espalier-train "\$@"
S
  as_user chmod 755 "$BOX/home/bin/espalier-train"
  echo 'launch.spares = false' >> /etc/espalier/espalier.toml # a spare began before it had a rank
  PATH=$BOX/home/bin:$PATH movable
  sed -i '/launch.spares/d' /etc/espalier/espalier.toml
  moves_until n2 starting
  as_user scancel "$(second_base)"
  wait_for 40 "the move is given up" said_since 'given up'
  wait_for 60 "the second base is gone" only_base_is "$base"
  no_step_twice
  trains_without n2
  goes_on_well 60
}

@test "a job begins to wait that could use the second base's GPUs: the move is given up, and that job starts" {
  as_user mkdir "$BOX/home/bin"
  as_user tee "$BOX/home/bin/espalier-train" > /dev/null <<S
#!/bin/sh
[ "\$(uname -n)" != n2 ] || exec sleep 100
exec $BOX/bin/espalier-train "\$@"
S
  as_user chmod 755 "$BOX/home/bin/espalier-train"
  echo 'launch.spares = false' >> /etc/espalier/espalier.toml
  PATH=$BOX/home/bin:$PATH movable
  sed -i '/launch.spares/d' /etc/espalier/espalier.toml
  moves_until n2 starting
  big=$(plain big -N1 -n1 --gres=gpu:4 --mem=100) # n1 has two idle GPUs, and n2 has two beside the second base
  start=$SECONDS
  wait_for 40 "the move is given up" said_since "given up.*job $big began to wait and can use the GPUs of the second base"
  wait_for 60 "big runs" job_is "$big" RUNNING
  echo "# from its submission to its start: $((SECONDS - start)) s" >&3
  [ "$(squeue -h -o %N -j "$big")" = n2 ]
  wait_for 60 "the second base is gone" only_base_is "$base"
  no_step_twice
  trains_without n2
  finish big
  goes_on_well 60
}

# bats test_tags=long:3
@test "the first base is cancelled while training moves, and once it has gone over: it goes on on the second" {
  movable
  for to in n2 n1; do
    [ $to = n2 ] && phase=starting || phase=committed
    moves_until $to $phase
    second=$(second_base)
    as_user scancel "$base"
    wait_for 60 "the first base is gone" only_base_is "$second"
    wait_for 60 "A trains on $to alone" trains_only_on $to
    wait_for 60 "A does 20 more steps there" stepped_past A $(($(step_of A) + 20))
    wait_for 60 "it is at rest" phase_is running
    base=$second
  done
  goes_on_well 60
}

@test "Slurm tells the base to leave while training changes over: who trains afterwards is asked for a checkpoint" {
  . "$BOX_HERE/pytorch.bash"
  set_up_python
  rm -f "$BOX"/home/A.*
  as_user tee "$BOX/home/A.sh" > /dev/null <<S
#!/bin/bash
export ${python_environment[*]}
srun --elastic=1:2,movable $interpreter $BOX/share/python/hostile.py slow-load $BOX/home/A.jsonl
S
  A=$(as_user sbatch --parsable -J A -o "$BOX/home/A.out" -n1 --mem=500 "$BOX/home/A.sh")
  wait_for 120 "the next generation loads" test -e "$BOX/home/A.jsonl.loads"
  base=$(bases_of "$A")
  kill -TERM $(processes espalier-ranks "SLURM_JOB_ID=$base") # Slurm signals all processes of the job
  wait_for 30 "the old generation, which stands, is asked" grep -q '^0 ' "$BOX/home/A.jsonl.asked"
  refute grep -q '^1 ' "$BOX/home/A.jsonl.asked"
  as_user touch "$BOX/home/A.jsonl.go"
  wait_for 60 "A trains in generation 1" eval '[ "$(metric A generation)" = 1 ]'
  wait_for 30 "both of its ranks are asked" eval '[ "$(grep -c "^1 " "$BOX/home/A.jsonl.asked")" = 2 ]'
  as_user scancel "$A"
  leaves_nothing 60
}

# bats test_tags=long:5
@test "the base's time is over while the job has an extension: it ends, and no step is done on the extension alone" {
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2 --mem=100)
  movable 2:4
  wait_for 120 "A has grown to n2" eval '[[ $(metric A plan) == *n2/* ]]'
  scontrol update jobid="$base" EndTime=now
  ends_and_says_how_to_go_on
  [ "$(grep -c '"plan":"[^"]*n2/' "$BOX/home/A.jsonl")" = "$(grep -c '"plan":"[^"]*n1/[^"]*n2/\|"plan":"[^"]*n2/[^"]*n1/' "$BOX/home/A.jsonl")" ]
}
