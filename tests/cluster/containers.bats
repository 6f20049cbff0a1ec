# Containers. A program that enters one itself trains, grows and is preempted as outside of one. A container that Slurm or a plugin
# like pyxis starts around the step cannot hold the launcher: that is refused before a job starts, whatever the plugins' order.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# beside
# limit: 900
# each: 300

setup_file() {
  . "$BOX_HERE/training.bash"
  reference
  gcc -Wall -Wextra -Werror -shared -fPIC -o "$BOX/lib/container_plugin.so" "$BOX_REPO/tests/cluster/spank/container_plugin.c"
  cp "$BOX/slurm/plugstack.conf" "$BOX/share/plugstack.conf"
}
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  cp "$BOX/share/plugstack.conf" "$BOX/slurm/plugstack.conf"
  clean_slate
}

userns() { as_user unshare --user --map-current-user --mount true 2> /dev/null || skip "users cannot make user namespaces here"; }
with_plugin() { # before|after: Espalier's own line
  local line="required $BOX/lib/container_plugin.so"
  { [ "$1" = after ] || echo "$line"; cat "$BOX/share/plugstack.conf"; [ "$1" = before ] || echo "$line"; } > "$BOX/slurm/plugstack.conf"
}
refused() { # OPTION: by srun, with one message, before there is a job
  local last
  last=$(scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p')
  run as_user timeout 20 srun --elastic=2:4 -n1 --gres=gpu:2 "$1" true
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"espalier: elastic: \"2:4\": a step that ${1%%=*} starts in a container cannot be elastic; let the program itself enter"* ]]
  [ "$(grep -c 'espalier:' <<< "$output")" = 1 ]
  [ "$(scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p')" = "$last" ]
}

@test "--container-image with --elastic is refused before the job starts, in both orders of plugins" {
  for order in before after; do
    with_plugin "$order"
    refused --container-image=image
  done
  refused --container=/bundle
}

@test "without --elastic such a step runs in its container as it always did" {
  userns
  for order in before after; do
    with_plugin "$order"
    [ "$(as_user timeout 60 srun -n1 --container-image=image cat /mnt/image)" = inside ]
  done
}

in_its_container() { # [SRUN-OPTION]: of the script of a job that is elastic as a whole
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
srun -n2 $* --container-image=image /bin/sh -c 'cat /mnt/image; [ "\$SLURM_PROCID" = 0 ] || sleep 3; echo done'
S
  A=$(as_user sbatch --parsable --elastic=2:4 -o A.out -N1 -n2 -w n1 --gres=gpu:2 A.sh)
  wait_for 60 "A ends" job_over "$A"
  cat "$BOX/home/A.out"
  [ "$(exit_code "$A")" = 0:0 ]
  [ "$(grep -cx inside "$BOX/home/A.out")" = 2 ]
  [ "$(grep -cx 'done' "$BOX/home/A.out")" = 2 ] # the second task outlives the first
  [ "$(grep -c 'espalier:.*in a container' "$BOX/home/A.out")" = 1 ]
}

@test "in a job that is elastic as a whole, a step with --container-image runs in its container, after one message" {
  userns
  for order in before after; do
    with_plugin "$order"
    in_its_container
  done
  # Then only the node learns of it, when pyxis has been called.
  with_plugin before
  in_its_container --export=NONE
}

@test "a program that enters its container itself grows and is preempted: ranks inside, launcher outside, no step lost" {
  userns
  as_user tee in_image > /dev/null <<'S'
#!/bin/sh
exec unshare --user --map-current-user --keep-caps --mount sh -c 'mount -t tmpfs image /mnt && echo inside > /mnt/image && exec "$@"' sh "$@"
S
  chmod 755 "$BOX/home/in_image"
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
srun --elastic=2:8 $BOX/home/in_image espalier-train $BOX/share/examples/gpt-tiny.toml --metrics $BOX/home/A.jsonl ${tiny[*]} --steps 1000000
S
  A=$(as_user sbatch --parsable -J A -o A.out -N1 -n1 -w n1 --gres=gpu:2 A.sh)
  wait_for 120 "A trains" stepped_past A 10
  espalier hold "$A"
  finish near
  finish far
  wait_for 60 "the fillers end" eval '[ -z "$(squeue -h -n near,far)" ]'
  espalier release "$A"
  grows_to_eight
  # Slurm takes n2's GPUs back.
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  inside=0
  for pid in $(workers "$(metric A generation)"); do
    [ "$(cat "/proc/$pid/root/mnt/image")" = inside ] && inside=$((inside + 1))
  done
  echo "$inside ranks are inside"
  [ "$inside" -ge 4 ]
  [ ! -e "/proc/$(launcher_pid)/root/mnt/image" ]
  wait_for 150 "the urgent job runs" job_is "$urgent" RUNNING
  wait_for 60 "A runs on n1's GPUs only" runs_on A 4
  for pid in $(workers "$(metric A generation)"); do [ "$(cat "/proc/$pid/root/mnt/image")" = inside ]; done
  finish urgent
  goes_on_well
}
