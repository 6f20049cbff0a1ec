# Sourced by the stand-in's bats files: the CUDA flavour on stand-ins for CUDA and NCCL, beside the CPU flavour.
root=$(realpath "$BATS_TEST_DIRNAME/../../..")
bats_require_minimum_version 1.5.0
source "$root/tests/torchrt/common.bash"
source "$root/tests/torchrt/plays.bash"
here=$root/tests/torchrt
case $BUILD in /*) built=$BUILD ;; *) built=$root/$BUILD ;; esac
director=$built/test/stage_director
alone=$built/bin/espalier-train        # trains what the losses are compared with
train=$built/test/espalier-train-standin
export STANDIN_GPUS=32                 # ranks without a launcher: all on one node
export LD_LIBRARY_PATH=$built/test/standin

ready() { # in setup
  cd "$BATS_FILE_TMPDIR" || return 1
  [ -x "$train" ] || skip "espalier-train-standin is not built: CUDA's or NCCL's headers are missing"
  STANDIN_FOLDER=$(mktemp -d "$BATS_FILE_TMPDIR/counts.XXXXXX")
  export STANDIN_FOLDER STANDIN_DOMAIN=${STANDIN_FOLDER##*.}
}
munged() { [ "$(id -u)" = 0 ] || skip "a private munged needs root"; }
# As the director places them: node a has GPUs 0 to 7, node b 8 to 15.
as_nodes() { export STANDIN_GPUS=32 STANDIN_NODE=8 STAGE_DIRECTOR_GPUS=8; }

weights() { # PROGRAM "MICRO_BATCHES STAGE..." ARGUMENTS...: the checksum after some steps
  local train=$1
  shift
  on_shape "$@" --checksum > weights.log 2>&1 || { cat weights.log >&2; return 1; }
  grep '^weights' weights.log
}
same_weights() { # "MICRO_BATCHES STAGE..." ARGUMENTS...: in both flavours
  local ours theirs
  theirs=$(weights "$alone" "$@") && ours=$(weights "$train" "$@") || return 1
  echo "$theirs, on the stand-in $ours"
  [ "$ours" = "$theirs" ]
}
# counted CALL...: how often all processes of this test have made these calls.
counted() {
  python3 - "$STANDIN_FOLDER" "$@" << 'PY'
import glob, struct, sys
total = {}
for name in glob.glob(sys.argv[1] + "/counts.*"):
    data = open(name, "rb").read()
    for at in range(0, len(data), 56):
        call = data[at:at + 48].split(b"\0")[0].decode()
        if call:
            total[call] = total.get(call, 0) + struct.unpack("<Q", data[at + 48:at + 56])[0]
print(sum(total.get(call, 0) for call in sys.argv[2:]))
PY
}
