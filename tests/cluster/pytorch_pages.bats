# PyTorch scripts with a state that is large enough to live in shared memory: its pages are handed over from generation to generation, on growth,
# when another job takes the GPUs, and after the loss of a worker. No step is missing, and the losses are those of one process.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# beside
# limit: 1800
# each: 700

wide=(--width 80000) # 65 MB with the moments; a quarter of the moments is enough for a process of FSDP2
setup_file() {
  . "$BOX_HERE/pytorch.bash"
  set_up_python
  script_options=("${wide[@]}")
  python_reference 400
}
setup() { . "$BOX_HERE/pytorch.bash"; use_python_itself; }
teardown() { clean_slate; }

# lives KIND GENERATION COUNT: so many processes of the generation map such memory, shared (s: their state lives in it) or private (p: they have taken it over).
lives() {
  local pid count=0
  for pid in $(processes python3 "ESPALIER_GENERATION=$2"); do
    ! grep -q "rw-$1 .*memfd:espalier-live" "/proc/$pid/maps" || count=$((count + 1))
  done
  [ "$count" -ge "$3" ]
}
hands_over() { # PROCESSES: of two whose state lives there
  local generation
  python_cast 2:4 --pause 3
  wait_for 100 "its state lives in shared memory" lives s 0 "$1"
  finish near
  wait_for 300 "A runs on 4 GPUs" runs_on A 4
  generation=$(metric A generation)
  wait_for 100 "the next generation's too" lives s "$generation" "$1"
  [ "$1" = 2 ] || lives p "$generation" 1 # the others have the old one's pages, where they have not written
  as_user espalier hold "$A"
  kill -KILL "$(processes python3 "ESPALIER_GENERATION=$generation" | head -n 1)"
  wait_for 300 "A trains in another generation" eval '[ "$(metric A generation)" -gt '"$generation"' ]'
  python_goes_on_well
}

# bats test_tags=long:5
@test "DistributedDataParallel: its pages are handed over, and a worker is killed" {
  script_options=("${wide[@]}")
  hands_over 1
}

# bats test_tags=long:4
@test "FSDP2: the pages of its moments are handed over, and a worker is killed" {
  script_options=("${wide[@]}" --kind fsdp)
  hands_over 2
}
