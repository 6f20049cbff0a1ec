#!/bin/bash
# node.sh start|kill NODE: slurmd of a box's node, in the node's network namespace and with its host name.
set -euo pipefail
case $1 in
  start) nsenter --net="/run/netns/$2" unshare --uts sh -c 'hostname "$1" && exec slurmd 3>&-' sh "$2" ;;
  kill) kill -KILL "$(cat "$BOX/pid/$2")" ;;
  *) sed -n 2p "$0" >&2; exit 2 ;;
esac
