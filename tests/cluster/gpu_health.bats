# GPUs whose errors make training on them unsafe, as NVIDIA's management library tells them: a stand-in for it (tests/gpu/nvml).
# box: -n 4 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# beside
# early
# limit: 900
# each: 300

setup_file() {
  [ -d /proc/driver ] || skip "this kernel has no /proc/driver"
  . "$BOX_HERE/training.bash"
  reference
  local i entry
  # Each node has the four GPUs of NVIDIA's kernel driver. All of this is the box's own.
  mount -t tmpfs -o mode=755 tmpfs /proc/driver
  for i in 0 1 2 3; do
    mkdir -p "/proc/driver/nvidia/gpus/0000:0$((i + 1)):00.0"
    printf 'Model: \t\t a stand-in\nDevice Minor: \t %s\n' "$i" > "/proc/driver/nvidia/gpus/0000:0$((i + 1)):00.0/information"
  done
  mkdir "$BOX/devices"
  mount --rbind /dev "$BOX/devices"
  mount -t tmpfs -o mode=755 tmpfs /dev
  for entry in "$BOX"/devices/*; do ln -s "$entry" /dev/; done
  rm /dev/shm && mkdir /dev/shm && mount --bind "$BOX/devices/shm" /dev/shm
  for i in 0 1 2 3; do rm -f "/dev/nvidia$i"; install -m 666 /dev/null "/dev/nvidia$i"; done
  install -D -m 755 "$BUILD/test/nvml/libnvidia-ml.so.1" "$BOX/share/nvml/libnvidia-ml.so.1"
}
setup() {
  . "$BOX_HERE/training.bash"
  export NVML_STANDIN=$BOX/share/nvml/answers LD_LIBRARY_PATH=$BOX/share/nvml:$LD_LIBRARY_PATH
}
teardown() {
  clean_slate
  sed -i '/^# health/,$d' /etc/espalier/espalier.toml
}

# answers LINE...: these come first; every other GPU is in order. MODEL: its compute capability (8.6, which cannot take pages
# of its memory out of use).
answers() {
  local i
  { printf '%s\n' "$@"
    for i in 1 2 3 4; do echo "* 0000:0$i:00.0 mig=0 capability=${MODEL:-8.6} uncorrectable=0 pending=0 failed=0 action=0"; done
  } > "$BOX/share/nvml/answers"
}
# Hold two GPUs of n1 (near), n2 (far), n3 (third) and n4 (fourth) until `finish NAME`.
fillers() {
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  third=$(plain third -N1 -n1 -w n3 --gres=gpu:4)
  fourth=$(plain fourth -N1 -n1 -w n4 --gres=gpu:4)
}
# A on the other two GPUs of n1.
beside_fillers() { # RANGE
  fillers
  A=$(elastic A "$1" -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
}
says() { grep -qE "$1" "$BOX/home/A.out"; }
times_given_back() { grep -cE '^espalier: launch: grow given up: extension [0-9]+ on n[0-9] is given back: ' "$BOX/home/A.out"; }
explains() { as_user espalier explain "$A" > "$BOX/log/explained" && grep -qF "$1" "$BOX/log/explained"; }
goes_on_and_ends() {
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  same_losses A
  as_user scancel "$A"
  finish third
  finish fourth
  leaves_nothing 40
}
bases_of() { squeue -h -n "base-$1" -o %i 2>/dev/null; }
nodes_of() { squeue -h -o %N -j "$1"; }

@test "a node whose GPU has a row that waits to be remapped is given back with the reason, and is not tried again; no step is lost" {
  answers "n2 0000:01:00.0 mig=0 capability=8.6 uncorrectable=3 pending=1 failed=0 rows=2"
  beside_fillers 2:8
  finish far
  wait_for 120 "the extension on n2 is given back" says 'grow given up: extension [0-9]+ on n2 is given back: '
  local fault='extension [0-9]+ on n2 is given back: GPU 0 \(0000:01:00\.0\): a row of its memory has errors and waits to be remapped \(3 uncorrectable ECC errors since its driver was loaded, 2 rows remapped before\); reset the GPU or drain the node'
  says "^espalier: launch: grow given up: $fault; training goes on$"
  wait_for 30 "espalierd's log has the reason" grep -qE "decision [0-9]+: job $A: aborted: $fault" "$BOX/log/espalierd.log"
  wait_for 30 "n2 is named" eval 'espalier show nodes | grep -A4 "^NodeName=n2 " | grep -q Unfit='
  wait_for 30 "explain tells of n2" explains "n2: its workers died there again and again, or GPUs there have errors; it gets no GPUs there for up to an hour"
  wait_for 30 "n2 is idle" no_extensions
  # The planner decides every second or so. A step takes 0.3 s.
  wait_for 120 "A does 60 steps more" stepped_past A $(($(step_of A) + 60))
  [ "$(times_given_back)" = 1 ]
  runs_on A 2
  no_extensions
  # Another node is taken.
  finish third
  wait_for 150 "A has grown onto n3" eval '[ "$(gpus_of A)" -gt 2 ]'
  [[ $(metric A plan) != *n2/* ]]
  [ "$(times_given_back)" = 1 ]
  goes_on_and_ends
}

@test "errors that the GPU has contained, and a library that crashes, keep no node from being used" {
  MODEL=8.0 answers "n2 0000:01:00.0 mig=0 capability=8.0 uncorrectable=3 pending=1 failed=0 rows=2" "n3 init crash"
  beside_fillers 2:8
  finish far
  wait_for 150 "A has grown onto n2" eval '[ "$(gpus_of A)" -gt 2 ]'
  [[ $(metric A plan) == *n2/0* ]]
  finish third
  grows_to_eight 300 # from six it may not, and from two with n2's and n3's GPUs
  wait_for 150 "n3's library is told of" \
    says '^espalier: ranks: n3: the look at the errors of its GPUs was ended by signal 11, and training starts without it; see whether nvidia-smi works there, or set health.gpu_errors = false$'
  wait_for 150 "A has grown onto n3" eval '[[ $(metric A plan) == *n3/* ]]'
  refute says 'is given back: '
  goes_on_and_ends
}

@test "the job's own GPUs are told of and used; with health.gpu_errors = false nobody looks" {
  answers "n1 0000:01:00.0 handle_result=15" "n1 0000:02:00.0 handle_result=15" "n1 0000:03:00.0 handle_result=15" \
    "n1 0000:04:00.0 handle_result=15" "n2 0000:01:00.0 mig=0 capability=8.6 pending=1"
  beside_fillers 2:8
  wait_for 20 "A's GPUs are told of" \
    says '^espalier: launch: n1: GPU [0-3] \(0000:0[1-4]:00\.0\): its driver has lost it; reboot or drain the node; GPU [0-3] .*; the job holds this already and keeps it$'
  runs_on A 2
  as_user scancel "$A"
  wait_for 30 "A has ended" job_over "$A"
  same_losses A
  rm "$BOX"/home/A.*
  printf '# health\n[health]\ngpu_errors = false\n' >> /etc/espalier/espalier.toml
  A=$(elastic A 2:8 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  refute says 'its driver has lost it'
  finish far
  wait_for 150 "A has grown onto n2" eval '[[ $(metric A plan) == *n2/0* ]]'
  refute says 'GPU 0'
  goes_on_and_ends
}

@test "a second base with an unsafe GPU on one of its nodes is given back, and training stays where it is" {
  answers "n4 0000:03:00.0 capability=9.0 action=1"
  A=$(elastic A 8:8,movable,base=8 -n1 --mem=500 -x n1,n2 -- "${tiny[@]}" --steps 1000000)
  wait_for 150 "A trains" stepped_past A 10
  base=$(bases_of "$A")
  [ "$(nodes_of "$base")" = 'n[1-2]' ]
  wait_for 60 "A is asked to move" eval 'espalier migrate "$A" --nodes n3,n4'
  wait_for 120 "the move is given up" says \
    '^espalier: launch: migrate given up: base [0-9]+ is given back: n4: GPU 2 \(0000:03:00\.0\): its driver asks for a reset of the GPU; do that or drain the node; training goes on$'
  wait_for 60 "the second base is gone" eval '[ "$(bases_of "$A")" = "$base" ]'
  [[ $(metric A plan) != *n[34]/* ]]
  runs_on A 8
  goes_on_and_ends
}

@test "a wide start that would have an unsafe GPU becomes a start on the job's own GPUs" {
  answers "n2 0000:01:00.0 mig=0 capability=7.0 uncorrectable=1"
  fillers
  finish far
  A=$(elastic A 2:2 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --set device.gflops=0.3 --steps 1000000)
  wait_for 200 "A is measured" grep -q "job $A: measured after step" "$BOX/log/espalierd.log"
  as_user scancel "$A"
  wait_for 60 "A has ended" job_over "$A"
  rm "$BOX"/home/A.*
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --set device.gflops=0.3 --steps 1000000)
  wait_for 120 "A trains" stepped_past A 40
  says '^espalier: launch: .*extension [0-9]+ on n2 is given back: GPU 0 \(0000:01:00\.0\): it cannot be used before a reset \(1 uncorrectable ECC error since its driver was loaded\); reset the GPU or drain the node'
  [ "$(grep -c 'extension [0-9]* of [0-9]* GPUs on .* submitted' "$BOX/home/A.out")" = 1 ]
  [ "$(head -n 1 "$BOX/home/A.jsonl" | grep -o '"gpus":[0-9]*')" = '"gpus":2' ]
  espalier show decisions --job "$A" --json | grep -q 'starts wide: '
  goes_on_and_ends
}
