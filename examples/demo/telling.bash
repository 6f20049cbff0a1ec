# Sourced by story.sh: one line for each thing that happens, a live line in between, and an end when a thing does not happen.
story_start=${EPOCHREALTIME/[.,]/}
now() { local passed=$(((${EPOCHREALTIME/[.,]/} - story_start) / 100000)); printf '%3d.%d' $((passed / 10)) $((passed % 10)); }
clear_line() { [ ! -t 1 ] || printf '\r\033[K'; }
tell() {
  local at
  at=$(now)
  clear_line
  echo "[$at s] $*"
  printf '%s\t%s\n' "${at// /}" "$*" >> "$demo/timeline"
}

# must SECONDS WHAT COMMAND...: the story needs this to become true.
must() {
  wait_for "$@" && return 0
  stop_watching
  tell "gave up: after $1 s still not: $2"
  {
    squeue
    tail -n 20 "$BOX"/home/*.out
    espalier show decisions 2>&1 | tail -n 40
    tail -n 20 "$BOX/log/espalierd.log"
  } >&2
  exit 1
}

# The live line: on a terminal it is rewritten twice a second, elsewhere it is a line every five.
watch_progress() { # NAME STEPS
  (
    pause=5
    [ ! -t 1 ] || pause=0.5
    while sleep "$pause"; do
      clear_line
      printf '[%s s]   %s: step %s of %s, %s GPUs, loss %.4f, %.0f tokens/s' "$(now)" "$1" "$(step_of "$1")" "$2" \
        "$(metric "$1" gpus)" "$(metric "$1" loss)" "$(metric "$1" tokens_per_second)"
      [ -t 1 ] || echo
    done
  ) &
  watcher=$!
}
stop_watching() { [ -z "${watcher:-}" ] || { kill "$watcher" 2>/dev/null; wait "$watcher" 2>/dev/null; watcher=; clear_line; } || true; }
