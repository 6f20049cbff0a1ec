# The packages in a root that has Slurm and nothing of Espalier: what a site does with them, from installing to removing.
# Run by tests/packages/run inside that root, on an overlay that is gone afterwards. Each test goes on where the one before ended.
# PACKAGES: the folder with the packages; NEWER: one with the same tree's packages of a higher version. The RPMs are installed by
# Debian's own rpm, when those of Debian are gone: the libraries that they need are those of Debian's packages, which rpm does not know.

setup_file() { . "$CHECKOUT/tests/packages/packages.bash"; before; }
setup() { . "$CHECKOUT/tests/packages/packages.bash"; }

@test "the packages install, and bring every file that a site needs" {
  install_all "$PACKAGES"
  for file in /usr/bin/espalier /usr/bin/espalier-launch /usr/bin/espalier-ranks /usr/bin/espalier-toy /usr/sbin/espalierd /usr/sbin/espalier-report \
    /usr/lib/x86_64-linux-gnu/slurm-wlm/espalier.so /usr/lib/x86_64-linux-gnu/slurm-wlm/job_submit_espalier.so \
    /lib/systemd/system/espalierd.service /etc/espalier/espalier.toml /usr/share/doc/espalier/slurm.conf /usr/share/doc/espalier/newcomer.md \
    /usr/lib/libespalier-worker.so.0 /usr/include/espalier/worker.h; do
    [ -e "$file" ] || { echo "$file is missing"; false; }
  done
  [ "$(readlink /usr/lib/libespalier-worker.so)" = libespalier-worker.so.0 ]
  worker_library_loads
  grep -q '^ExecStart=/usr/sbin/espalierd' /lib/systemd/system/espalierd.service
  espalier --version
  espalierd --version
  [ ! -e /etc/systemd/system/multi-user.target.wants/espalierd.service ] # the site starts it
}

@test "the plugins depend on the very version of Slurm, and on no other" {
  run dpkg-deb -f "$PACKAGES"/espalier-slurm-plugins_*.deb Depends
  echo "$output"
  slurm=$(dpkg-query -W -f '${Version}' slurm-wlm-basic-plugins)
  [[ $output == *"slurm-wlm-basic-plugins (>= ${slurm%%-*})"* ]]
  [[ $output == *"slurm-wlm-basic-plugins (<< "*"~)"* ]]
  # A Slurm of the next micro version: dpkg refuses the two together.
  mkdir -p /tmp/other/DEBIAN
  printf 'Package: slurm-wlm-basic-plugins\nVersion: %s.99-1\nArchitecture: amd64\nMaintainer: t <t@t>\nDescription: t\n' "${slurm%.*}" > /tmp/other/DEBIAN/control
  dpkg-deb -b /tmp/other /tmp/other.deb > /dev/null
  run apt-get -s install /tmp/other.deb
  echo "$output"
  [[ $output == *"espalier-slurm-plugins"* ]]
}

@test "a configuration that the site changed is kept by an upgrade, and a store is read by the newer version" {
  sed -i 's/^poll_seconds = 2.0/poll_seconds = 3.0/' /etc/espalier/espalier.toml
  install_all "$NEWER"
  [ "$(version espalierd)" = "$(dpkg-deb -f "$NEWER"/espalierd_*.deb Version)" ]
  grep -q '^poll_seconds = 3.0' /etc/espalier/espalier.toml
}

@test "a downgrade that could not read the decision store is refused in words, and changes nothing" {
  python3 - <<'P'
import os, sqlite3
os.makedirs("/var/lib/espalier", exist_ok=True)
store = sqlite3.connect("/var/lib/espalier/espalier.db")
store.execute("CREATE TABLE t(a)")
store.execute("PRAGMA user_version=999")
store.commit()
P
  before=$(version espalierd)
  run dpkg -i "$PACKAGES"/espalierd_*.deb
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"has schema 999"* ]]
  [[ $output == *"Keep espalierd"* ]]
  [ "$(version espalierd)" = "$before" ]
  dpkg -s espalierd | grep -q '^Status: install ok installed'
  # One of a schema that it reads is no obstacle.
  python3 -c 'import sqlite3; s = sqlite3.connect("/var/lib/espalier/espalier.db"); s.execute("PRAGMA user_version=1"); s.commit()'
  install_all "$PACKAGES"
  [ "$(version espalierd)" = "$(dpkg-deb -f "$PACKAGES"/espalierd_*.deb Version)" ]
}

@test "espalierd itself refuses a store of a newer version, with a remedy" {
  python3 -c 'import sqlite3; s = sqlite3.connect("/tmp/espalier.db"); s.execute("CREATE TABLE t(a)"); s.execute("PRAGMA user_version=999"); s.commit()'
  mkdir -p /tmp/state && mv /tmp/espalier.db /tmp/state/
  printf '[planner]\nrun_dir = "/tmp/state"\nstate_dir = "/tmp/state"\n[metrics]\naddress = ""\n' > /tmp/espalier.toml
  run timeout 20 espalierd --config /tmp/espalier.toml
  echo "$output"
  [ "$status" -eq 1 ]
  [[ $output == *"schema 999 is newer than this espalierd knows"*"install the newer espalierd"* ]]
}

@test "removing keeps the configuration and the store, purging leaves nothing" {
  dpkg -r libespalier-worker-dev libespalier-worker0 espalier-slurm-plugins espalierd espalier
  [ -e /etc/espalier/espalier.toml ]
  [ -e /var/lib/espalier/espalier.db ]
  refute_file /usr/bin/espalier /usr/lib/x86_64-linux-gnu/slurm-wlm/espalier.so
  dpkg -P libespalier-worker-dev libespalier-worker0 espalier-slurm-plugins espalierd espalier
  nothing_is_left
}
# Through the loader, by its name alone.
worker_library_loads() { python3 -c 'import ctypes; ctypes.CDLL("libespalier-worker.so.0").espalier_join'; }
refute_file() { for file; do [ ! -e "$file" ] || { echo "$file is still there"; return 1; }; done; }

rpms() { rpm --nodeps --force-debian "$@"; }

@test "the RPMs install, and bring every file that a site needs" {
  rpms -i "$PACKAGES"/*.rpm
  for file in /usr/bin/espalier /usr/bin/espalier-launch /usr/bin/espalier-ranks /usr/bin/espalier-toy /usr/sbin/espalierd /usr/sbin/espalier-report \
    /usr/lib64/slurm/espalier.so /usr/lib64/slurm/job_submit_espalier.so /usr/lib/systemd/system/espalierd.service \
    /etc/espalier/espalier.toml /usr/share/doc/espalier/slurm.conf /usr/lib64/libespalier-worker.so.0 /usr/include/espalier/worker.h; do
    [ -e "$file" ] || { echo "$file is missing"; false; }
  done
  espalier --version
  espalierd --version
  LD_LIBRARY_PATH=/usr/lib64 worker_library_loads
  run rpm -q --requires -p "$PACKAGES"/espalier-slurm-plugins-*.rpm
  echo "$output"
  slurm=$(dpkg-query -W -f '${Version}' slurm-wlm-basic-plugins)
  [[ $output == *"slurm >= ${slurm%%-*}"* ]]
  [[ $output == *"slurm < "* ]]
}

@test "an upgrade of the RPMs keeps the configuration; a downgrade that could not read the decision store is refused in words" {
  sed -i 's/^poll_seconds = 2.0/poll_seconds = 3.0/' /etc/espalier/espalier.toml
  rpms -U "$NEWER"/rpm/*.rpm
  [ "$(rpm -q --qf '%{RELEASE}' espalierd)" = 2 ]
  grep -q '^poll_seconds = 3.0' /etc/espalier/espalier.toml
  mkdir -p /var/lib/espalier
  python3 -c 'import sqlite3; s = sqlite3.connect("/var/lib/espalier/espalier.db"); s.execute("CREATE TABLE t(a)"); s.execute("PRAGMA user_version=999"); s.commit()'
  run rpms -U --oldpackage "$PACKAGES"/espalierd-*.rpm
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"has schema 999"*"Keep the newer one"* ]]
  [ "$(rpm -q --qf '%{RELEASE}' espalierd)" = 2 ]
  espalierd --version
  python3 -c 'import sqlite3; s = sqlite3.connect("/var/lib/espalier/espalier.db"); s.execute("PRAGMA user_version=1"); s.commit()'
  rpms -U --oldpackage "$PACKAGES"/*.rpm
  [ "$(rpm -q --qf '%{RELEASE}' espalierd)" = 1 ]
}

@test "removing the RPMs keeps the changed configuration and the store, and nothing else" {
  rpms -e libespalier-worker-devel libespalier-worker0 espalier-slurm-plugins espalierd espalier
  rm /etc/espalier/espalier.toml.rpmsave /var/lib/espalier/espalier.db
  rmdir /etc/espalier /var/lib/espalier
  nothing_is_left
}
