#!/bin/bash
# inside.sh COMMAND...: pid 1 of a box. box.sh starts it in fresh namespaces with the BOX_ variables set. It makes the private
# places, then the cluster (cluster.sh), then runs COMMAND; what it started dies with it.
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd) from=$PWD
export BOX=/run/box PATH=$PATH:/usr/sbin:/sbin BOX_HERE=$here
mount --make-rprivate /

mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p "$BOX"/{bin,lib,share,slurm,state,log,pid,dev,spool,etc,home,held} /run/{lock,munge,netns,espalier}

# What must stay reachable when a private place covers it, and for boxuser, who may not enter root's home.
torch=$(realpath -m "${TORCH_HOME:-/nonexistent}")
held=("$BOX_REPO" "$BUILD" "$(dirname "$torch")")
for i in "${!held[@]}"; do
  mkdir "$BOX/held/$i"
  [ ! -d "${held[i]}" ] || mount --rbind "${held[i]}" "$BOX/held/$i"
done
private() { # $1 becomes an empty directory of this box, with mode $2
  mount -t tmpfs -o "mode=$2" tmpfs "$1"
  for i in "${!held[@]}"; do
    case ${held[i]} in "$1"/*) mkdir -p "${held[i]}"; mount --rbind "$BOX/held/$i" "${held[i]}" ;; esac
  done
}
cp -a /etc/. "$BOX/etc"
mount --bind "$BOX/etc" /etc
private /tmp 1777
private /var/lib 755
private /var/log 755
private /dev/shm 1777
cd "$from" 2>/dev/null || cd "$BOX_REPO"

# Copies, so that neither a strict umask nor a private home keeps boxuser from running them.
[ "$BOX_PLUGIN" = 0 ] || [ -e "$BUILD/lib/espalier.so" ] || { echo "espalier: box: $BUILD/lib/espalier.so is missing; run make first" >&2; exit 1; }
for kind in bin lib; do
  [ ! -d "$BUILD/$kind" ] || find "$BUILD/$kind" -maxdepth 1 -type f -exec install -m 755 -t "$BOX/$kind" {} +
done
cp -r "$BOX_REPO/examples" "$BOX/share/" && chmod -R a+rX "$BOX/share"
# Text to train on: over a megabyte, from an installed package.
find /usr/share/games/fortunes -maxdepth 1 -type f ! -name '*.dat' 2>/dev/null | sort | xargs -r cat > "$BOX/share/text"
export PATH=$BOX/bin:$PATH LD_LIBRARY_PATH=$BOX/held/2/$(basename "$torch")/lib

status=0
keep_logs() {
  [ -n "$BOX_KEEP" ] || return 0
  mkdir -p "$BOX_KEEP" && cp -r "$BOX"/log/. "$BOX/slurm" "$BOX/home" /etc/espalier "$BOX_KEEP" 2>/dev/null || true
}
# shellcheck source=cluster.sh
. "$here/cluster.sh"
"$@" || status=$?
[ "$status" = 0 ] || keep_logs
exit "$status"
