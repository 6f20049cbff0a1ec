"""count.py BUILD CASES BITWISE_PASSES: what a step and a hand-off ask of CUDA and NCCL, as the stand-ins count it. A step's figures are
the difference between two runs of different lengths, so that what happens once cancels out. Writes BUILD/bench/gpu-standin.json."""

import glob
import json
import os
import struct
import subprocess
import sys
import tempfile

SHAPES = {"pp2 dp2 tp1": (4, "4x1:1,1 4x1:1,1"), "dp1 tp2": (4, "8x2:2"), "pp2 dp2 tp2": (4, "4x2:1,1 4x2:1,1")}
STEPS = (3, 9)


def counts(folder):
    total = {}
    for name in glob.glob(folder + "/counts.*"):
        data = open(name, "rb").read()
        for at in range(0, len(data), 56):
            call = data[at : at + 48].split(b"\0")[0].decode()
            if call:
                total[call] = total.get(call, 0) + struct.unpack("<Q", data[at + 48 : at + 56])[0]
    return total


def train(build, folder, shape, steps, accuracy):
    micro_batches, stages = SHAPES[shape]
    # The tests' own helpers make the model, the text and the plan.
    script = f"""
      export BATS_TEST_DIRNAME={os.path.abspath('tests/gpu/standin')} BATS_FILE_TMPDIR={folder} BATS_TEST_NUMBER=1
      source tests/gpu/standin/common.bash && cd {folder} && ( [ -f text ] || write_inputs ) && ready &&
      on_shape "{micro_batches} {stages}" --steps {steps} --set 'training.accuracy="{accuracy}"' > train.log 2>&1 || {{ cat train.log; exit 1; }}
      echo "$STANDIN_FOLDER"
    """
    script = script.replace("source tests", "bats_require_minimum_version() { :; }; source tests")
    done = subprocess.run(["bash", "-c", script], env=dict(os.environ, BUILD=os.path.abspath(build)), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"count: {shape} failed:\n{done.stdout}")
    return counts(done.stdout.split()[-1])


def per_rank_and_step(build, shape, accuracy):
    ranks = sum(int(stage.split("x")[1].split(":")[0]) * len(stage.split(":")[1].split(",")) for stage in SHAPES[shape][1].split())
    with tempfile.TemporaryDirectory() as folder:
        few, many = (train(build, folder, shape, steps, accuracy) for steps in STEPS)
    each = {name: (many[name] - few.get(name, 0)) / (STEPS[1] - STEPS[0]) / ranks for name in many}
    get = lambda *names: round(sum(each.get(name, 0) for name in names), 1)
    return {
        "device_syncs": get("device_syncs"),
        "stream_syncs": get("stream_syncs"),
        "scalars_to_host": get("scalars_to_host"),
        "operators": get("operators"),
        "own_kernels": get("own_kernels"),
        "copies": get("copies"),
        "nccl_messages": get("messages"),
        "nccl_message_kib": round(get("message_bytes") / 1024, 1),
        "nccl_collectives": get("ncclAllReduce", "ncclReduceScatter", "ncclReduce", "ncclAllGather", "ncclBroadcast"),
        "nccl_groups": get("ncclGroupEnd"),
    }


def handoff(build):
    """To another node, between plans without stages: steps then send no messages, so all that are counted are the hand-off's."""
    script = """
      export BATS_TEST_DIRNAME=%s BATS_FILE_TMPDIR=%s BATS_TEST_NUMBER=1
      bats_require_minimum_version() { :; }; skip() { exit 9; }
      source tests/gpu/standin/common.bash && cd "$BATS_FILE_TMPDIR" && write_inputs && ready && munged && as_nodes || exit 1
      script "$(plan 8:1@a/0,1@b/0)" 3 "$(plan 8:1@a/0,1@c/0)" '{}' > script.json && play > play.log 2>&1 || { cat play.log; exit 1; }
      echo "$STANDIN_FOLDER"
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["bash", "-c", script % (os.path.abspath("tests/gpu/standin"), folder)],
                              env=dict(os.environ, BUILD=os.path.abspath(build)), stdout=subprocess.PIPE, text=True)
        if done.returncode == 9:
            return {}
        if done.returncode != 0:
            sys.exit("count: the hand-off failed:\n" + done.stdout)
        found = counts(done.stdout.split()[-1])
        moved = json.load(open(folder + "/summary.json"))["acts"][0]
    return {"messages": found["messages"], "message_bytes": found["message_bytes"], "bytes_sent": moved["bytes_sent"],
            "bytes_adopted": moved["bytes_adopted"], "device_syncs": found.get("device_syncs", 0), "copies": found.get("copies", 0)}


def main():
    build, cases, bitwise = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    result = {"cases": cases, "bitwise_passes": bitwise, "unit": "per rank and step", "steps": {}}
    for shape in SHAPES:
        for accuracy in ("bitwise", "relaxed"):
            result["steps"][f"{shape} {accuracy}"] = per_rank_and_step(build, shape, accuracy)
            print(f"{shape} {accuracy}: {result['steps'][f'{shape} {accuracy}']}")
    # The largest of the shapes; the rows of `steps` have each.
    most = lambda key: max(step[key] for step in result["steps"].values())
    result |= {"device_syncs_per_step": most("device_syncs"), "launches_per_step": most("own_kernels"),
               "copies_per_step": most("copies")}
    result["handoff"] = handoff(build)
    result["messages_per_handoff"] = result["handoff"].get("messages")
    print(f"hand-off: {result['handoff']}")
    with open(build + "/bench/gpu-standin.json", "w") as out:
        json.dump(result, out, indent=1)
        out.write("\n")


main()
