#!/bin/bash
# box.sh [OPTION...] COMMAND [ARGUMENT...]
# Runs COMMAND as root on the controller of a real Slurm cluster with Espalier on it, which exists for as long as COMMAND runs.
#   -n NODES   nodes n1, n2, ... (4)             -c LINE  a line for slurm.conf, may be repeated
#   -g GPUS    fake GPUs of each node (4)        -e LINE  a line for espalier.toml, as in 'planner.poll_seconds = 1'
#   -d         without espalierd                 -k DIR   where to keep the logs when COMMAND fails, or SIGTERM ends this
#   -p         plain Slurm: no plugin either      -r RATE  of every node's link, both ways, as in 10gbit (not limited)
#   -a LINE    with slurmdbd and MariaDB; LINE is a command for sacctmgr, or empty; may be repeated, as in -a 'add qos lent'
#   -t TYPES   of the GPUs of each node, instead of -g, as in h100:2,a100:2 (h100)
#   -y TYPE    of the GPUs of the second half of the nodes (h100, as those of the first half); none: these have no GPUs
#   -s         with a key for grants: only extensions come into the partition elastic
# Everything lives in private pid, mount, net, uts and ipc namespaces and on private tmpfs: when COMMAND ends, or this
# script is killed in whatever way, nothing is left on the machine. Any number of boxes run side by side.
# Exit status: COMMAND's; 75 when there is no way to become root here.
set -euo pipefail
self=$(readlink -f "$0")
usage() { sed -n '2,14s/^# \{0,1\}//p' "$self" >&2; exit 2; }
export BOX_RATE='' BOX_NODES=4 BOX_GPUS=4 BOX_SLURM_LINES='' BOX_PLANNER_LINES='' BOX_TYPES='' BOX_OTHER_TYPE='' BOX_ACCOUNTING=0 BOX_ACCOUNTING_LINES='' BOX_PLANNER=1 BOX_PLUGIN=1 BOX_GRANTS=0 BOX_KEEP=''
arguments=("$@")
while getopts n:g:t:y:c:e:k:r:a:sdph option; do
  case $option in
    n) BOX_NODES=$OPTARG ;;
    g) BOX_GPUS=$OPTARG ;;
    t) BOX_TYPES=$OPTARG ;;
    c) BOX_SLURM_LINES+=$OPTARG$'\n' ;;
    e) BOX_PLANNER_LINES+=$OPTARG$'\n' ;;
    a) BOX_ACCOUNTING=1; BOX_ACCOUNTING_LINES+=$OPTARG$'\n' ;;
    k) BOX_KEEP=$(realpath -m "$OPTARG") ;;
    r) BOX_RATE=$OPTARG ;;
    s) BOX_GRANTS=1 ;;
    y) BOX_OTHER_TYPE=$OPTARG ;;
    d) BOX_PLANNER=0 ;;
    p) BOX_PLUGIN=0 BOX_PLANNER=0 ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage

export TORCH_HOME=${TORCH_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier/torch-2.11.0-cp311/torch} # the Makefile's default
if [ "$(id -u)" != 0 ]; then
  sudo -n true 2>/dev/null || { echo "espalier: box: needs root, or sudo without a password" >&2; exit 75; }
  exec sudo -n --preserve-env=BUILD,TORCH_HOME,BATS_TEST_TIMEOUT "$self" "${arguments[@]}"
fi

BOX_REPO=$(cd "$(dirname "$self")/../.." && pwd)
BUILD=$(realpath -m "${BUILD:-$BOX_REPO/build}")
export BOX_REPO BUILD
# The death of this script kills unshare, the death of unshare kills pid 1 of the namespaces, and with it all the rest.
setpriv --pdeathsig KILL unshare --mount --pid --net --uts --ipc --fork --kill-child --mount-proc "$(dirname "$self")/box/inside.sh" "$@" <&0 &
box=$!
ended() { # unshare itself ignores SIGINT and SIGTERM
  local inside=''
  [ -z "$BOX_KEEP" ] || ! inside=$(pgrep -P "$box") ||
    { mkdir -p "$BOX_KEEP" && cp -r "/proc/$inside/root/run/box/"{log,slurm,home} "$BOX_KEEP"; } 2> /dev/null
  kill -KILL "$box" 2> /dev/null
}
trap ended INT TERM HUP
wait "$box"
