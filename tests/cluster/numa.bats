# Ranks run near their GPUs. The box shows the kernel's files of a machine with two NUMA nodes, each with half of the CPUs and one GPU.
# box: -n 1
# limit: 300

setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

shows() { # TEXT FILE
  mkdir -p "$(dirname "$2")"
  echo "$1" > "$2"
}

# In the place of /dev, with all that is mounted there, and files for two GPUs of NVIDIA.
with_gpu_files() {
  mkdir -p "$BOX"/numa/{dev,pts,shm}
  mount -t tmpfs tmpfs "$BOX/numa/dev"
  mkdir "$BOX"/numa/dev/{upper,work}
  mount --bind /dev/pts "$BOX/numa/pts"
  mount --bind /dev/shm "$BOX/numa/shm"
  mount -t overlay -o "lowerdir=/dev,upperdir=$BOX/numa/dev/upper,workdir=$BOX/numa/dev/work" overlay /dev 2> /dev/null || return 1
  mount --bind "$BOX/numa/pts" /dev/pts
  mount --bind "$BOX/numa/shm" /dev/shm
  touch /dev/nvidia0 /dev/nvidia1
  chmod 666 /dev/nvidia0 /dev/nvidia1
}

@test "each rank runs on the CPU of its GPU's NUMA node, also where the launcher is; with ESPALIER_NUMA=off none is bound" {
  local gpu of=("0000:41:00.0" "0000:a1:00.0")
  # Of an odd number of CPUs the middle one is in both halves: a rank with less than its even share is not bound.
  mapfile -t cpus < <(python3 -c 'import os; all = sorted(os.sched_getaffinity(0)); print(*all[: (len(all) + 1) // 2]); print(*all[len(all) // 2 :])')
  [ "${cpus[0]}" != "${cpus[1]}" ] || skip "this machine has one CPU"
  # A line at once: ranks that print the parts of one mix theirs.
  local where='import os; os.write(1, (" ".join([os.environ["RANK"], *map(str, sorted(os.sched_getaffinity(0)))]) + "\n").encode())'
  [ -d /proc/driver ] || skip "this kernel has no /proc/driver"
  with_gpu_files || skip "no overlay can be mounted here"
  for gpu in 0 1; do
    shows "Device Minor: $gpu" "$BOX/numa/driver/nvidia/gpus/${of[gpu]}/information"
    shows "$gpu" "$BOX/numa/pci/${of[gpu]}/numa_node"
    shows "${cpus[gpu]// /,}" "$BOX/numa/node/node$gpu/cpulist"
  done
  shows 0-1 "$BOX/numa/node/has_cpu"
  chmod -R a+rX "$BOX/numa"
  mount --bind "$BOX/numa/driver" /proc/driver
  mount --bind "$BOX/numa/pci" /sys/bus/pci/devices
  mount --bind "$BOX/numa/node" /sys/devices/system/node

  # The launcher's node knows its GPUs by their places on the bus.
  run as_user srun -N1 -n1 -w n1 --gres=gpu:2 --elastic=2:2 sh -c 'echo "$RANK $ESPALIER_GPUS"'
  echo "$output"
  grep -qx "0 ${of[0]},${of[1]}" <<< "$output"
  run as_user srun -N1 -n1 -w n1 --gres=gpu:2 --elastic=2:2 python3 -c "$where"
  echo "$output"
  [ "$status" -eq 0 ]
  grep -qx "0 ${cpus[0]}" <<< "$output"
  grep -qx "1 ${cpus[1]}" <<< "$output"
  run as_user env ESPALIER_NUMA=off srun -N1 -n1 -w n1 --gres=gpu:2 --elastic=2:2 python3 -c "$where"
  echo "$output"
  [ "$status" -eq 0 ]
  grep -q '^0 ' <<< "$output"
  [ "$(grep -cx "0 ${cpus[0]}" <<< "$output")" = 0 ]
}
