# A node whose GPUs compute more slowly than their like.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.trial_percent = 5' -e 'planner.log_level = "debug"'
# limit: 900
# each: 500
# bats file_tags=long:5

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

shows_slow() { espalier show nodes | grep -A4 '^NodeName=n2 ' | grep -q 'Slow=computes at [0-9]*% of its like, as 1 job measured'; }

# The devices of n2 have a quarter of the speed of those of n1. The planner takes them for the same.
@test "a growth onto a slow node is taken back, the node is named, and no step is lost" {
  as_user tee "$BOX/home/on-device" > /dev/null <<'S'
#!/bin/bash
# espalier: describes itself
# The pace is part of what a rank tells of its training, so a rank of n1 must be the first to tell it.
[ "$(hostname)" = n1 ] || { sleep 1; set -- "$@" --set device.gflops=0.1; }
exec espalier-train "$@"
S
  chmod 755 "$BOX/home/on-device"
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  as_user tee "$BOX/home/A.sh" > /dev/null <<S
#!/bin/bash
srun --elastic=2:4 ./on-device $BOX/share/examples/gpt-tiny.toml --metrics $BOX/home/A.jsonl ${tiny[*]} --set parallel.pp=1 --set parallel.tp=1 --steps 1000000
S
  A=$(as_user sbatch --parsable -J A -o "$BOX/home/A.out" -N1 -n1 -w n1 --gres=gpu:2 "$BOX/home/A.sh")
  wait_for 120 "A trains" stepped_past A 10
  finish far
  wait_for 200 "A runs on 4 GPUs" runs_on A 4
  wait_for 150 "n2 is named" shows_slow
  espalier show nodes
  wait_for 250 "A is back on its own two" runs_on A 2
  espalier show decisions --job "$A" --limit 50 --json | grep -qE 'its GPUs on n2 are given back; n2 computes at [0-9]+% of its like'
  grep -E 'node n2: computes at [0-9]+% of its like, as job [0-9]+ measured' "$BOX/log/espalierd.log"
  goes_on_well
}
