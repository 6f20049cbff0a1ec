# Containers. A step that pyxis puts into an image can be elastic: its launcher runs outside, and its ranks enter the image on every
# node. So can a program that enters an image itself. A container of Slurm's own is refused before a job starts. The plugin that
# stands for pyxis is tests/cluster/spank/container_plugin.c.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# beside
# early
# limit: 1800
# each: 400

setup_file() {
  . "$BOX_HERE/pytorch.bash"
  reference
  gcc -Wall -Wextra -Werror -shared -fPIC -o "$BOX/lib/container_plugin.so" "$BOX_REPO/tests/cluster/spank/container_plugin.c"
  cp "$BOX/slurm/plugstack.conf" "$BOX/share/plugstack.conf"
}
setup() {
  . "$BOX_HERE/pytorch.bash"
  SRUN_OPTIONS="--container-image=image --container-mounts=$BOX/home,$BOX/share,$BOX/bin:$BOX/bin,$BOX/held"
}
teardown() {
  cp "$BOX/share/plugstack.conf" "$BOX/slurm/plugstack.conf"
  clean_slate
}

userns() { as_user unshare --user --map-current-user --mount true 2> /dev/null || skip "users cannot make user namespaces here"; }
with_plugin() { # before|after: Espalier's own line
  local line="required $BOX/lib/container_plugin.so"
  { [ "$1" = after ] || echo "$line"; cat "$BOX/share/plugstack.conf"; [ "$1" = before ] || echo "$line"; } > "$BOX/slurm/plugstack.conf"
}
refused() { # OPTION...: by srun, with one message, before there is a job
  local last
  last=$(scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p')
  run as_user timeout 20 srun --elastic=2:4 -n1 --gres=gpu:2 "$@" true
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"espalier: elastic: \"2:4\": a step that ${1%%=*} starts in a container cannot be elastic; "* ]]
  [ "$(grep -c 'espalier:' <<< "$output")" = 1 ]
  [ "$(scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p')" = "$last" ]
}

@test "a container of Slurm's own, and --container-save, are refused before the job starts" {
  with_plugin after
  refused --container=/bundle
  refused --container-image=image --container-save=/tmp/x
  refused --container-name=image
  # By environment as well.
  PYXIS_CONTAINER_SAVE=/tmp/x refused --container-image=image
}

@test "without --elastic such a step runs in its container as it always did" {
  userns
  for order in before after; do
    with_plugin "$order"
    [ "$(as_user timeout 60 srun -n1 --container-image=image cat /image)" = image ]
    [ "$(PYXIS_CONTAINER_IMAGE=other as_user timeout 60 srun -n1 cat /image)" = other ]
  done
}

# What a program sees that knows nothing of us, on each of its two GPUs.
seen="cat /image; echo \"\$IMAGE \$PATH\"; echo \"I am \$(id -u), \$OMPI_COMM_WORLD_RANK of \$OMPI_COMM_WORLD_SIZE\"; echo \"in /tmp: \$(ls /tmp | grep -v espalier)\"; pwd; sleep 2; exit 3"
sees_the_image() { # FILE IMAGE UID FOLDER
  cat "$1"
  [ "$(grep -cx "$2" "$1")" = 2 ]
  [ "$(grep -cx "$2 /image-bin:/usr/local/bin:/usr/bin:/bin" "$1")" = 2 ]
  grep -qx "I am $3, 0 of 2" "$1"
  grep -qx "I am $3, 1 of 2" "$1"
  [ "$(grep -cx "$4" "$1")" = 2 ]
  grep -qx 'in /tmp: ' "$1"
}

@test "any program runs in the image with the launcher outside, whatever the order of plugins and the form of the option" {
  userns
  for order in before after; do
    with_plugin "$order"
    run as_user timeout 60 srun --elastic=2:2 -n1 --gres=gpu:2 --container-image image --container-mounts="$BOX/home" sh -c "$seen"
    [ "$status" = 3 ]
    echo "$output" > "$BOX/log/seen"
    sees_the_image "$BOX/log/seen" image 0 /
  done
  # A program that only the image's PATH leads to.
  run as_user timeout 60 srun --elastic=2:2 -n1 --gres=gpu:2 --container-image=image only-here
  echo "$output"
  [ "$status" = 0 ]
  [ "$(grep -cx 'only here' <<< "$output")" = 2 ]
  run as_user env PYXIS_CONTAINER_IMAGE=other timeout 60 srun --container-workdir=/etc --elastic=2:2 --no-container-remap-root -n1 --gres=gpu:2 sh -c "$seen"
  [ "$status" = 3 ]
  echo "$output" > "$BOX/log/seen"
  sees_the_image "$BOX/log/seen" other "$(id -u boxuser)" /etc
  leaves_nothing
}

@test "a job that is elastic as a whole, also with --export=NONE: nothing of the container is left when its step has ended" {
  userns
  with_plugin before
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
srun -n1 \$EXPORT --container-image=image sh -c '$seen'
echo "code \$?"
until [ -e $BOX/home/A.finish ]; do sleep 0.1; done
S
  for export in '' --export=NONE; do
    rm -f "$BOX/home/A.finish" "$BOX/home/A.out"
    A=$(EXPORT=$export as_user sbatch --parsable --elastic=2:4 -o A.out -N1 -n1 -w n1 --gres=gpu:2 A.sh)
    wait_for 100 "the step has ended" grep -q '^code' "$BOX/home/A.out"
    sees_the_image "$BOX/home/A.out" image 0 /
    grep -qx 'code 3' "$BOX/home/A.out"
    wait_for 20 "only the script is left" eval '[ "$(squeue -h -s -j '"$A"' -o %i | grep -vc batch)" = 0 ]'
    [ -z "$(holders)" ]
    finish A
    wait_for 60 "A ends" job_over "$A"
  done
  # The step is cancelled: all that it had started is killed at once.
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
srun -n1 --container-image=image sleep 1000
until [ -e $BOX/home/A.finish ]; do sleep 0.1; done
S
  rm -f "$BOX/home/A.finish"
  A=$(as_user sbatch --parsable --elastic=2:4 -o A.out -N1 -n1 -w n1 --gres=gpu:2 A.sh)
  wait_for 60 "its ranks run" eval '[ "$(pgrep -u boxuser -x sleep | wc -l)" -ge 2 ] && [ -n "$(holders)" ]'
  # Ranks die with their rank server, also where the launcher cannot see to it.
  kill -STOP "$(launcher_pid)"
  kill -KILL "$(pgrep -u boxuser -x espalier-ranks)"
  wait_for 20 "the ranks are gone" eval '[ -z "$(pgrep -u boxuser -x sleep)" ] && [ -z "$(holders)" ]'
  as_user scancel -s KILL "$A.0"
  wait_for 60 "only the script is left" eval '[ "$(squeue -h -s -j '"$A"' -o %i | grep -vc batch)" = 0 ] && [ -z "$(holders)" ]'
  finish A
  wait_for 60 "A ends" job_over "$A"
  # Several programs in one step are none that can be elastic: it runs in its container as it always did.
  echo '0 cat /image' | as_user tee programs > /dev/null
  A=$(as_user sbatch --parsable --elastic=2:4 -o A.out -N1 -n1 -w n1 --gres=gpu:2 \
    --wrap 'srun -n1 --container-image=image --container-mounts='"$BOX/home"' --multi-prog programs')
  wait_for 60 "A ends" job_over "$A"
  cat "$BOX/home/A.out"
  grep -qx image "$BOX/home/A.out"
  [ "$(exit_code "$A")" = 0:0 ]
  leaves_nothing
}

@test "a launcher that cannot start does not keep the program from running in its image" {
  userns
  with_plugin after
  cp /etc/espalier/espalier.toml "$BOX/share/espalier.toml"
  echo "nonsense = {" >> /etc/espalier/espalier.toml
  run as_user timeout 90 srun --elastic=2:4 -n1 --gres=gpu:2 --container-image=image sh -c 'cat /image; echo "elastic: ${ESPALIER_HOST:-no}"; exit 3'
  cp "$BOX/share/espalier.toml" /etc/espalier/espalier.toml
  echo "$output"
  [ "$status" -eq 3 ]
  [[ $output == *"the program runs without elasticity"* ]]
  grep -qx image <<< "$output"
  grep -qx "elastic: no" <<< "$output"
}

@test "an image that is not there ends the job with pyxis's words" {
  userns
  with_plugin after
  run as_user timeout 100 srun --elastic=2:2 -n1 --gres=gpu:2 --container-image=missing true
  echo "$output"
  [ "$status" -ne 0 ]
  [ "$status" -ne 124 ]
  [[ $output == *"there is no image missing"* ]]
  [[ $output == *"no ranks can run on"*"check the image and its options"* ]]
  leaves_nothing
}

inside() { # FILE: how many ranks of the running generation see it
  local pid count=0
  for pid in $(workers "$(metric A generation)"); do [ ! -e "/proc/$pid/root/$1" ] || count=$((count + 1)); done
  echo "$count"
}
holders() { pgrep -u boxuser -x cat; } # the processes that wait in the containers' steps

@test "a training in an image grows and is preempted: ranks inside, launcher outside, no step lost; the end of what holds the image ends no rank" {
  userns
  with_plugin after
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
srun --elastic=2:8 $SRUN_OPTIONS $BOX/bin/espalier-train $BOX/share/examples/gpt-tiny.toml --metrics $BOX/home/A.jsonl ${tiny[*]} --steps 1000000
S
  A=$(as_user sbatch --parsable -J A -o A.out -N1 -n1 -w n1 --gres=gpu:2 A.sh)
  wait_for 120 "A trains" stepped_past A 10
  held_at_rest
  wait_for 60 "its ranks see the image" eval '[ "$(inside image)" = 2 ]'
  [ ! -e "/proc/$(launcher_pid)/root/image" ]
  # What holds the image is killed: pyxis removes the image's files, and the ranks train on.
  held=$(holders)
  [ "$(wc -w <<< "$held")" = 1 ]
  kill -KILL "$held"
  wait_for 60 "the node has another container" eval '[ -n "$(holders)" ] && [ "$(holders)" != '"$held"' ]'
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  refute grep -q ' lost' "$BOX/home/A.out"
  # A rank dies just after what holds the image: the next generation waits for the new container, and is in there.
  before=$(metric A generation) held=$(holders)
  kill -KILL "$held"
  wait_for 60 "the image's files are removed" eval '[ "$(inside image)" = 0 ]'
  kill -KILL "$(workers "$before" | head -n 1)"
  wait_for 120 "A trains in another generation" eval '[ "$(metric A generation)" -gt '"$before"' ]'
  wait_for 20 "its ranks are in the new container" eval '[ "$(inside image)" = 2 ]'
  finish near
  finish far
  wait_for 60 "the fillers end" eval '[ -z "$(squeue -h -n near,far)" ]'
  espalier release "$A"
  grows_to_eight
  wait_for 60 "its ranks see the image" eval '[ "$(inside image)" = 8 ]' # it may just get a faster plan
  grep 'launch: paused' "$BOX/home/A.out" | tail -n 1 | sed 's/^/# /' >&3
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 150 "the urgent job runs" job_is "$urgent" RUNNING
  wait_for 60 "A runs on n1's GPUs only" runs_on A 4
  held_at_rest
  [ "$(inside image)" = 4 ]
  # A rank server that is killed takes its ranks and the step of its container with it.
  generation=$(metric A generation)
  kill -KILL "$(pgrep -u boxuser -x espalier-ranks | head -n 1)"
  wait_for 20 "its ranks are gone" eval '[ -z "$(workers '"$generation"')" ]'
  wait_for 60 "each of A's two Slurm jobs has one container" eval '[ "$(holders | wc -l)" = 2 ]'
  wait_for 120 "A trains in another generation" eval '[ "$(metric A generation)" -gt '"$generation"' ]'
  finish urgent # not before: A would have a container there again
  goes_on_well
}

# bats test_tags=long:6
@test "a movable training in an image moves to another node, where its container is made, and leaves none behind" {
  userns
  with_plugin after
  as_user tee A.sh > /dev/null <<S
#!/bin/bash
srun --elastic=2:2,movable $SRUN_OPTIONS $BOX/bin/espalier-train $BOX/share/examples/gpt-tiny.toml --metrics $BOX/home/A.jsonl ${tiny[*]} --steps 1000000
S
  A=$(as_user sbatch --parsable -J A -o A.out -n1 --mem=500 A.sh)
  wait_for 120 "A trains" stepped_past A 10
  from=$(squeue -h -n "base-$A" -o %N)
  to=$([ "$from" = n1 ] && echo n2 || echo n1)
  wait_for 60 "A moves to $to" as_user espalier migrate "$A" --nodes "$to"
  wait_for 120 "A trains on $to" eval 'grep "^step" "$BOX/home/A.out" | tail -n 1 | grep -q "'"$to"'/"'
  wait_for 60 "its ranks see the image" eval '[ "$(inside image)" = 2 ]'
  wait_for 90 "only one base is left" eval '[ "$(squeue -h -n "base-$A" -o %i | wc -l)" = 1 ]'
  wait_for 20 "only one container is left" eval '[ "$(holders | wc -l)" = 1 ]'
  goes_on_well
}

# bats test_tags=long:3
@test "a PyTorch script in an image, as its root: it logs in as its user, grows, and no step is lost" {
  userns
  set_up_python
  # In a root of another Debian (tests/roots) there is no Python for that torch.
  run as_user env "${python_environment[@]}" "$BOX/share/python/python.sh" -c ''
  [ "$status" -ne 127 ] || skip "no Python here is that of the torch at TORCH_HOME"
  python_reference 3000
  with_plugin before
  python_cast 2:4
  finish near
  wait_for 300 "A runs on 4 GPUs" runs_on A 4
  python_goes_on_well
}

# bats test_tags=long:5
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
  wait_for 60 "its ranks are in the image" eval '[ "$(inside mnt/image)" -ge 4 ]'
  [ ! -e "/proc/$(launcher_pid)/root/mnt/image" ]
  wait_for 150 "the urgent job runs" job_is "$urgent" RUNNING
  wait_for 60 "A runs on n1's GPUs only" runs_on A 4
  wait_for 20 "its ranks are in the image" eval '[ "$(inside mnt/image)" = 4 ]'
  finish urgent
  goes_on_well
}
