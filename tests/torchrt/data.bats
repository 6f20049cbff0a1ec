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

# on_files FIRST SECOND ARGUMENTS...: two ranks, each with files of its own
on_files() {
  local first second
  read -ra first <<< "$1"; read -ra second <<< "$2"; shift 2
  in_own_folder timeout -k 5 300 mpirun --oversubscribe --bind-to none -np 1 "$train" small.toml "${first[@]}" "$@" \
    : -np 1 "$train" small.toml "${second[@]}" "$@" < /dev/null
}

@test "ranks that see different data end before the first step, by rank, host and size" {
  head -c 50000 text > stale
  run on_files "--data text" "--data stale" --metrics differ.jsonl
  echo "$output"
  [ "$status" != 0 ]
  [ ! -s differ.jsonl ]
  [[ $output == *"data file: rank 0 on $(hostname) reads text ($(stat -c %s text) bytes, format bytes, checksum "*", rank 1 on $(hostname) reads stale (50000 bytes, "*"; give all nodes the same file"* ]]
  cp text copy
  on_files "--data text" "--data copy" --steps 2
  cp text other
  printf x | dd of=other bs=1 seek=$(($(stat -c %s text) - 1)) conv=notrunc status=none # of the same size
  run on_files "--set data.validation=text" "--set data.validation=other"
  echo "$output"
  [ "$status" != 0 ]
  [[ $output == *"validation file: rank 0 on "* ]]
}

@test "a training is not resumed with data that has changed, unless data.changed says so" {
  local saving=(--set checkpoint.directory=kept --set checkpoint.every=4)
  rm -rf kept
  cp text growing
  ranks 2 --data growing "${saving[@]}" --steps 4
  echo "One more sentence." >> growing
  run ranks 1 --data growing "${saving[@]}"
  echo "$output"
  [ "$status" != 0 ]
  [[ $output == *"checkpoint kept/step-4: was written with the data file growing ($(stat -c %s text) bytes, "*"), now it is growing ($(stat -c %s growing) bytes, "*"); restore the file, or set data.changed = true to go on with this one"* ]]
  run ranks 2 --data growing "${saving[@]}" --set data.changed=true --steps 8
  echo "$output"
  [ "$status" = 0 ]
  [[ $output == *"; training goes on with this one, because data.changed = true"* ]]
  ranks 1 --data growing "${saving[@]}" # the newest checkpoint knows the file
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

@test "a validation in a pipeline keeps no micro-batch's activations that were sent" {
  # Behind each of 128 samples 256 KiB go to the next stage: 32 MiB, if all were kept.
  cat > wide.toml << 'TOML'
[model]
family = "llama"
layers = 2
hidden = 512
heads = 8
intermediate = 64
sequence = 128
[training]
steps = 1
global_batch = 128
micro_batches = 128
learning_rate = 1e-3
recompute = true
[data]
path = "text"
TOML
  cat > peak.py << 'PY'
import os, resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    open("peak", "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
PY
  peak() { # ARGUMENTS...: of rank 0, in KiB
    in_own_folder timeout -k 5 300 mpirun --oversubscribe --bind-to none -np 2 python3 peak.py "$train" wide.toml \
      --plan halves.json "$@" < /dev/null
  }
  python3 -c 'import json; print(json.dumps({"global_batch": 128, "micro_batches": 128, "stages": [
    {"layers": 1, "tp": 1, "replicas": [{"share": 1, "gpus": ["a/%d" % gpu]}]} for gpu in (0, 1)]}))' > halves.json
  peak
  local without
  without=$(< peak)
  peak --set data.validation=text --set data.validate_every=1 --set data.validation_samples=128
  echo "rank 0's peak without a validation $without KiB, with one $(< peak) KiB"
  [ $(($(< peak) - without)) -lt 16000 ]
}

@test "a validation file that is too short is refused" {
  head -c 400 text > few
  run ranks 2 --set data.validation=few --set data.validation_samples=16
  [ "$status" != 0 ]
  [[ "$output" == *"data file few: has 12 samples, data.validation_samples is 16"* ]]
}

@test "a validation that is stopped, and that the same ranks go on with, goes on where it was stopped: the loss is the same bit for bit" {
  rm -f stopped.jsonl
  in_own_folder timeout -k 5 300 mpirun --oversubscribe --bind-to none -np 2 "$built/test/stopped" small.toml metrics.path=stopped.jsonl \
    data.validation=text data.validate_every=5 data.validation_samples=64 < /dev/null
  python3 - << 'PY'
import json
at_one_go, stopped = (json.loads(line)["validation_loss"] for line in open("stopped.jsonl"))
assert at_one_go == stopped > 0, (at_one_go, stopped)
PY
}

# Its validations are those after step 10, where it was made before, and after the last one.
@test "a job that starts from a checkpoint makes that step's validation where its metrics file lacks it, and not without such a file" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  rm -rf kept again.jsonl
  ranks 2 --set checkpoint.directory=kept --set checkpoint.every=10 --keep 9 --set device.gflops=4
  rm -r kept/step-12
  cp -r kept start
  echo "{\"first\": $(plan 4:2@a/0 4:2@a/1), \"acts\": []}" > script.json
  local metrics
  for metrics in "" "--metrics again.jsonl"; do
    rm -r kept; cp -r start kept
    # shellcheck disable=SC2086
    STAGE_DIRECTOR_SECONDS=380 timeout -k 5 400 "$here/with_munge.sh" "$director" script.json summary.json -- \
      "$train" small.toml --set checkpoint.directory=kept --set data.validation=text --set data.validate_every=5 \
      --set data.validation_samples=64 --set metrics.progress_every=1 $metrics > again.log 2>&1
    cat again.log
    grep -q 'resumes after step 10, from kept/step-10' again.log
    [ "$(grep -o 'step [0-9]*/12  validation loss' again.log | grep -o ' [0-9]*/' | tr -d ' /\n')" = "${metrics:+10}12" ]
  done
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
