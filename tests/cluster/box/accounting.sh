# shellcheck shell=bash
# Sourced by cluster.sh in a box with accounting (box.sh -a), before slurmctld starts: MariaDB, slurmdbd, the box's cluster,
# accounts and users. Both servers listen inside the box only, MariaDB on a socket alone.
database=/var/lib/mysql

# Making an empty database takes MariaDB seconds, so one is kept for other boxes of the same build.
make_database() {
  local kept made
  kept=$BUILD/test/mariadb-$(mariadbd --version | sha256sum | cut -c1-16).tar
  mkdir -p "$database"
  if [ ! -s "$kept" ]; then
    mariadb-install-db --no-defaults --user=root --datadir="$database" --auth-root-authentication-method=normal \
      --skip-test-db --skip-name-resolve --innodb-log-file-size=4M > "$BOX/log/mariadb-install.log" 2>&1 || return
    mkdir -p "$BUILD/test"
    made=$kept.$(cat /proc/sys/kernel/random/uuid) # boxes have the same pids
    tar -C "$database" -cf "$made" . && mv "$made" "$kept"
  else
    tar -C "$database" -xf "$kept"
  fi
  chown -R "$slurm_user:" "$database"
}

# No password and no port: whoever is in the box may do everything there anyway.
start_database() {
  install -d -o "$slurm_user" /run/mysqld
  setsid mariadbd --no-defaults --user="$slurm_user" --datadir="$database" --socket=/run/mysqld/mysqld.sock \
    --pid-file=/run/mysqld/mysqld.pid --skip-networking --skip-grant-tables --performance-schema=0 \
    --innodb-buffer-pool-size=32M --innodb-log-file-size=4M --innodb-flush-log-at-trx-commit=0 \
    --innodb-lock-wait-timeout=900 > "$BOX/log/mariadb.log" 2>&1 < /dev/null &
  local tries
  for ((tries = 0; tries < 1200; tries++)); do [ ! -S /run/mysqld/mysqld.sock ] || return 0; sleep 0.05; done
  return 1
}

start_slurmdbd() {
  install -m 600 -o "$slurm_user" /dev/stdin "$BOX/slurm/slurmdbd.conf" <<C
AuthType=auth/munge
DbdHost=ctl
SlurmUser=$slurm_user
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
LogFile=$BOX/log/slurmdbd.log
PidFile=$BOX/pid/slurmdbd
PluginDir=$plugins
C
  slurmdbd
  local tries
  for ((tries = 0; tries < 600; tries++)); do sacctmgr -nP show cluster > /dev/null 2>&1 && return 0; sleep 0.1; done
  return 1
}

# What a command of sacctmgr says where all is well goes to a log.
accounts() {
  local -a words
  {
    sacctmgr -i add cluster box && sacctmgr -i add account physics,chemistry Cluster=box &&
      sacctmgr -i add user boxuser,mallory Account=physics,chemistry DefaultAccount=physics
  } >> "$BOX/log/sacctmgr.log" 2>&1 || return
  for line in "${accounting[@]}"; do
    [ -n "$line" ] || continue
    read -ra words <<< "$line"
    sacctmgr -i "${words[@]}" >> "$BOX/log/sacctmgr.log" 2>&1 || return
  done
}

mapfile -t accounting <<< "$BOX_ACCOUNTING_LINES"
command -v mariadbd slurmdbd > /dev/null || fail "mariadbd and slurmdbd are needed for accounting; run make deps"
make_database || fail "an empty database cannot be made"
start_database || fail "MariaDB does not start"
start_slurmdbd || fail "slurmdbd does not answer"
accounts || fail "sacctmgr refuses what the box has or was given with -a"
