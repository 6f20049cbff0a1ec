# Sourced by the runtime's bats files: a small model, text to train on, plans in short, and comparisons of losses.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
here=$BATS_TEST_DIRNAME
case ${BUILD:=build} in /*) built=$BUILD ;; *) built=$(realpath "$here/../..")/$BUILD ;; esac
train=$built/bin/espalier-train
director=$built/test/stage_director

prepare() {
  cd "$BATS_FILE_TMPDIR" || return 1
  [ -x "$train" ] || skip "espalier-train is not built"
}

# Once per file. The text has structure to learn, and is always the same: what is trained must not depend on who edits what.
write_inputs() {
  cd "$BATS_FILE_TMPDIR" || return 1
  python3 - > text << 'PY'
import random
chance = random.Random(1)
syllables = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
words = ["".join(chance.choices(syllables, k=1 + n % 3)) for n in range(300)]
for _ in range(6000):
    sentence = " ".join(chance.choices(words, [1 / (n + 1) for n in range(300)], k=4 + int(8 * chance.random())))
    print(sentence.capitalize() + ".")
PY
  cat > small.toml << 'TOML'
[model]
layers = 8
hidden = 64
heads = 4
sequence = 32
[training]
steps = 12
global_batch = 8
micro_batches = 4
learning_rate = 3e-3
warmup_steps = 4
[data]
path = "text"
[metrics]
progress_every = 0
TOML
}

# Each in a folder of its own: an mpirun that ends removes the one it shares while the next makes it. The runner's choice
# for all of them would come before TMPDIR.
in_own_folder() { # COMMAND...
  local own
  own=$(mktemp -d) || return 1
  OMPI_MCA_orte_tmpdir_base=$own OMPI_MCA_btl_vader_backing_directory=$own TMPDIR=$own "$@"
}
# mpirun reads what is on its standard input: a table that a test reads its rows from would end with the first row.
ranks() { # NUMBER ARGUMENTS...: standalone training
  local number=$1
  shift
  in_own_folder timeout -k 5 300 mpirun --oversubscribe --bind-to none -np "$number" "$train" small.toml "$@" < /dev/null
}

# shape MICRO_BATCHES STAGE...: a stage is LAYERSxTP:SHARE[,SHARE...]. Prints the plan's JSON; GPUs are numbered through.
shape() {
  python3 - "$@" << 'PY'
import json, sys
stages, used = [], 0
for text in sys.argv[2:]:
    size, shares = text.split(":")
    layers, tp = map(int, size.split("x"))
    stages.append({"layers": layers, "tp": tp, "replicas": []})
    for share in shares.split(","):
        gpus = [f"a/{used + t}" for t in range(tp)]
        used += tp
        stages[-1]["replicas"].append({"share": int(share), "gpus": gpus})
print(json.dumps({"global_batch": 8, "micro_batches": int(sys.argv[1]), "stages": stages}))
PY
}

# on_shape "MICRO_BATCHES STAGE..." ARGUMENTS...: trains on such a plan, one rank for each of its GPUs.
on_shape() {
  local file=shape-$BATS_TEST_NUMBER.json words
  read -ra words <<< "$1"; shift
  shape "${words[@]}" > "$file"
  ranks "$(grep -o '"a/' "$file" | wc -l)" --plan "$file" "$@"
}

# plan STAGE...: a stage is LAYERS:SHARE@NODE/GPU[+GPU...][,SHARE@NODE/GPU...]; with GPUs added, TP. Prints the plan's JSON.
plan() {
  python3 - "$@" << 'PY'
import json, sys
stages = []
for text in sys.argv[1:]:
    layers, replicas = text.split(":")
    stages.append({"layers": int(layers), "replicas": []})
    for share, gpus in (replica.split("@") for replica in replicas.split(",")):
        node, numbers = gpus.split("/")
        stages[-1]["replicas"].append({"share": int(share), "gpus": [f"{node}/{n}" for n in numbers.split("+")]})
    stages[-1]["tp"] = len(stages[-1]["replicas"][0]["gpus"])
print(json.dumps({"global_batch": 8, "micro_batches": 4, "stages": stages}))
PY
}

# same_losses A B [TOLERANCE]: every step once, in order, equal losses: bit for bit, or within a relative tolerance.
same_losses() {
  python3 - "$@" << 'PY'
import json, sys
a, b = ([json.loads(line) for line in open(name)] for name in sys.argv[1:3])
tolerance = float(sys.argv[3]) if len(sys.argv) > 3 else 0
for name, lines in zip(sys.argv[1:3], (a, b)):
    if [line["step"] for line in lines] != list(range(1, len(lines) + 1)):
        sys.exit(f"{name}: steps are not 1, 2, ...: {[line['step'] for line in lines]}")
if len(a) != len(b) or not a:
    sys.exit(f"{len(a)} and {len(b)} steps")
for x, y in zip(a, b):
    difference = abs(x["loss"] - y["loss"]) / x["loss"]
    if difference > tolerance:
        sys.exit(f"step {x['step']}: {x['loss']!r} and {y['loss']!r}, relative difference {difference:.3g}")
PY
}
# chunked PLAN SCHEDULE STAGE:LAYERS...: the plan with these chunks and this schedule.
chunked() {
  python3 - "$@" << 'PY'
import json, sys
plan = json.loads(sys.argv[1])
plan["schedule"] = sys.argv[2]
plan["chunks"] = [dict(zip(("stage", "layers"), map(int, text.split(":")))) for text in sys.argv[3:]]
for stage, entry in enumerate(plan["stages"]):
    entry["layers"] = sum(chunk["layers"] for chunk in plan["chunks"] if chunk["stage"] == stage)
print(json.dumps(plan))
PY
}

# in_order PLAN MICRO_BATCHES SCHEDULE SHARES...: the plan in other micro-batches; SHARES of a stage's replicas, as 3+1.
in_order() {
  python3 - "$@" << 'PY'
import json, sys
plan = json.loads(sys.argv[1])
plan["micro_batches"], plan["schedule"] = int(sys.argv[2]), sys.argv[3]
for stage, shares in zip(plan["stages"], sys.argv[4:]):
    for replica, share in zip(stage["replicas"], shares.split("+")):
        replica["share"] = int(share)
print(json.dumps(plan))
PY
}
