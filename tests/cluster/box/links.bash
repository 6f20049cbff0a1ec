# Sourced inside a box of four nodes on two leaves: shapes the links by tc.

# Every node sends at MBIT Mbit/s to the other node of its leaf, and at half of that across the spine. The fourth node gets
# and sends at a fifth of MBIT. Bursts are short, since what passes in one counts as speed. Fails where tc or the kernel's htb and
# tbf are missing.
shape_links() { # MBIT
  local i other rate half slow=$(($1 / 5)) burst=$((128 * $1 / 200))kb
  for i in 1 2 3 4; do
    rate=$1 half=$(($1 / 2))
    [ $i -lt 4 ] || rate=$slow half=$slow
    tc -n "n$i" qdisc add dev eth0 root handle 1: htb default 10 r2q 1000 || return
    tc -n "n$i" class add dev eth0 parent 1: classid 1:10 htb rate "${rate}mbit" burst "$burst" cburst "$burst" || return
    tc -n "n$i" class add dev eth0 parent 1: classid 1:20 htb rate "${half}mbit" burst "$burst" cburst "$burst" || return
    for other in 1 2 3 4; do
      [ $(((i - 1) / 2)) = $(((other - 1) / 2)) ] ||
        tc -n "n$i" filter add dev eth0 parent 1: protocol ip u32 match ip dst "10.77.0.$((other + 1))/32" flowid 1:20 || return
    done
  done
  tc qdisc add dev v4 root tbf rate "${slow}mbit" burst "$burst" latency 50ms
}
