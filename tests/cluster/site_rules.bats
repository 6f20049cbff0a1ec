# What extensions have from their job and from the site: GPU type, features, reservation, account, comment, and no licence.
# n1 and n3 have the feature ib, n2 does not.
# box: -n 3 -c Licenses=solver:1 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'extensions.comment = "lent by the site"'
# limit: 900
# each: 300
# beside
# early

setup_file() {
  . "$BOX_HERE/training.bash"
  reference
  scontrol update NodeName=n1 Features=ib,old
  scontrol update NodeName=n2 Features=eth
  scontrol update NodeName=n3 Features=ib
}
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; scontrol delete ReservationName=course 2>/dev/null || true; }

# The job's extensions, one line each, with everything that Slurm says of them.
extensions_in_full() { for id in $(extensions_of "$A"); do scontrol -o show job "$id"; done; }
each_has() { # PATTERN: of every extension, of which there is at least one
  local all
  all=$(extensions_in_full)
  [ -n "$all" ] && ! grep -vE -- "$1" <<< "$all"
}

@test "extensions have their job's GPU type, features and account, and the site's comment; no licence; no node without the feature" {
  A=$(elastic A 2:8 -N1 -n1 -w n1 --gres=gpu:h100:2 -C ib -A physics -L solver:1 -- "${tiny[@]}" --steps 1000000)
  grows_to_eight 300
  extensions_in_full
  each_has ' (TresPerNode|TRESPerNode)=gres[:/]gpu:h100[:=][24]( |$)'
  each_has ' Features=ib( |$)'
  each_has ' Account=physics '
  each_has ' Licenses=\(null\) '
  each_has ' Comment=espalier:ext:[0-9]+:[0-9a-f]+ lent by the site( |$)'
  [ "$(extensions_of "$A" | xargs -n 1 squeue -h -o %N -j | sort -u | xargs)" = "n1 n3" ]
  # All of it went at once: no proposal for a node that Slurm refuses.
  refute grep -q 'not granted\|refused' "$BOX/home/A.out"
  goes_on_well
}

@test "a job that named no type and no feature has extensions without" {
  A=$(elastic A 2:8 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  grows_to_eight 300
  each_has ' (TresPerNode|TRESPerNode)=gres[:/]gpu[:=][24]( |$)'
  each_has ' Features=\(null\) '
  goes_on_well
}

@test "extensions of a job in a reservation are in it, on its nodes only" {
  scontrol create reservation ReservationName=course StartTime=now Duration=120 Users=boxuser Nodes=n1,n2
  # The planner reads reservations once a minute, and when it starts.
  "$BOX_HERE/planner.sh" stop
  "$BOX_HERE/planner.sh" start
  A=$(elastic A 2:8 -N1 -n1 -w n1 --gres=gpu:2 --reservation=course -- "${tiny[@]}" --steps 1000000)
  grows_to_eight 300
  extensions_in_full
  each_has ' Reservation=course( |$)'
  [ "$(extensions_of "$A" | xargs -n 1 squeue -h -o %N -j | sort -u | xargs)" = "n1 n2" ]
  goes_on_well
}

@test "show config names every key of espalier.toml(5)" {
  espalier show config --json > "$BOX/log/config.json"
  python3 - "$BOX_REPO/man/espalier.toml.5" "$BOX/log/config.json" <<'P'
import json, re, sys
known, section, keys = json.load(open(sys.argv[2])), "", []
for line in open(sys.argv[1]):
    if line.startswith(".SH"):
        section = (re.match(r"\.SH \[(\w+)\]", line) or ["", ""])[1]
    elif section and (key := re.match(r'\.BR (\w+) " = ', line)):
        keys.append(f"{section}.{key[1]}")
assert len(keys) > 60, keys
# A table that the site does not give has no keys.
missing = set(keys) - set(known) - {"objective.account_weights", "objective.qos_weights"}
assert not missing, missing
P
}

@test "the site's own constraint and account win over the job's" {
  cp /etc/espalier/espalier.toml "$BOX/share/before.toml"
  printf '%s\n' 'extensions.constraint = "eth"' 'extensions.account = "lent"' >> /etc/espalier/espalier.toml
  "$BOX_HERE/planner.sh" stop
  "$BOX_HERE/planner.sh" start
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -C ib -A physics -- "${tiny[@]}" --steps 1000000)
  status=0
  wait_for 120 "A runs on 4 GPUs" runs_on A 4 || status=$?
  cp "$BOX/share/before.toml" /etc/espalier/espalier.toml
  [ "$status" -eq 0 ]
  each_has ' Features=eth( |$)'
  each_has ' Account=lent '
  [ "$(extensions_of "$A" | xargs -n 1 squeue -h -o %N -j | sort -u | xargs)" = n2 ]
  espalier show config | grep -q 'extensions.constraint=eth'
  goes_on_well
  "$BOX_HERE/planner.sh" stop
}

@test "a node that Slurm keeps for one user is lent to another user only when it is open again" {
  other=$(as_user -u mallory sbatch --parsable -o /dev/null --exclusive=user -N1 -n1 -w n2 --gres=gpu:1 --wrap 'sleep 600')
  plain fill -N1 -n1 -w n3 --gres=gpu:4
  wait_for 30 "the other user's job runs" job_is "$other" RUNNING
  scontrol show node n2 | grep 'Owner=mallory'
  A=$(elastic A 2:8 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 200 "A runs on 4 GPUs" runs_on A 4
  sleep 10 # several polls, in which three GPUs of n2 are idle
  refute eval 'espalier show decisions --job "$A" --limit 50 --json | grep -q "\"node\": *\"n2\""'
  refute grep -q 'not granted\|refused' "$BOX/home/A.out"
  espalier explain "$A" | grep "cannot be on n2: .*Slurm keeps them for another user's jobs"
  scancel "$other"
  wait_for 200 "A has an extension on n2" eval 'squeue -h -p elastic -o %N | grep -qx n2'
  finish fill
  goes_on_well
}
