# Sourced by tests and by the demo, inside a box: submit jobs as boxuser, watch them, and find what they leave behind.

# Runs a command as boxuser (or as another account: as_user -u mallory ...), in boxuser's home.
as_user() {
  local account=boxuser
  [ "$1" != -u ] || { account=$2; shift 2; }
  (cd "$BOX/home" && exec env -u BATS_TEST_TIMEOUT HOME="$BOX/home" USER="$account" \
    setpriv --reuid "$account" --regid "$account" --clear-groups "$@" 3>&-)
}

# A command that must fail: `!` before one in the middle of a test demands nothing.
refute() { ! "$@"; }
# wait_for SECONDS WHAT COMMAND...: polls until COMMAND succeeds; says so and fails when it does not in time. It waits a minute at
# least: on a machine that other tests keep busy, what takes one second may take twenty. What must happen soon is for `within`.
wait_for() {
  local limit=$1 what=$2 until
  shift 2
  [ "$limit" -ge 60 ] || limit=60
  until=$((${EPOCHREALTIME/[.,]/} + limit * 1000000))
  until "$@" > /dev/null 2>&1; do
    [ "${EPOCHREALTIME/[.,]/}" -lt "$until" ] || { echo "after $limit s still not: $what" >&2; return 1; }
    sleep 0.1
  done
}

# now_us: microseconds since the epoch. within SECONDS SINCE WHAT COMMAND...: polls until COMMAND succeeds, says how long after SINCE
# (now_us) that was, and fails where that was more than SECONDS. On a machine that had more to do in the last minute than it has
# cores for, twice as long is allowed: other boxes keep these processes waiting then.
now_us() { echo "${EPOCHREALTIME/[.,]/}"; }
within() {
  local limit=$1 since=$2 what=$3 took load
  shift 3
  wait_for "$((3 * limit))" "$what" "$@" || return
  took=$((($(now_us) - since) / 1000))
  read -r load _ < /proc/loadavg
  echo "# $what: after $took ms, load $load" >&3
  [ "${load%.*}" -lt "$(nproc)" ] || limit=$((2 * limit))
  [ $took -le $((limit * 1000)) ] || { echo "$what: after $took ms, more than $limit s" >&2; return 1; }
}

# --- submitting ----------------------------------------------------------------------------------------------------------
# plain NAME SBATCH-OPTION...: a job that holds its GPUs until `finish NAME`. Prints its id.
plain() {
  local name=$1
  shift
  as_user sbatch --parsable -J "$name" -o "$BOX/home/$name.out" "$@" \
    --wrap "until [ -e '$BOX/home/$name.finish' ]; do sleep 0.1; done"
}
# completed SBATCH-ARGUMENT...: a job that ends with exit code 0. Not sbatch -W, which looks every 2, 4, 8, ... seconds.
completed() {
  local job
  job=$(as_user sbatch --parsable "$@") || return
  wait_for 60 "job $job has ended" job_over "$job"
  [ "$(exit_code "$job")" = 0:0 ]
}
finish() { as_user touch "$BOX/home/$1.finish"; }

# elastic NAME RANGE SBATCH-OPTIONS -- TRAIN-ARGUMENTS: a batch job whose script trains elastically. Prints its id. Its
# output is in $BOX/home/NAME.out, its metrics in $BOX/home/NAME.jsonl.
elastic() {
  local name=$1 range=$2 options=()
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
  [ $# -eq 0 ] || shift
  as_user tee "$BOX/home/$name.sh" > /dev/null <<S
#!/bin/bash
srun --elastic=$range ${SRUN_OPTIONS:-} ${TRAINER:-espalier-train} $BOX/share/examples/gpt-tiny.toml --metrics $BOX/home/$name.jsonl $*
S
  as_user sbatch --parsable -J "$name" -o "$BOX/home/$name.out" "${options[@]}" "$BOX/home/$name.sh"
}

# --- watching ------------------------------------------------------------------------------------------------------------
job_state() { squeue -h -j "$1" -o %T 2>/dev/null; } # nothing once Slurm has forgotten it
job_is() { [ "$(job_state "$1")" = "$2" ]; }
job_over() { case $(job_state "$1") in '' | COMPLETED | CANCELLED | FAILED | TIMEOUT | PREEMPTED | NODE_FAIL) ;; *) return 1 ;; esac; }
exit_code() { scontrol show job "$1" | sed -n 's/.*ExitCode=\([0-9:]*\).*/\1/p'; }

# A field of a training's last step: step, loss, seconds, tokens_per_second, generation, gpus, plan. By sed, as it is polled.
metric() { tail -n 1 "$BOX/home/$1.jsonl" 2>/dev/null | sed -nE "s/.*\"$2\":\"?([^,\"}]*).*/\1/p"; }
step_of() { local step; step=$(metric "$1" step); echo "${step:-0}"; }
stepped_past() { [ "$(step_of "$1")" -ge "$2" ]; }
gpus_of() { metric "$1" gpus; }
runs_on() { [ "$(gpus_of "$1")" = "$2" ]; } # NAME GPUS

extensions_of() { squeue -h -p elastic -o '%i %k' 2>/dev/null | awk -v tag="espalier:ext:$1:" 'index($2, tag) == 1 {print $1}'; }
no_extensions() { [ -z "$(squeue -h -p elastic -o %i)" ]; }

# --- what must not be left -----------------------------------------------------------------------------------------------
leaked_jobs() { squeue -h -o '%i %j %T'; }
leaked_processes() { ps -o pid=,user=,args= -u boxuser,mallory || true; }
# Named objects of ours: shared memory, sockets in the abstract namespace of any node, directories of generations.
leaked_objects() {
  find /dev/shm -mindepth 1
  find /tmp -mindepth 1 -maxdepth 1 \( -name 'espalier*' -o -name 'ompi.*' \)
  local node
  for node in /run/netns/*; do nsenter --net="$node" grep -h '@espalier' /proc/net/unix || true; done
}
nothing_left() { [ -z "$(leaked_jobs)$(leaked_processes)$(leaked_objects)" ]; }
# assert_nothing_left [SECONDS]: after the last job's end.
assert_nothing_left() {
  wait_for "${1:-20}" "everything of the jobs is gone" nothing_left && return 0
  echo "left behind:"; leaked_jobs; leaked_processes; leaked_objects
  return 1
}
