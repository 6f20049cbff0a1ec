#!/usr/bin/env bats
# Whatever the pipeline's schedule and however the layers are cut into chunks, the training is the same. Plain mpirun and
# the stage director.
# limit: 2400
# each: 900

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
  [ -x "$train" ] || return 0
  ranks 1 --steps 4 --checksum --metrics one.jsonl > one.txt
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  source "$BATS_TEST_DIRNAME/plays.bash"
  prepare
}

# same RANKS|SHAPE ARGUMENTS...: losses of every step and the weights, bit for bit as of one rank with 1F1B.
same() {
  rm -f it.jsonl
  local run=on_shape
  [[ "$1" == *" "* ]] || run=ranks
  "$run" "$1" --steps 4 --checksum --metrics it.jsonl "${@:2}" > it.txt || { echo "failed: $*"; return 1; }
  same_losses one.jsonl it.jsonl && diff <(grep ^weights one.txt) <(grep ^weights it.txt) || { echo "differs: $*"; return 1; }
}

# A third of the rows in each run, by its number; all of them where LONG is "all".
@test "bitwise: one to four stages under every schedule, one to three chunks" {
  local pp name chunks row=0
  for pp in 1 2 3 4; do
    while read -r name chunks; do
      [ "${LONG:-all}" = all ] || [ $((row++ % 3)) = $((LONG % 3)) ] || continue
      same "$pp" --set "training.schedule=\"$name\"" --set "parallel.chunks=$chunks"
    done << 'TABLE'
1f1b 1
gpipe 1
gpipe 2
interleaved 2
interleaved 3
zb-h1 1
zb-h2 1
zb-v 2
v-half 2
v-min 2
TABLE
  done
}

@test "bitwise: chunks with unequal replicas, ZeRO-1, recomputing" {
  same "2 4x1:1,3 4x1:2,2" --set 'training.schedule="interleaved"'
  same "2 3x1:4 2x1:1,2,1 3x1:3,1" --set 'training.schedule="interleaved"' --set training.zero1=true
  same "4 5x1:1,1 3x1:2" --set 'training.schedule="zb-v"' --set training.zero1=true
  same "4 4x1:2 4x1:1,1" --set 'training.schedule="zb-h1"' --set training.recompute=true
  same "8 4x1:1 4x1:1" --set 'training.schedule="v-half"' --set training.recompute=true
}

# bats test_tags=long:6
@test "relaxed: chunks with tensor parallelism of different degrees and tied tables" {
  local relaxed=(--steps 6 --set 'training.accuracy="relaxed"' --set training.learning_rate=1e-3)
  rm -f relaxed.jsonl it.jsonl
  ranks 1 "${relaxed[@]}" --metrics relaxed.jsonl
  on_shape "4 4x2:2 4x1:1,1" "${relaxed[@]}" --metrics it.jsonl --set 'training.schedule="interleaved"'
  same_losses relaxed.jsonl it.jsonl 1e-5
  rm -f it.jsonl
  on_shape "4 3x1:1,1 5x2:2" "${relaxed[@]}" --metrics it.jsonl --set 'training.schedule="zb-v"'
  same_losses relaxed.jsonl it.jsonl 1e-5
}

@test "bitwise: an embedding and a head as chunks of their own, uneven chunks" {
  chunked "$(shape 4 4x1:2 4x1:2)" interleaved 0:0 1:3 0:5 1:0 > apart.json
  rm -f it.jsonl
  ranks 2 --plan apart.json --steps 4 --checksum --metrics it.jsonl > it.txt
  same_losses one.jsonl it.jsonl
  diff <(grep ^weights one.txt) <(grep ^weights it.txt)
}

# Of one-validated.jsonl and it.jsonl.
same_validation_losses() {
  python3 -c '
import json
losses = [[line["validation_loss"] for line in map(json.loads, open(name)) if "validation_loss" in line] for name in ("one-validated.jsonl", "it.jsonl")]
assert losses[0] and losses[0] == losses[1], losses'
}

@test "bitwise: validation runs forward through the chunks" {
  python3 -c 'print(open("text").read()[:20000])' > held
  local validation=(--set data.validation=held --set data.validate_every=2)
  rm -f one-validated.jsonl it.jsonl
  ranks 1 --steps 4 "${validation[@]}" --metrics one-validated.jsonl
  ranks 2 --steps 4 "${validation[@]}" --metrics it.jsonl --set 'training.schedule="zb-v"'
  same_validation_losses
}

# One rank computes all micro-batches of its first chunk before any of its second.
@test "bitwise: validation keeps the outputs that a later chunk of the rank takes" {
  python3 -c 'print(open("text").read()[:20000])' > held
  local validation=(--set data.validation=held --set data.validate_every=2)
  rm -f one-validated.jsonl it.jsonl
  ranks 1 --steps 4 "${validation[@]}" --metrics one-validated.jsonl
  ranks 1 --steps 4 "${validation[@]}" --metrics it.jsonl --set 'training.schedule="gpipe"' --set parallel.chunks=2
  same_validation_losses
}

# bats test_tags=long:3
@test "bitwise: generations of different schedules and chunks take over from each other" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  local two four three
  two=$(chunked "$(plan 4:2@a/0 4:2@a/1)" interleaved 0:2 1:2 0:2 1:2)
  four=$(chunked "$(plan 2:2@a/0 2:2@a/1 2:2@b/0 2:2@b/1)" zb-v 0:1 1:1 2:1 3:1 3:1 2:1 1:1 0:1)
  three=$(plan 3:2@a/0 3:1@a/1,1@b/0 2:2@b/1)
  python3 - "$two" "$four" "$three" > script.json << 'PY'
import json, sys
two, four, three = map(json.loads, sys.argv[1:])
print(json.dumps({"first": two, "acts": [{"after": after, "plan": plan, "abort": None}
                                         for after, plan in ((5, four), (30, three), (55, two))]}))
PY
  play
  losses_as_alone
  acts 'len(acts) == 3 and acts[0]["bytes_sent"] > 0'
}

@test "a checkpoint of one layout of chunks is read by another" {
  rm -rf saved it.jsonl
  ranks 2 --steps 2 --set checkpoint.directory=saved --set checkpoint.every=2 --set 'training.schedule="zb-v"'
  ranks 3 --steps 4 --checksum --set checkpoint.directory=saved --metrics it.jsonl > it.txt
  diff <(grep ^weights one.txt) <(grep ^weights it.txt)
}

# A list that no generator makes: 2 ranks, 4 chunks round them, 4 micro-batches, all forwards, then backwards in parts.
write_schedule() {
  python3 - > mine.csv << 'PY'
for rank in (0, 1):
    row = [f"{chunk}F{m}" for chunk in (rank, rank + 2) for m in range(4)]
    row += [f"{chunk}I{m}" for chunk in (rank + 2, rank) for m in range(4)]
    row += [f"{chunk}W{m}" for m in range(4) for chunk in (rank, rank + 2)]
    print(",".join(row))
PY
}

@test "a schedule from a file is printed, runs, and changes no bit" {
  write_schedule
  run "$train" small.toml --schedule mine.csv --print-schedule 2
  echo "$output"
  [ "$status" = 0 ]
  [[ "$output" == *"4@0"* || "$output" == *"2@0+2@1+2@0+2@1 layers"* ]]
  [[ "$output" == *"backward 3 chunk 0"*"weight gradient 0 chunk 0"*"weight gradient 0 chunk 2"* ]]
  same 2 --schedule mine.csv
}

# refused TEXT ARGUMENTS...: two ranks say so and leave.
refused() {
  run ranks 2 "${@:2}"
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == *"$1"* ]]
}

@test "a schedule file that cannot be read is refused" {
  refused "--schedule nowhere.csv: cannot be read" --schedule nowhere.csv
  refused "--schedule .: is a folder; name a CSV file" --schedule .
}
@test "a schedule file with a missing operation is refused" {
  write_schedule
  sed -i '1s/,0W3//' mine.csv
  refused "--schedule mine.csv: row 1: 0W3 is missing: the gradient of the parameters is never computed" --schedule mine.csv
}
@test "a schedule file with a doubled operation is refused" {
  write_schedule
  sed -i '1s/0F1/0F1,0F1/' mine.csv
  refused "--schedule mine.csv: row 1, column 3 (0F1): it is there twice" --schedule mine.csv
}
@test "a schedule file that cannot end is refused" {
  write_schedule
  sed -i '1s/,2F0//; 1s/^/2F0,/' mine.csv
  refused "--schedule mine.csv: row 1, column 1 (2F0): deadlock: it waits for forward of chunk 1 on micro-batch 0, which rank 1 never reaches" \
    --schedule mine.csv
}
@test "a schedule file for another number of ranks is refused" {
  write_schedule
  run ranks 3 --schedule mine.csv
  [ "$status" != 0 ]
  [[ "$output" == *"the file is for 4 micro-batches and chunks on the stages 0 1 0 1, the plan has 4 and 0 1 2 0 1 2"* ]]
}
@test "a plan with a chunk that is nowhere is refused" {
  chunked "$(shape 4 4x1:2 4x1:2)" interleaved 0:2 1:2 0:2 1:2 | sed 's/"stage": 1, "layers": 2}]/"stage": 7, "layers": 2}]/' > nowhere.json
  refused "chunk 3 is on stage 7, the plan has 2 stages" --plan nowhere.json
}
@test "a plan whose chunks do not suit the schedule is refused" {
  chunked "$(shape 4 4x1:2 4x1:2)" zb-v 0:2 1:2 0:2 1:2 > looped.json
  refused 'schedule: "zb-v" wants its chunks on the stages 0 1 1 0, the plan has them on 0 1 0 1' --plan looped.json
}
@test "a number of chunks that the schedule cannot run is refused" {
  refused 'parallel.chunks: is 2; training.schedule = "1f1b" has 1 chunk on each stage' --set parallel.chunks=2
}
