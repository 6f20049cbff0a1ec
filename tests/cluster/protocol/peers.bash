# shellcheck shell=bash
# Sourced by protocol.bats, inside a box where A trains: peers that say what they should not, and what must not change by it.
. "$BOX_HERE/training.bash"

espalierd=ctl:7321
control=/run/espalier/control.sock
events=/run/espalier/events.sock

# talk USER WHERE STEP...: what probe.py prints, in $output.
talk() {
  run timeout 20 python3 "$BATS_TEST_DIRNAME/protocol/probe.py" "$@"
  echo "$output"
  [ "$status" -eq 0 ]
}
# The last thing the peer said is a refusal with this in it, and it closed the connection.
refused() { [[ ${lines[-1]} == *'"type": "refused"'* && ${lines[-1]} == *"$1"* ]]; }

# --- messages ------------------------------------------------------------------------------------------------------------
query() { echo "frame:{\"type\":\"query\",\"what\":\"$1\",\"arguments\":${2:-{\}}}"; }
# A job as a launcher would describe it; MORE replaces fields, as in '"max_gpus":-1'.
job_json() { # ID [MORE]
  python3 -c 'import json, sys
job = {"id": int(sys.argv[1]), "uid": 4242, "name": "forged", "min_gpus": 1, "max_gpus": 8, "accuracy": "bitwise",
       "model": {"family": "gpt2", "layers": 8, "hidden": 32, "heads": 2, "sequence": 32, "vocabulary": 256, "global_batch": 8, "micro_batches": 4},
       "plan": None, "generation": 0, "phase": "running", "anchor": [], "extensions": [], "step_seconds": 1.0, "step": 1, "total_steps": 9, "held": False}
print(json.dumps({**job, **json.loads("{" + sys.argv[2] + "}")}))' "$1" "${2:-}"
}
registration() { echo "frame:{\"type\":\"register\",\"host\":\"n2\",\"pid\":4242,\"job\":$(job_json "$@")}"; }
hello() { # GENERATION RANK
  echo "frame:{\"type\":\"hello\",\"generation\":$1,\"rank\":$2,\"node\":\"n1\",\"pid\":1,\"total_steps\":9,\"handoff\":\"adopt\",\"model\":$(
    job_json 1 | python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["model"]))')}"
}
keeper() { echo "frame:{\"type\":\"keeper\",\"job\":$1,\"node\":\"n1\",\"extension\":$2}"; } # JOB EXTENSION
rank_server() { echo "frame:{\"type\":\"rank_server\",\"job\":$1,\"node\":\"$2\",\"pid\":1}"; } # JOB NODE

# --- A's launcher --------------------------------------------------------------------------------------------------------
of_worker() { tr '\0' '\n' < "/proc/$(workers 0 | head -n 1)/environ" | sed -n "s/^$1=//p" | head -n 1; }
launcher() { of_worker ESPALIER_LAUNCHER; }
token() { of_worker ESPALIER_TOKEN; }
login_as() { echo "login:service=$1,job=${3:-$A},token=${2:-$(token)}"; } # SERVICE [TOKEN [JOB]]

# --- what must not change ------------------------------------------------------------------------------------------------
# The planner's process, the jobs that it knows with everything but their progress, and Slurm's.
state_of_things() {
  echo "espalierd $(cat "$BOX/pid/espalierd")"
  espalier show jobs -o | sed -E 's/ (Step|StepTime|TokensPerSec)=[^ ]*//g'
  squeue -h -o '%i %j %T %N' | sort
}
trains_on() { wait_for 20 "A does 5 more steps" stepped_past A $(($(step_of A) + 5)); }
