# Sourced after common.bash: plays of the stage director.
STEPS=1000000 # never reached: the director ends a play when all its acts are done

# script FIRST [AFTER PLAN EXTRA]...: EXTRA is JSON that is added to the act, e.g. {"kill": [1]}
script() {
  python3 - "$@" << 'PY'
import json, sys
first, rest = sys.argv[1], sys.argv[2:]
acts = [{"after": int(a), "plan": json.loads(p), **json.loads(x)} for a, p, x in zip(rest[::3], rest[1::3], rest[2::3])]
print(json.dumps({"first": json.loads(first), "acts": acts}))
PY
}

# Before a play in the background is waited for, too: what an earlier test left would be taken for its steps.
forget_plays() { rm -f summary.json elastic.jsonl; }
play() { # ARGUMENTS...: plays script.json to its end
  forget_plays
  STAGE_DIRECTOR_SECONDS=380 timeout -k 5 400 "$here/with_munge.sh" "$director" script.json summary.json -- \
    "$train" small.toml --steps $STEPS --metrics elastic.jsonl "$@"
}
steps_done() { wc -l 2>/dev/null < "${1:-elastic.jsonl}" || echo 0; }
trains_past() { # STEP [FILE]: waits for it
  for _ in $(seq 2700); do [ "$(steps_done "${2:-}")" -lt "$1" ] || return 0; sleep 0.1; done
  echo "step $1 is not done after 270 s" >&2
  return 1
}
# As many steps as were played, by one rank alone: as the play. One reference grows with the longest play so far.
losses_as_alone() { # [TOLERANCE [FIRST-STEPS, which alone are compared]]
  local steps training
  steps=$(steps_done)
  if [ "$(steps_done reference.jsonl)" -lt "$steps" ]; then
    rm -f reference.jsonl
    timeout -k 5 300 mpirun -np 1 "${alone:-$train}" small.toml --steps $STEPS --metrics reference.jsonl > alone.log 2>&1 3>&- &
    training=$!
    trains_past "$steps" reference.jsonl
    kill -TERM "$training"
    wait "$training" || true
  fi
  head -n "$steps" reference.jsonl > alone.jsonl
  if [ $# -lt 2 ]; then
    same_losses alone.jsonl elastic.jsonl "$@"
    return
  fi
  head -n "$2" alone.jsonl > alone-first.jsonl
  head -n "$2" elastic.jsonl > elastic-first.jsonl
  same_losses alone-first.jsonl elastic-first.jsonl "$1"
}
acts() { # EXPRESSION over the list `acts` of the summary
  python3 -c 'import json, sys
acts = json.load(open("summary.json"))["acts"]
print(acts)
assert eval(sys.argv[1]), sys.argv[1]' "$1"
}
