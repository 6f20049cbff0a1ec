# Sourced by tests, inside a box of two nodes: a PyTorch training that is elastic by `import espalier`, as A.
. "$BOX_HERE/training.bash"

script=train.py # of tests/python; a test may name another one
script_options=() # that the test's script always gets, the reference too
cache=$(dirname "$(dirname "$(realpath -m "$TORCH_HOME")")")
accelerate=${ACCELERATE_HOME:-$cache/accelerate-1.15.0} lightning=${LIGHTNING_HOME:-$cache/lightning-2.6.6}
torch_home=$BOX/held/2/$(basename "$(realpath -m "$TORCH_HOME")") # where boxuser can read it
python_environment=(TORCH_HOME="$torch_home" ESPALIER_PACKAGE="$BOX/share/python" ACCELERATE_HOME="$BOX/share/python/accelerate"
  LIGHTNING_HOME="$BOX/share/python/lightning")
# The package where boxuser can read it, and the interpreter that finds it. The pinned torch is where the box keeps it.
set_up_python() {
  mkdir -p "$BOX/share/python"
  cp -r "$BOX_REPO/torchrt/python/espalier" "$BOX/share/python/"
  # As installed, with what names the package's entry points.
  make -s -C "$BOX_REPO" BUILD="$BUILD" "$BUILD"/espalier-0.1.0.dist-info/{METADATA,entry_points.txt} > /dev/null
  cp -r "$BUILD"/espalier-0.1.0.dist-info "$BOX/share/python/"
  cp "$BOX_REPO"/tests/python/*.{sh,py} "$BOX/share/python/"
  [ ! -d "$accelerate" ] || cp -r --preserve=timestamps "$accelerate" "$BOX/share/python/accelerate"
  [ ! -d "$lightning" ] || cp -r --preserve=timestamps "$lightning" "$BOX/share/python/lightning"
  chmod -R a+rX "$BOX/share/python"
}
# Tests of other libraries than torch.
need_accelerate() {
  [ -e "$accelerate/accelerate/__init__.py" ] || skip "accelerate is not at $accelerate: \`make deps\` could not fetch etc/deps/accelerate.txt"
}
need_lightning() {
  [ -e "$lightning/lightning/__init__.py" ] || skip "lightning is not at $lightning: \`make deps\` could not fetch etc/deps/lightning.txt"
}
# From now on the jobs' scripts are started by torchrun.
torchrun_python() { runner=(-m torch.distributed.run --rdzv-backend=espalier); }
runner=()
# The interpreter itself, as a user would start it. The script python.sh is in between elsewhere: then no spares are kept.
interpreter=$BOX/share/python/python.sh
use_python_itself() {
  interpreter='python3 -s'
  python_environment+=(PYTHONPATH="${torch_home%/*}:$BOX/share/python" LD_LIBRARY_PATH="${torch_home%/*}/absent" OMP_NUM_THREADS=1)
}
# The same script as one process without Slurm, for so many steps. Kept for other boxes of the same build.
python_reference() { # STEPS
  local kept
  kept=$BUILD/test/python-reference-$(cat "$BOX_REPO/tests/python/$script" "$BOX_REPO"/torchrt/python/espalier/*.py <(echo "$1 ${script_options[*]/#tp*/ddp}") | sha256sum | cut -c1-16).jsonl
  if [ ! -s "$kept" ]; then
    as_user env "${python_environment[@]}" "$BOX/share/python/python.sh" "$BOX/share/python/$script" \
      --metrics "$BOX/home/reference.jsonl" --steps "$1" --pause 0 "${script_options[@]/#tp*/ddp}" > "$BOX/log/reference.log" 2>&1
    mkdir -p "$BUILD/test"
    cp "$BOX/home/reference.jsonl" "$kept.$$" && mv "$kept.$$" "$kept"
  fi
  cp "$kept" "$BOX/share/python-reference.jsonl"
}
# pytorch NAME RANGE SBATCH-OPTIONS -- ARGUMENTS of the script: prints the job's id.
pytorch() {
  local name=$1 range=$2 options=()
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
  [ $# -eq 0 ] || shift
  as_user tee "$BOX/home/$name.sh" > /dev/null <<S
#!/bin/bash
export ${python_environment[*]}
srun --elastic=$range ${SRUN_OPTIONS:-} $interpreter ${runner[*]} $BOX/share/python/$script --metrics $BOX/home/$name.jsonl ${script_options[*]} $*
S
  as_user sbatch --parsable -J "$name" -o "$BOX/home/$name.out" "${options[@]}" "$BOX/home/$name.sh"
}
# A trains on two GPUs of n1; fillers hold the rest of both nodes (near, far).
python_cast() { # [RANGE [ARGUMENT...]]
  local range=${1:-2:4}
  shift || true
  rm -rf "$BOX"/home/{A,near,far,urgent}.*
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(pytorch A "$range" -N1 -n1 -w n1 --gres=gpu:2 -- --steps 100000 --pause 1 "$@")
  wait_for 300 "A trains" stepped_past A 10
}
# The losses so far are those of one process, no step is missing, and each sample was used once.
same_as_alone() { # NAME
  python3 "$BOX/share/python/losses.py" "$BOX/home/$1.jsonl" "$BOX/share/python-reference.jsonl"
}
python_goes_on_well() {
  wait_for 100 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  same_as_alone A
  as_user scancel "$A"
  leaves_nothing 60
}
# Python may start too slowly for the grace that Slurm gives. Then the job goes on with a snapshot when the GPUs are gone, and some
# steps are done once more: no hand-off is left to look at.
handed_off() { ! grep -q 'training went on with' "$BOX/home/A.out" || skip "Slurm took the GPUs before the smaller generation had started"; }
# From 2 to 4 GPUs, where `near` ends, and back, where another job needs them.
python_grows_and_shrinks() {
  finish near
  wait_for 450 "A runs on 4 GPUs" runs_on A 4
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:2)
  wait_for 300 "A runs on 2 GPUs" runs_on A 2
  wait_for 200 "the urgent job runs" job_is "$urgent" RUNNING
  wait_for 100 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))
  finish urgent
}
# n2, on which A trains too, is cut off and down in Slurm until A goes on with two GPUs. A keeps these then.
python_loses_n2() {
  wait_for 100 "it does 60 steps there" stepped_past A $(($(step_of A) + 60))
  as_user espalier hold "$A"
  ip link set v2 down
  scontrol update nodename=n2 state=down reason=test
  wait_for 300 "A runs on 2 GPUs" runs_on A 2
  ip link set v2 up
  scontrol update nodename=n2 state=resume
  wait_for 30 "n2 is back" eval '[ "$(sinfo -h -n n2 -p main -o %t)" = idle ]'
}
