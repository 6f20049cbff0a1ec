#!/usr/bin/env bats
# Schedules go to torch.distributed.pipelining and come from there, through `espalier schedule`, and are trained.
# limit: 1800
# each: 600

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  cd "$BATS_FILE_TMPDIR" || return 1
  write_inputs
  python=${TORCH_HOME:?}/../bin/python
  export python
  "$python" -c 'import torch.distributed.pipelining.schedules' 2>/dev/null || return 0
  mkdir theirs ours
  "$python" "$here/schedules.py" write theirs > count
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  espalier=$built/bin/espalier
  cd "$BATS_FILE_TMPDIR" || return 1
  [ -x "$espalier" ] || skip "espalier is not built"
  [ -s count ] || skip "this Python has no torch.distributed.pipelining; make deps gets it"
}

@test "every schedule that torch generates is read, sound, and has torch's number of micro-batches" {
  local file count=0 micro_batches
  for file in theirs/*.csv; do
    "$espalier" schedule --file "$file" --json > result.json || { echo "$file"; return 1; }
    micro_batches=$(sed 's/.*-m\([0-9]*\)-.*/\1/' <<< "$file")
    grep -q "\"micro_batches\": $micro_batches,\$" result.json || grep -q "\"micro_batches\": $micro_batches\$" result.json
    count=$((count + 1))
  done
  [ "$count" = "$(cat count)" ]
  [ "$count" -gt 100 ]
}

@test "a schedule of torch's that torch itself would not run is refused" {
  local file
  for file in theirs/refused/*.csv; do
    [ -e "$file" ] || skip "this torch has none"
    run "$espalier" schedule --file "$file"
    [ "$status" = 1 ]
    [[ $output == "espalier: $file: row "* ]]
  done
}

@test "every schedule of ours loads in torch's runtime, which adds the communication" {
  local kind ranks chunks
  for ranks in 2 3 8; do
    for kind in 1f1b zb-h1 zb-h2 zb-v v-half v-min gpipe interleaved memory-min; do
      "$espalier" schedule --ranks $ranks --micro-batches 11 --kind $kind --csv ours/$kind-$ranks.csv > /dev/null
    done
    for kind in gpipe interleaved memory-min; do
      for chunks in 3 4; do
        "$espalier" schedule --ranks $ranks --micro-batches 11 --kind $kind --chunks $chunks \
          --csv ours/$kind-$ranks-$chunks.csv > /dev/null
      done
    done
  done
  "$espalier" schedule --ranks 4 --micro-batches 8 --search --memory 2 --forward 1,1,2,1 --effort 0.1 --csv ours/searched.csv > /dev/null
  "$python" "$here/schedules.py" load ours/*.csv
}

@test "times of torch's ZBV, 1F1B and interleaved schedules are those of ours" {
  local pair time
  for pair in ScheduleInterleaved1F1B-p8-m16-v1:1f1b ScheduleZBVZeroBubble-p8-m16-v2:zb-v ScheduleInterleaved1F1B-p8-m16-v2:interleaved; do
    "$espalier" schedule --file "theirs/${pair%:*}.csv" --json > theirs.json
    "$espalier" schedule --ranks 8 --micro-batches 16 --kind "${pair#*:}" --json > ours.json
    time=$(grep '"time"' theirs.json)
    echo "$pair: $time"
    [ "$time" = "$(grep '"time"' ours.json)" ]
  done
}

@test "a schedule that loses a backward is refused, with the row and what is missing" {
  printf '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,\n' > lost.csv
  run "$espalier" schedule --file lost.csv
  [ "$status" = 1 ]
  [ "$output" = "espalier: lost.csv: row 2: 1B1 is missing: the chunk never runs backward on the micro-batch" ]
}

# Lists of torch's, without communication, by RANKS:MICRO_BATCHES.
lists_of() {
  local shape
  for shape in "$@"; do ls theirs/*-p"${shape%:*}"-m"${shape#*:}"-v?.csv; done
}
# Trains two steps by each list, a micro-batch of one sample: losses and weights, bit for bit as of one rank in 1F1B.
trained() { # FILE...
  local file shape ranks batch count=0 settings=(--set model.layers=16 --set model.hidden=32 --steps 2 --checksum)
  [ -x "$train" ] || skip "espalier-train is not built"
  for file in "$@"; do
    shape=${file#*-p}
    ranks=${shape%%-*}
    shape=${shape#*-m}
    batch=(--set "training.global_batch=${shape%%-*}" --set "training.micro_batches=${shape%%-*}")
    [ -s "one-${shape%%-*}.jsonl" ] ||
      ranks 1 "${settings[@]}" "${batch[@]}" --metrics "one-${shape%%-*}.jsonl" > "one-${shape%%-*}.txt"
    rm -f it.jsonl
    ranks "$ranks" "${settings[@]}" "${batch[@]}" --schedule "$file" --metrics it.jsonl > it.txt || { echo "failed: $file"; return 1; }
    same_losses "one-${shape%%-*}.jsonl" it.jsonl || { echo "differs: $file"; return 1; }
    diff <(grep ^weights "one-${shape%%-*}.txt") <(grep ^weights it.txt) || { echo "differs: $file"; return 1; }
    count=$((count + 1))
  done
  echo "# $count lists of torch's were trained" >&3
}

@test "a list of each of torch's generators is trained, also one whose backwards come last to first" {
  local kind files=()
  for kind in 1F1B GPipe LoopedBFS Interleaved1F1B InterleavedZeroBubble ZBVZeroBubble; do
    mapfile -t -O ${#files[@]} files < <(ls theirs/Schedule$kind-p2-m4-v?.csv | tail -n 1)
  done
  [ ${#files[@]} = 6 ] || [ ${#files[@]} = 5 ] # torch 2.11 refuses its own list of 1F1B
  grep -q '1B3,1B2' theirs/ScheduleLoopedBFS-p2-m4-v1.csv
  trained "${files[@]}"
}

# bats test_tags=long:4
@test "lists of torch's generators are trained: 1F1B, GPipe, looped, interleaved, zero-bubble and V, bit for bit as 1F1B" {
  local kind files
  mapfile -t files < <(lists_of 2:4 4:8)
  for kind in GPipe LoopedBFS Interleaved1F1B InterleavedZeroBubble ZBVZeroBubble; do
    grep -q "Schedule$kind-" <<< "${files[*]}"
  done
  trained "${files[@]}"
}

# bats test_tags=long:1
@test "lists of torch's generators for other shapes are trained" {
  local files
  mapfile -t files < <(lists_of 2:8 3:6 4:12 8:16 | grep -v "p8-m16-v[34]") # of 24 and 32 chunks, for 16 layers
  trained "${files[@]}"
}
