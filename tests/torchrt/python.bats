# The Python package outside Slurm: its unit tests, and plain process groups whose losses are those of one process.
# limit: 900
# each: 600

setup() {
  cd "$BATS_TEST_DIRNAME/../.."
  [ -e "${TORCH_HOME:-}/lib/libtorch_python.so" ] || skip "no torch for Python at TORCH_HOME"
  python=tests/python/python.sh
}

@test "slices, frames, memory, state and bad input of each" {
  run "$python" tests/python/test_espalier.py
  echo "$output"
  [ "$status" -eq 0 ]
}

# group WORLD OUT ARGUMENT...: as torchrun would start them.
group() {
  local world=$1 out=$2 rank pids=()
  shift 2
  local port
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  for ((rank = 0; rank < world; rank++)); do
    env RANK=$rank WORLD_SIZE="$world" LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" timeout 300 "$python" tests/python/train.py \
      --metrics "$out" --steps 40 --pause 0 --batch 25 "$@" & pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank"; done
}

@test "three processes with 9, 8 and 8 samples, whole or in parts of 3, do what one process does" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 3 "$BATS_TEST_TMPDIR/three.jsonl"
  group 3 "$BATS_TEST_TMPDIR/parts.jsonl" --most 3
  for run in three parts; do
    python3 tests/python/losses.py "$BATS_TEST_TMPDIR/$run.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
    [ "$(wc -l < "$BATS_TEST_TMPDIR/$run.jsonl")" = 40 ]
  done
}

@test "a training that is started again goes on from its checkpoint" {
  group 1 "$BATS_TEST_TMPDIR/one.jsonl"
  group 1 "$BATS_TEST_TMPDIR/two.jsonl" --checkpoint "$BATS_TEST_TMPDIR/c" --every 15 --fail-at 33 || true
  group 1 "$BATS_TEST_TMPDIR/two.jsonl" --checkpoint "$BATS_TEST_TMPDIR/c" --every 15
  [ "$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BATS_TEST_TMPDIR/two.jsonl" | uniq | sed -n 33p)" = 31 ]
  python3 tests/python/losses.py "$BATS_TEST_TMPDIR/two.jsonl" "$BATS_TEST_TMPDIR/one.jsonl" 25
}
