"""hostile.py HOW METRICS: a worker that speaks the protocol and trains nothing, and that breaks it as HOW says:

    good              not at all: it grows, shrinks, and ends after 100 steps
    more-fields       fields that no launcher knows, in every message
    null-loss         losses that are no number, as null
    nan               a loss as NaN, which is no JSON
    large             a frame of 100 MB, as step 5
    version           a frame of another version of the protocol, as step 5
    tag               a frame without its tag, as step 5
    dies-at-login     ends before it says hello
    dies-at-hello     ends when it has said hello
    unasked           says `switched` though nobody asked
    loaded            says `loaded` though there is nothing to load
    unknown           a message that there is not
    backwards         step 3 after step 5
    ignores-switch    trains on when it is asked to stand
    never-ready       says hello and no more, in every generation but the first
    slow-load         not at all, but generation 1 says `loaded` only when there is METRICS.go, after it has made METRICS.loads; who is asked
                      for a checkpoint is in METRICS.asked
    other-state       generation 1 says `loaded` with another step than it was told
"""
import json
import os
import signal
import sys
import time

from espalier._channel import Channel

how, metrics = sys.argv[1], sys.argv[2]
if how == "slow-load":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the base's processes hear that Slurm takes it back
rank, generation = int(os.environ["RANK"]), int(os.environ["ESPALIER_GENERATION"])
if how == "dies-at-login":
    sys.exit(3)
channel = Channel(os.environ["ESPALIER_LAUNCHER"], os.environ["ESPALIER_TOKEN"])


def say(kind, **fields):
    if how == "more-fields":
        fields["weather"] = {"sun": [1, 2, {"warm": True}]}
    channel.send({"type": kind, **fields})


def say_bytes(body, version=2, size=None, tag=True):
    data = b"ESP" + bytes([version]) + (size or len(body)).to_bytes(4, "big") + body
    channel._socket.sendall(data + (channel._sent.next(data) if tag else b"x" * 16))


def asked(frame):
    if how != "slow-load" or frame is None or frame["type"] != "checkpoint":
        return False
    with open(metrics + ".asked", "a") as file:
        file.write(f"{generation} {rank}\n")
    return True


def expect(*kinds):
    frame = channel.receive(120)
    while asked(frame):
        frame = channel.receive(120)
    if frame is None or frame["type"] == "exit":
        sys.exit(0)
    if frame["type"] not in kinds:
        sys.exit(f"got {frame} instead of {kinds}")
    return frame


capabilities = {"parallel": "data", "global_batch": 8, "start_seconds": 20}
if how == "more-fields":
    capabilities["colour"] = "red"
say("hello", generation=generation, rank=rank, node="n1", pid=os.getpid(), total_steps=10000 if how == "slow-load" else 100, handoff="device", capabilities=capabilities)
if how == "dies-at-hello":
    sys.exit(3)
plan = expect("assign")
world = sum(len(replica["gpus"]) for stage in plan["plan"]["stages"] for replica in stage["replicas"])
if how == "never-ready" and generation > 0:
    time.sleep(1000)
say("ready")
step = 0
if how == "loaded":
    say("loaded", bytes_adopted=0, bytes_copied=0, bytes_sent=0, step=7, phases_ms={}, bytes_sent_early=0, **{"from": ""})
if plan.get("source"):
    step = expect("load")["step"]
    where = "" if step >= 0 else "start"
    if how == "slow-load" and generation == 1:
        open(metrics + ".loads", "w").close()
        while not os.path.exists(metrics + ".go"):
            time.sleep(0.05)
    step = max(step, 0) + (how == "other-state" and generation == 1 and rank == 0)
    say("loaded", bytes_adopted=0, bytes_copied=0, bytes_sent=0, step=step, phases_ms={}, bytes_sent_early=0, **{"from": where})
expect("commit")
# Processes do not speak to one another here, so only a generation of one can agree on where to stand.
while step < (10000 if how == "slow-load" else 100):
    # On a slow machine generation 0 would have ended before the next one is there.
    waits = generation == 0 and step >= 60 and how in ("good", "more-fields", "ignores-switch")
    pace = 1 if waits else 0.1
    time.sleep(pace - time.time() % pace)
    step += 1
    if step == 5 and generation == 0 and rank == world - 1:
        if how == "large":
            say_bytes(b'{"type":"step"', size=100_000_000)
        elif how == "version":
            say_bytes(b'{"type":"heartbeat"}', version=9)
        elif how == "tag":
            say_bytes(b'{"type":"heartbeat"}', tag=False)
        elif how == "nan":
            say_bytes(b'{"type":"step","step":5,"loss":NaN,"seconds":0.1,"tokens_per_second":1}')
        elif how == "unasked":
            say("switched", step=5, problem="")
        elif how == "unknown":
            say("dance")
    if rank == 0:
        told = 3 if how == "backwards" and step == 6 else step
        say("step", step=told, loss=None if how == "null-loss" else 1 / step, seconds=0.1, tokens_per_second=80.0)
        if step % 6 == 0:
            say("profile", flat={"step": step, "steps": 5, "compute_ms": [80.0] * world, "rest_ms": 1.0, "gradient_bytes": 1000,
                                 "weight_bytes": 1000, "state_bytes": 3000, "peak_bytes": 0, "spread": 0.01})
        with open(metrics, "a") as file:
            file.write(json.dumps({"step": step, "generation": generation, "gpus": world, "loss": 1 / step, "seconds": 0.1, "plan": "dp"},
                                  separators=(",", ":")) + "\n")
    frame = channel.receive(0.001)
    asked(frame)
    if frame is not None and frame["type"] == "exit":
        sys.exit(0)
    if frame is not None and frame["type"] == "switch" and how != "ignores-switch":
        say("switched", step=step, problem="")
        expect("resume")
say("done", step=step)
