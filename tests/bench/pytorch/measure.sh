#!/bin/bash
# measure.sh FOLDER PART [CHANGES]: one part of the benchmark, inside a box of two nodes. Leaves in FOLDER what figures.py reads.
set -euo pipefail
. "$BOX_HERE/pytorch.bash"
folder=$1 part=$2 changes=${3:-20}
slow=900 # seconds for anything that should take some: the machine may be loaded
set_up_python
python=$BOX/share/python/python.sh script_file=$BOX/share/python/train.py

changed() { # how often A has changed its generation
  metric A generation
}
settles_on() { # GPUS: A trains there
  wait_for $slow "A runs on $1 GPUs" runs_on A "$1"
  wait_for $slow "A does 5 steps there" stepped_past A $(($(step_of A) + 5))
}
end_of_a() {
  as_user scancel "$A"
  finish near
  finish far
  wait_for 120 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
}
keep() { # NAME: A's files
  cp "$BOX/home/A.jsonl" "$folder/$1.jsonl"
  cp "$BOX/home/A.out" "$folder/$1.out"
}

# Growth, preemption, growth, preemption with the planner dead, SIGKILL of a worker, and again.
changes_of() { # KIND
  local kind=$1 before
  script_options=(--kind "$kind")
  python_reference 3000
  python_cast 2:4
  take_back() {
    rm -f "$BOX"/home/urgent.*
    urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:2)
    wait_for $slow "the urgent job has its GPUs" job_is "$urgent" RUNNING
    settles_on 2
  }
  finish near
  for ((round = 0; ; round++)); do
    settles_on 4
    [ "$(changed)" -lt "$changes" ] || break
    take_back
    [ "$(changed)" -lt "$changes" ] || break
    finish urgent
    settles_on 4
    [ "$(changed)" -lt "$changes" ] || break
    "$BOX_HERE/planner.sh" kill
    take_back
    "$BOX_HERE/planner.sh" start
    [ "$(changed)" -lt "$changes" ] || break
    before=$(changed)
    kill -KILL "$(processes python3 "ESPALIER_GENERATION=$before" | head -n 1)"
    wait_for $slow "A trains in another generation" eval '[ "$(metric A generation)" -gt '"$before"' ]'
    finish urgent
    echo "$kind: $(changed) of $changes changes after round $round, load $(cut -d ' ' -f 1 /proc/loadavg)"
  done
  keep "$part"
  python3 "$BOX/share/python/losses.py" "$BOX/home/A.jsonl" "$BOX/share/python-reference.jsonl" 24 "$folder/$part.json"
  end_of_a
}

# torchrun PROCESSES ARGUMENT...
torchrun() {
  local processes=$1
  shift
  as_user env "${python_environment[@]}" "$python" -m torch.distributed.run --nproc-per-node="$processes" --master-port=29511 \
    "$script_file" "$@"
}

case $part in
  ddp | fsdp) changes_of "$part" ;;
  pause)
    # 200 MB: 34 parameters for each hidden unit, each with two moments, of 8 bytes.
    wide=(--width 245100 --pause 0.4)
    near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
    far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
    A=$(pytorch A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- --steps 100000 --snapshot 3600 "${wide[@]}")
    wait_for $slow "A trains" stepped_past A 8
    finish near
    settles_on 4
    urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:2)
    settles_on 2
    finish urgent
    settles_on 4
    keep pause
    end_of_a
    # The same change by a checkpoint and another torchrun, on the same cores.
    for round in 1 2; do
      rm -f "$BOX"/home/restart*
      restart=(--steps 100000 --metrics "$BOX/home/restart.jsonl" --checkpoint "$BOX/home/restart" --every 100000 "${wide[@]}")
      torchrun 2 "${restart[@]}" --break-at 6
      torchrun 4 "${restart[@]}" --break-at 9
      cp "$BOX/home/restart.jsonl" "$folder/restart$round.jsonl"
    done
    ;;
  fsdp_grow)
    # 1 GB at MEGABYTES=1000: three processes on n1, then five on both nodes. Their own work takes seconds a step on shared cores, so the
    # paced part of a step is long (PAUSE seconds on one device), or more devices would be no gain.
    near=$(plain near -N1 -n1 -w n1 --gres=gpu:1)
    far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
    width=$((${MEGABYTES:-1000} * 1000000 / 816))
    A=$(pytorch A 3:5 -N1 -n1 -w n1 --gres=gpu:3 -- --steps 100000 --kind fsdp --snapshot 3600 --width $width --pause "${PAUSE:-10}")
    wait_for $slow "A trains" stepped_past A 8
    wait_for 60 "A is held" espalier hold "$A"
    finish near
    finish far
    wait_for 60 "the fillers end" eval '[ -z "$(squeue -h -n near,far)" ]'
    wait_for 60 "A may grow" espalier release "$A"
    settles_on 5
    keep fsdp_grow
    espalier show decisions --json --limit=1000 > "$folder/fsdp_grow.decisions.json"
    end_of_a
    # The same change by PyTorch's own distributed checkpoint, on the same cores.
    cp "$BOX_REPO/tests/bench/pytorch/dcp.py" "$BOX/share/python/"
    script_file=$BOX/share/python/dcp.py
    for round in 1 2; do
      rm -rf "$folder/dcp" # on a disk: a box's home is in memory
      install -d -o boxuser "$folder/dcp"
      torchrun 3 save "$folder/dcp" "$width"
      torchrun 5 load "$folder/dcp" "$width"
    done | grep '^{' > "$folder/dcp.jsonl"
    rm -rf "$folder/dcp"
    ;;
  predict)
    # The pace of a device, and what an exchange of gradients takes: the planner is told of neither.
    for hidden in "0.6 0.02" "1.2 0.15" "2.4 0.4"; do
      read -r pause sync <<< "$hidden"
      near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
      far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
      A=$(pytorch A 2:8 -N1 -n1 -w n1 --gres=gpu:2 -- --steps 100000 --pause "$pause" --sync "$sync")
      wait_for $slow "A trains" stepped_past A 14
      finish near
      wait_for $slow "A runs on 4 GPUs" runs_on A 4
      wait_for $slow "A does 14 steps there" stepped_past A $(($(step_of A) + 14))
      finish far
      wait_for $slow "A runs on more GPUs" eval '[ "$(gpus_of A)" -gt 4 ]'
      wait_for $slow "A does 14 steps there" stepped_past A $(($(step_of A) + 14))
      keep "predict-$pause"
      end_of_a
      rm -f "$BOX"/home/{A,near,far}.*
    done
    espalier show decisions --json --limit=1000 > "$folder/predict.json"
    ;;
esac
