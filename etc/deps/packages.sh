#!/bin/bash
# packages.sh [PACKAGE...]: installs the Debian packages of packages.txt and those named, as far as they are missing.
# Runs apt only then, as root or through sudo. Daemons that the packages bring are not started: the box starts its own.
set -euo pipefail
say() { echo "espalier: deps: $*"; }

if ! command -v dpkg-query >/dev/null; then
  say "this is not a Debian system; install what etc/deps/packages.txt names by hand" >&2
  exit 0
fi
mapfile -t wanted < <(grep -v '^#' "$(dirname "$0")/packages.txt"; printf '%s\n' "$@")
declare -A present
while read -r state name; do [ "$state" = installed ] && present[$name]=1; done < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null)
missing=()
for package in "${wanted[@]}"; do
  [ -z "$package" ] || [ -n "${present[$package]:-}" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { say "packages are missing: ${missing[*]}; install them as root, or install sudo" >&2; exit 1; }
  as_root=(sudo)
fi
say "installing ${#missing[@]} Debian packages: ${missing[*]}"

# invoke-rc.d asks policy-rc.d whether a package may start its daemon; 101 means no. Ours stays only while apt runs.
install_quietly='
  policy=/usr/sbin/policy-rc.d log=$1; shift
  if [ ! -e $policy ]; then
    trap "rm -f $policy" EXIT; trap "exit 1" INT TERM HUP
    printf "#!/bin/sh\nexit 101\n" > $policy; chmod 755 $policy
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt="apt-get -q -o DPkg::Lock::Timeout=120 --no-install-recommends"
  $apt update > "$log" 2>&1
  $apt --assume-no install "$@" 2>/dev/null | sed -n "s/^Need to get \(.*\) of archives\./espalier: deps: downloading \1/p"
  $apt -y install "$@" >> "$log" 2>&1'
log=$(mktemp); trap 'rm -f "$log"' EXIT
if ! "${as_root[@]}" sh -ec "$install_quietly" packages "$log" "${missing[@]}" < /dev/null; then
  tail -n 20 "$log" >&2
  say "apt-get could not install them; the lines above say why" >&2
  exit 1
fi
