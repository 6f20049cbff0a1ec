#!/usr/bin/env bats
# Pipelines of five to eight stages, of models whose layers they do not divide: the training is the same, bit for bit,
# whatever the schedule, the chunks, and the changes while it runs. Fewer stages are in chunks.bats.
# limit: 4200
# each: 1200

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  source "$BATS_TEST_DIRNAME/plays.bash"
  prepare
}

# Three sizes: layers, hidden, heads.
sizes=("11 32 4" "13 48 4" "19 64 8")
# same SIZE STAGES SCHEDULE CHUNKS: two steps and the weights, as of one rank with 1F1B.
same() {
  local layers hidden heads settings one
  read -r layers hidden heads <<< "$1"
  one=one-$layers
  settings=(--set model.layers="$layers" --set model.hidden="$hidden" --set model.heads="$heads" --steps 2 --checksum)
  [ -s "$one.jsonl" ] || ranks 1 "${settings[@]}" --metrics "$one.jsonl" > "$one.txt"
  rm -f it.jsonl
  ranks "$2" "${settings[@]}" --metrics it.jsonl --set "training.schedule=\"$3\"" --set "parallel.chunks=$4" > it.txt ||
    { echo "failed: $*"; return 1; }
  same_losses "$one.jsonl" it.jsonl || { echo "differs: $*"; return 1; }
  diff <(grep ^weights "$one.txt") <(grep ^weights it.txt) || { echo "differs: $*"; return 1; }
}

@test "bitwise: five to eight stages of eleven layers, one schedule each" {
  same "${sizes[0]}" 5 zb-v 2
  same "${sizes[0]}" 6 interleaved 2
  same "${sizes[0]}" 7 zb-h1 1
  same "${sizes[0]}" 8 gpipe 1
}

# part K: every eighteenth row, from the K-th on, of three sizes, five to eight stages, one to three chunks, and every schedule.
# Every sixth row where LONG is "all".
part() {
  local size pp name chunks row=0 each=18
  [ "${LONG:-all}" != all ] || each=6
  for size in "${sizes[@]}"; do
    for pp in 5 6 7 8; do
      while read -r name chunks; do
        [ $((row++ % each + 1)) != "$1" ] || same "$size" $pp "$name" "$chunks" || return 1
      done << 'TABLE'
1f1b 1
gpipe 2
interleaved 2
interleaved 3
zb-h2 1
zb-v 2
v-half 2
v-min 2
memory-min 1
TABLE
    done
  done
}
# bats test_tags=long:1
@test "bitwise: three sizes, five to eight stages, every schedule: part 1 of six" { part 1; }
# bats test_tags=long:2
@test "bitwise: three sizes, five to eight stages, every schedule: part 2 of six" { part 2; }
# bats test_tags=long:3
@test "bitwise: three sizes, five to eight stages, every schedule: part 3 of six" { part 3; }
# bats test_tags=long:4
@test "bitwise: three sizes, five to eight stages, every schedule: part 4 of six" { part 4; }
# bats test_tags=long:5
@test "bitwise: three sizes, five to eight stages, every schedule: part 5 of six" { part 5; }
# bats test_tags=long:6
@test "bitwise: three sizes, five to eight stages, every schedule: part 6 of six" { part 6; }

# stages LAYERS...: a plan of one GPU a stage.
stages() {
  local layers all=()
  for layers in "$@"; do all+=("$layers:2@a/${#all[@]}"); done
  plan "${all[@]}"
}

# bats test_tags=long:6
@test "bitwise: a run goes from five stages to eight, six and seven, under four schedules, and one changes in place" {
  local five
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  five=$(in_order "$(stages 2 2 2 1 1)" 4 gpipe 2 2 2 2 2)
  script "$five" 4 "$(in_order "$five" 8 zb-h1 1 1 1 1 1)" '{"in_place": true}' \
    12 "$(in_order "$(stages 1 1 1 1 1 1 1 1)" 4 zb-h1 2 2 2 2 2 2 2 2)" '{}' \
    20 "$(in_order "$(stages 1 2 1 2 1 1)" 4 zb-h2 2 2 2 2 2 2)" '{}' \
    28 "$(in_order "$(stages 1 1 2 1 1 1 1)" 4 1f1b 2 2 2 2 2 2 2)" '{}' > script.json
  play
  losses_as_alone
  acts 'len(acts) == 4 and acts[0]["in_place"]'
}
