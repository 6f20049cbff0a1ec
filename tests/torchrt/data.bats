#!/usr/bin/env bats
# What is trained on: bytes and token files, the vocabulary, the validation set.
# limit: 1200
# each: 400

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
  python3 - << 'PY'
import array
text = open("text", "rb").read()
array.array("H", list(text)).tofile(open("text16.bin", "wb"))
array.array("I", list(text)).tofile(open("text32", "wb"))
tokens = array.array("H", list(text[:257]))  # eight samples: the first step uses all
tokens[100] = 300
tokens.tofile(open("foreign.bin", "wb"))
PY
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
}

@test "the same tokens give the same losses, in any format" {
  ranks 1 --metrics bytes.jsonl
  ranks 1 --metrics uint16.jsonl --data text16.bin
  ranks 2 --metrics uint32.jsonl --data text32 --set data.format=uint32
  same_losses bytes.jsonl uint16.jsonl
  same_losses bytes.jsonl uint32.jsonl
}

@test "a token beyond the vocabulary stops the training by file, position and id, when it is used" {
  run ranks 2 --data foreign.bin
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == *"data file foreign.bin: token 100: its id 300 is beyond the vocabulary of 256"* ]]
  ranks 1 --data foreign.bin --set model.vocabulary=301 --steps 2
}

@test "a token file shorter than one sample, or no whole number of tokens, is refused" {
  head -c 64 text16.bin > short.bin
  run ranks 2 --data short.bin
  [[ "$output" == *"data file short.bin: has 32 tokens, one sample needs 33; give a longer file or a shorter model.sequence"* ]]
  head -c 101 text16.bin > odd.bin
  run ranks 2 --data odd.bin
  [[ "$output" == *"data file odd.bin: has 101 bytes, no whole number of tokens of 2 bytes; set data.format"* ]]
}

@test "the validation loss does not depend on the layout, and changes nothing" {
  local validation=(--set data.validation=text --set data.validate_every=5 --set data.validation_samples=16)
  plan 3:1@a/0,1@a/1 5:2@b/0 > replicas.json
  ranks 1 "${validation[@]}" --metrics one.jsonl --checksum > one.log
  ranks 3 --plan replicas.json "${validation[@]}" --metrics three.jsonl --checksum > three.log
  ranks 1 --checksum > without.log
  diff one.log three.log
  diff one.log without.log
  python3 - << 'PY'
import json
one, three = ([(line["step"], line["validation_loss"], line["validation_samples"])
               for line in map(json.loads, open(name)) if "validation_loss" in line] for name in ("one.jsonl", "three.jsonl"))
assert one == three, (one, three)
assert [line[0] for line in one] == [5, 10, 12] and one[0][2] == 16, one
assert 2 < one[2][1] < one[0][1] < 6, one
PY
}

@test "a validation file that is too short is refused" {
  head -c 400 text > few
  run ranks 2 --set data.validation=few --set data.validation_samples=16
  [ "$status" != 0 ]
  [[ "$output" == *"data file few: has 12 samples, data.validation_samples is 16"* ]]
}

@test "a validation tells the launcher that it gets on, and its step is told before it" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  echo "{\"first\": $(plan 4:2@a/0 4:2@a/1), \"acts\": []}" > script.json
  STAGE_DIRECTOR_SECONDS=380 timeout -k 5 400 "$here/with_munge.sh" "$director" script.json summary.json -- \
    "$train" small.toml --set data.validation=text --set data.validate_every=5 --set data.validation_samples=64 --metrics told.jsonl
  python3 - << 'PY'
import json
progressed = json.load(open("summary.json"))["progressed"]
assert progressed and set(progressed) <= {5, 10, 12}, progressed
assert [line["step"] for line in map(json.loads, open("told.jsonl")) if "validation_loss" in line] == [5, 10, 12]
PY
}
