# shellcheck shell=bash
# Sourced by inside.sh: accounts, network, munge, Slurm's configuration and daemons, espalierd.
fail() {
  echo "espalier: box: $*; the logs' last lines:" >&2
  tail -n 5 "$BOX"/log/* >&2 || true
  keep_logs
  exit 1
}

# --- accounts: boxuser is who submits; Slurm runs as its own user, as on a real site -----------------------------------
echo 'boxuser:x:4242:4242:box user:/run/box/home:/bin/bash' >> /etc/passwd
echo 'boxuser:x:4242:' >> /etc/group
echo 'mallory:x:4243:4243:another user:/tmp:/bin/bash' >> /etc/passwd
echo 'mallory:x:4243:' >> /etc/group
# From Slurm 26.05 on --export=NONE starts su, which wants to know that the account has not expired.
[ ! -e /etc/shadow ] || printf '%s:*::0:99999:7:::\n' boxuser mallory >> /etc/shadow
chown 4242:4242 "$BOX/home"
slurm_user=slurm
id slurm > /dev/null 2>&1 || slurm_user=root
export BOX_SLURM_USER=$slurm_user
chown "$slurm_user:" "$BOX/state" "$BOX/log" "$BOX/pid" /run/espalier
mkdir -p /var/lib/{munge,espalier} /var/log/munge
chown "$slurm_user:" /var/lib/espalier

# --- network: a bridge, and a namespace with one address for each node -------------------------------------------------
echo '127.0.0.1 localhost' > /etc/hosts
sed -i 's/^hosts:.*/hosts: files/' /etc/nsswitch.conf # no name server is reachable from here: never wait for one
hostname ctl
ip link set lo up
ip link add br0 type bridge
ip addr add 10.77.255.254/16 dev br0
ip link set br0 up
echo '10.77.255.254 ctl' >> /etc/hosts
# The node's end is what it sends, the bridge's what it gets. A burst lasts 5 ms, since what passes in one does not see the link: a
# burst of 2 MB let the sums of a small model's gradients pass as if there was no limit. It holds one packet of segmentation offload.
burst_of() { # RATE, as in 400mbit: bytes
  local number=${1%%[a-z]*} unit=${1##*[0-9]} bits
  case $unit in mbit) bits=1000000 ;; gbit) bits=1000000000 ;; *) return 1 ;; esac
  local bytes=$((number * bits / 8 / 200))
  echo $((bytes > 65536 ? bytes : 65536))
}
shape() { # NODE INTERFACE
  local burst
  burst=$(burst_of "$BOX_RATE") || fail "$BOX_RATE is no rate: write a whole number and mbit or gbit, as in 10gbit"
  tc -n "$1" qdisc add dev eth0 root tbf rate "$BOX_RATE" burst "$burst" latency 50ms &&
    tc qdisc add dev "$2" root tbf rate "$BOX_RATE" burst "$burst" latency 50ms
}
for ((i = 1; i <= BOX_NODES; i++)); do
  address=10.77.$((i / 250)).$((i % 250 + 1))
  ip netns add "n$i"
  ip link add "v$i" type veth peer name eth0 netns "n$i"
  ip link set "v$i" master br0 up
  ip -n "n$i" -batch - <<< $'link set lo up\naddr add '"$address/16 dev eth0"$'\nlink set eth0 up'
  [ -z "$BOX_RATE" ] || shape "n$i" "v$i" || fail "the links cannot be shaped to $BOX_RATE: tc and the kernel's tbf are needed"
  echo "$address n$i" >> /etc/hosts
  mkdir -p "$BOX/spool/n$i"
done

# --- munge, with a key of this box -------------------------------------------------------------------------------------
mkdir -p /etc/munge && rm -f /etc/munge/munge.key
chown munge: /etc/munge /run/munge /var/lib/munge /var/log/munge
chmod 700 /etc/munge /var/lib/munge /var/log/munge
mungekey -c -k /etc/munge/munge.key && chown munge: /etc/munge/munge.key
setpriv --reuid munge --regid munge --clear-groups munged || fail "munged does not start"

# --- Slurm -------------------------------------------------------------------------------------------------------------
BOX_TYPES=${BOX_TYPES:-h100:$BOX_GPUS} BOX_GPUS=0 gres_lines='' node_gres=''
IFS=, read -ra types <<< "$BOX_TYPES"
for type in "${types[@]}"; do
  gres_lines+="Name=gpu Type=${type%:*} File=$BOX/dev/gpu[$BOX_GPUS-$((BOX_GPUS + ${type#*:} - 1))]"$'\n'
  node_gres+=${node_gres:+,}gpu:$type
  BOX_GPUS=$((BOX_GPUS + ${type#*:}))
done
for ((i = 0; i < BOX_GPUS; i++)); do mknod -m 666 "$BOX/dev/gpu$i" c 195 "$i" 2>/dev/null || : > "$BOX/dev/gpu$i"; done
plugins=$(find /usr/lib /usr/lib64 -maxdepth 3 -path '*/slurm*/auth_munge.so' -printf '%h\n' 2>/dev/null | head -n 1)
half=$(((BOX_NODES + 1) / 2))
nodes_of_types() { # lines of slurm.conf
  local node='CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=16000'
  if [ -z "$BOX_OTHER_TYPE" ]; then echo "NodeName=n[1-$BOX_NODES] $node Gres=$node_gres"; return; fi
  echo "NodeName=n[1-$half] $node Gres=gpu:h100:$BOX_GPUS"
  [ "$BOX_OTHER_TYPE" = none ] || node+=" Gres=gpu:$BOX_OTHER_TYPE:$BOX_GPUS"
  echo "NodeName=n[$((half + 1))-$BOX_NODES] $node"
}
cat > "$BOX/slurm/slurm.conf" <<C
ClusterName=box
SlurmctldHost=ctl(10.77.255.254)
SlurmUser=$slurm_user
AuthType=auth/munge
StateSaveLocation=$BOX/state
SlurmdSpoolDir=$BOX/spool/%h
SlurmctldPidFile=$BOX/pid/slurmctld
SlurmdPidFile=$BOX/pid/%h
SlurmctldLogFile=$BOX/log/slurmctld.log
SlurmdLogFile=$BOX/log/%h.log
PluginDir=$BOX/lib:$plugins
PlugStackConfig=$BOX/slurm/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
TopologyPlugin=topology/tree
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
$(nodes_of_types)
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
PartitionName=elastic Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=CANCEL GraceTime=30
C
[ "$BOX_PLUGIN" = 0 ] || echo 'JobSubmitPlugins=espalier' >> "$BOX/slurm/slurm.conf"
[ "$BOX_ACCOUNTING" = 0 ] || cat >> "$BOX/slurm/slurm.conf" <<'C'
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ctl
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=limits,qos
C
# A line of ours replaces the default of the same name.
override() { # FILE LINE...
  local file=$1 line key; shift
  for line; do
    [ -n "$line" ] || continue
    key=${line%%=*}; key=${key%"${key##*[! ]}"}
    case $key in NodeName | PartitionName) ;; *) sed -i "/^${key//./\\.} *=/d" "$file" ;; esac
    echo "$line" >> "$file"
  done
}
mapfile -t lines <<< "$BOX_SLURM_LINES"
override "$BOX/slurm/slurm.conf" "${lines[@]}"
if [ -z "$BOX_OTHER_TYPE" ]; then printf %s "$gres_lines"
else
  echo "NodeName=n[1-$half] Name=gpu Type=h100 File=$BOX/dev/gpu[0-$((BOX_GPUS - 1))]"
  [ "$BOX_OTHER_TYPE" = none ] ||
    echo "NodeName=n[$((half + 1))-$BOX_NODES] Name=gpu Type=$BOX_OTHER_TYPE File=$BOX/dev/gpu[0-$((BOX_GPUS - 1))]"
fi > "$BOX/slurm/gres.conf"
{
  echo "SwitchName=leaf1 Nodes=n[1-$half]"
  [ "$BOX_NODES" -le 1 ] || printf '%s\n' "SwitchName=leaf2 Nodes=n[$((half + 1))-$BOX_NODES]" 'SwitchName=spine Switches=leaf[1-2]'
} > "$BOX/slurm/topology.conf"
: > "$BOX/slurm/plugstack.conf"
[ "$BOX_PLUGIN" = 0 ] ||
  echo "optional $BOX/lib/espalier.so planner=ctl max=64 launcher=$BOX/bin/espalier-launch report=$BOX/bin/espalier-report" > "$BOX/slurm/plugstack.conf"
export SLURM_CONF=$BOX/slurm/slurm.conf
# Nothing of a box is kept in cgroups. But where there are none, or no systemd keeps them, slurmd starts only if told that they
# are of the first kind, of which it then makes none.
[ -d /sys/fs/cgroup/freezer ] || echo 'CgroupPlugin=cgroup/v1' > "$BOX/slurm/cgroup.conf"
# shellcheck source=accounting.sh
[ "$BOX_ACCOUNTING" = 0 ] || . "$BOX_HERE/accounting.sh"

# --- Espalier ----------------------------------------------------------------------------------------------------------
mkdir -p /etc/espalier
cat > /etc/espalier/espalier.toml <<'C'
planner.host = "ctl"
launch.network = "10.77.0.0/16"
# Training on a few CPUs gains little by a GPU that is none: any gain shall do.
planner.lambda = 8
# And more of them may make steps slower, since they share these CPUs. The tests of this key give it a value.
planner.trial_percent = 0
planner.plan_trials = 0
C
mapfile -t lines <<< "$BOX_PLANNER_LINES"
override /etc/espalier/espalier.toml "${lines[@]}"

if [ "$BOX_GRANTS" = 1 ]; then
  (umask 077 && printf 'partition=elastic\nkey=%s\n' "$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')" > /etc/espalier/grant.key)
  chown "$slurm_user:" /etc/espalier/grant.key
fi

slurmctld -c || fail "slurmctld does not start"
if [ "$BOX_PLANNER" = 1 ]; then "$BOX_HERE/planner.sh" start || fail "espalierd does not start"; fi
# Not `ip netns exec`: it mounts another /sys, and slurmd then fails on cgroups.
for ((i = 1; i <= BOX_NODES; i++)); do "$BOX_HERE/node.sh" start "n$i" || fail "slurmd of n$i does not start"; done
nodes_idle() { [ "$(sinfo -h -t idle -p main -o %D 2>/dev/null)" = "$BOX_NODES" ]; }
for ((until = SECONDS + 60; SECONDS < until; )); do nodes_idle && break; sleep 0.05; done
nodes_idle || fail "the nodes are not idle after 60 s: $(timeout 10 sinfo -h -N -o '%N %T %E' 2>&1 | sort -u | paste -sd ';')"
