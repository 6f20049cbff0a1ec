# The conformance suite of the worker protocol (espalier-launch conform), in its brief form, on both workers; and what it says
# of programs that are none. `make bench-pytorch` plays all of it.
# limit: 2400
# each: 900

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  prepare
}
launch=${BUILD:-build}/bin/espalier-launch
case $launch in /*) ;; *) launch=$(realpath "$BATS_TEST_DIRNAME/../..")/$launch ;; esac
# conform ARGUMENT...: shown as it comes, so that one that hangs shows where.
conform() {
  local status=0
  in_own_folder "$here/with_munge.sh" "$launch" conform "$@" > >(tee conform.out) 2>&1 || status=$?
  wait $! # for tee
  return $status
}
nothing_failed() { tail -n 1 conform.out | grep -E "^[0-9]+ passed, 0 failed, 0 skipped$"; }

@test "without munged no case is played, and munged is named" {
  in_own_folder unshare --mount bash -c 'mkdir -p /run/munge && mount -t tmpfs tmpfs /run/munge && exec "$@"' alone \
    "$launch" conform --brief -- /bin/true > alone.out 2>&1 && status=0 || status=$?
  cat alone.out
  [ "$status" = 2 ]
  grep -q 'espalier: launch: conform: munged does not answer.*; start munged' alone.out
}

@test "espalier-train conforms" {
  conform --brief --steps-option --steps -- "$train" small.toml --steps $((1000 * 1000))
  nothing_failed
}

@test "espalier-train goes on with another plan in place, or says why it cannot" {
  conform --only replan,replan-given-up,replan-moves --steps-option --steps -- "$train" small.toml --steps $((1000 * 1000))
  nothing_failed
}

# bats test_tags=long:2
@test "the example in C conforms" {
  conform --brief --steps-option --steps -- "$built/test/c_worker" --pause 0.05
  nothing_failed
  conform --only profile -- "$built/test/c_worker" --pause 0.05
  nothing_failed # it was not skipped
}

@test "the example in C changes the number of processes of a replica" {
  conform --only grow,shrink,change-of-unit -- "$built/test/c_worker" --pause 0.05 --units 2,1,3
  nothing_failed
  if conform --only login -- "$built/test/c_worker" --units 2,2; then false; fi
  grep -q 'hello.capabilities.units: names a number twice' conform.out
}

@test "the library refuses replica sizes that cannot be, in words" {
  python3 - "$built/lib/libespalier-worker.so" << 'P'
import ctypes, sys
class Program(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("global_batch", ctypes.c_int), ("total_steps", ctypes.c_int64), ("unit", ctypes.c_int),
                ("name", ctypes.c_char_p), ("start_seconds", ctypes.c_int), ("units", ctypes.POINTER(ctypes.c_int)), ("unit_count", ctypes.c_size_t)]
library = ctypes.CDLL(sys.argv[1])
library.espalier_join.restype, library.espalier_error.restype = ctypes.c_void_p, ctypes.c_char_p
def said(unit, units, count):
    program = Program(ctypes.sizeof(Program), 8, 10, unit, None, 0, units, count)
    assert library.espalier_join(ctypes.byref(program)) is None
    return library.espalier_error(None).decode()
some = (ctypes.c_int * 17)(*range(1, 18))
words = "espalier_join: units needs unit = 0 and a unit_count of 1 to 16"
assert said(2, some, 2) == words, said(2, some, 2)
assert said(0, None, 2) == words, said(0, None, 2)
assert said(0, some, 17) == words, said(0, some, 17)
assert "no launcher leads this process" in said(0, some, 16), said(0, some, 16)
P
}

@test "the library refuses to measure without what it needs, and says where a sum failed" {
  cat > refused.py << 'P'
import ctypes, sys
class Program(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("global_batch", ctypes.c_int), ("total_steps", ctypes.c_int64), ("unit", ctypes.c_int),
                ("name", ctypes.c_char_p), ("start_seconds", ctypes.c_int), ("units", ctypes.POINTER(ctypes.c_int)), ("unit_count", ctypes.c_size_t)]
Sum = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_double), ctypes.c_int, ctypes.c_void_p)
class Profile(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("gradient_bytes", ctypes.c_uint64), ("weight_bytes", ctypes.c_uint64), ("state_bytes", ctypes.c_uint64),
                ("sum", Sum), ("context", ctypes.c_void_p)]
library = ctypes.CDLL(sys.argv[1])
library.espalier_join.restype = ctypes.c_void_p
library.espalier_error.restype, library.espalier_error.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
library.espalier_computed.argtypes = library.espalier_summed.argtypes = [ctypes.c_void_p]
library.espalier_measure.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
library.espalier_report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_double]
worker = library.espalier_join(ctypes.byref(Program(ctypes.sizeof(Program), 8, 100)))
said = open(sys.argv[2], "a")
def tell(result): print(result, library.espalier_error(worker).decode(), file=said, flush=True)
def measure(size, sum): tell(library.espalier_measure(worker, ctypes.byref(Profile(size, 1, 1, 1, sum, None))))
fails = Sum(lambda values, count, context: 1)
tell(library.espalier_measure(worker, None))
measure(8, fails)
measure(5000, fails)
measure(ctypes.sizeof(Profile), Sum())
measure(ctypes.sizeof(Profile), fails)
for step in range(1, 7):
    library.espalier_computed(worker)
    library.espalier_summed(worker)
    result = library.espalier_report(worker, step, 1.0, 0.5)
tell(result)
measure(ctypes.sizeof(Profile), fails)
P
  conform --only start-more-fields -- python3 "$PWD/refused.py" "$built/lib/libespalier-worker.so" "$PWD/said" || true # it trains nothing
  cat said
  size='-1 espalier_measure: size must be sizeof(struct espalier_profile)'
  diff said - << T
$size
$size
$size
-1 espalier_measure: sum must be a function
0 espalier_measure: sum must be a function
-1 espalier_report: the program's sum over all processes has failed
-1 espalier_measure: comes before the first step
T
}

@test "the library exports the functions of its header and nothing else" {
  exported=$(nm -D --defined-only "$built/lib/libespalier-worker.so" | awk '{print $3}' | sort)
  [ "$exported" = "$(grep -o '\bespalier_[a-z_]*(' "$here/../../torchrt/c/espalier/worker.h" | tr -d '(' | sort -u)" ]
}

# bats test_tags=long:5
@test "the Python package conforms" {
  [ -e "${TORCH_HOME:-}/lib/libtorch_python.so" ] || skip "no torch for Python at TORCH_HOME"
  conform --brief --patience 200 --steps-option --steps -- "$here/../python/python.sh" "$here/../python/train.py" --steps 1000000 --pause 0.05
  nothing_failed
}

# bats test_tags=long:5
@test "a Python package that is older or newer than the launcher conforms" {
  [ -e "${TORCH_HOME:-}/lib/libtorch_python.so" ] || skip "no torch for Python at TORCH_HOME"
  for form in older-package,newer-launcher newer-package,older-launcher; do
    ESPALIER_TEST_FORM=$form conform --only start-more-fields,grow,shrink --patience 200 -- "$here/../python/python.sh" "$here/../python/versions.py" \
      --steps 1000000 --pause 0.05
    nothing_failed
  done
}

# bats test_tags=long:2
@test "the Python package changes from two stages to one process, and back" {
  [ -e "${TORCH_HOME:-}/lib/libtorch_python.so" ] || skip "no torch for Python at TORCH_HOME"
  conform --patience 200 --only change-of-unit -- "$here/../python/python.sh" "$here/../python/train.py" --kind blocks --width 16 --batch 8 \
    --layouts pp=2,tp=1 --steps 1000000 --pause 0.05
  nothing_failed
}

@test "a checkpoint that is asked for while all stand is written when they train on" {
  # Without being asked the example writes one after 50 steps; here it does not get so far.
  for case in checkpoint-standing checkpoint-before-switch start-checkpoint; do
    rm -f c.checkpoint
    conform --only $case -- "$built/test/c_worker" --pause 0.4 --checkpoint "$PWD/c.checkpoint"
    nothing_failed
    [ -s c.checkpoint ]
  done
  conform --only checkpoint-standing,checkpoint-before-switch,start-checkpoint -- "$train" small.toml --steps 1000000
  nothing_failed
}

@test "profiles of the Python package come also where a process steps no optimizer" {
  [ -e "${TORCH_HOME:-}/lib/libtorch_python.so" ] || skip "no torch for Python at TORCH_HOME"
  # Two replicas of two processes, of which one has nothing to step.
  conform --patience 200 --only profile -- "$here/../python/python.sh" "$here/../python/train.py" --kind tp --idle 1 --steps 1000000 --pause 0.05
  nothing_failed
}

@test "a program that speaks another protocol, none, or not at all fails in words" {
  run conform --only login,done --patience 2 -- sleep 60
  [ "$status" = 1 ]
  [[ $output == *"FAIL login: it logs in and says hello"*"not all ranks have said hello in time"* ]]
  [[ $output == *"skip done"*"needs --steps-option"*"0 passed, 1 failed, 1 skipped" ]]
  run conform --only login -- true
  [[ $output == *"rank 0 ended with code 0 before it said hello"*"0 passed, 1 failed, 0 skipped" ]]
}

@test "bad options are refused by name" {
  refused() { # MESSAGE ARGUMENT...
    local message=$1
    shift
    run "$launch" conform "$@"
    echo "$output"
    [ "$status" = 2 ]
    [[ $output == *"$message"* ]]
  }
  refused "no program given; it comes after --" --brief
  refused '"--quick": unknown option' --quick -- true
  refused '--patience: "soon" is not a number of seconds' --patience soon -- true
  refused '--patience: "-1" is not a number of seconds' --patience -1 -- true
  refused "--only: its value is missing" --only -- true
  refused '--only: there is no case "dance"; see --list' --only dance -- true
  refused "nowhere/at-all: No such file" -- nowhere/at-all
}

@test "it has at least 60 cases, and lists them" {
  run "$launch" conform --list
  [ "$status" = 0 ]
  [ "${#lines[@]}" -ge 60 ]
  [ "$(printf '%s\n' "${lines[@]}" | cut -d: -f1 | sort | uniq -d)" = "" ]
}
