# Sourced by the packages' tests, in the root that has Slurm and nothing of Espalier.
# before: in setup_file. What the root has before Espalier.
before() {
  export DEBIAN_FRONTEND=noninteractive
  # What is there before Espalier. Packages that it depends on stay when it goes: the list is made when they are there.
  apt-get -q -y --no-install-recommends install rpm $(dependencies) > /tmp/dependencies.log 2>&1 || { tail -n 20 /tmp/dependencies.log >&2; return 1; }
  mkdir -p /usr/lib64/slurm # of Slurm's RPM
  everything > /tmp/before
}

# Names of what the packages depend on, without their own and without versions.
dependencies() {
  for deb in "$PACKAGES"/*.deb; do dpkg-deb -f "$deb" Depends; done | tr ',' '\n' | sed 's/^ *//; s/[ (|].*//; /espalier/d; /^$/d' | sort -u
}
# Every file, folder and account of the root, but what package tools and the tests themselves write.
everything() {
  find / -xdev \( -path /tmp -o -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /root -o -path /var/log -o -path /var/cache \
    -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /etc/ld.so.cache -o -path "$CACHE_HOME" -o -path "$CHECKOUT" \) -prune -o -print | sort
  cut -d: -f1 /etc/passwd /etc/group
}
install_all() { dpkg -i "$1"/*.deb; }
version() { dpkg-query -W -f '${Version}' "$1"; }
nothing_is_left() {
  everything > /tmp/after
  run diff /tmp/before /tmp/after
  echo "$output"
  [ "$status" -eq 0 ]
}
