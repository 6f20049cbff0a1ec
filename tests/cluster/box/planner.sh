#!/bin/bash
# planner.sh start [OPTION...]|stop|kill: espalierd of a box, as SlurmUser, in the foreground of a child of the box. `start` returns when
# it answers; `stop` is a SIGTERM and waits for the end; `kill` is SIGKILL.
set -euo pipefail
pid_file=$BOX/pid/espalierd
gone() { for _ in {1..200}; do [ -d "/proc/$1" ] || return 0; sleep 0.05; done; return 1; }
case $1 in
  start)
    ( # nothing of the caller's stays open: bats waits for the end of whatever holds its pipes
      for descriptor in "/proc/$BASHPID/fd/"*; do
        [ "${descriptor##*/}" -le 2 ] || eval "exec ${descriptor##*/}>&-"
      done
      exec setpriv --reuid "$BOX_SLURM_USER" --regid "$BOX_SLURM_USER" --clear-groups \
        "$BOX/bin/espalierd" --foreground --config /etc/espalier/espalier.toml "${@:2}"
    ) >> "$BOX/log/espalierd.log" 2>&1 < /dev/null &
    pid=$!
    echo "$pid" > "$pid_file"
    for _ in {1..200}; do
      "$BOX/bin/espalier" ping > /dev/null 2>&1 && exit 0
      [ -d "/proc/$pid" ] || break
      sleep 0.05
    done
    tail -n 5 "$BOX/log/espalierd.log" >&2
    exit 1
    ;;
  stop) pid=$(cat "$pid_file"); kill -TERM "$pid"; gone "$pid" ;;
  kill) pid=$(cat "$pid_file"); kill -KILL "$pid"; gone "$pid" ;;
  *) sed -n '2,3p' "$0" >&2; exit 2 ;;
esac
