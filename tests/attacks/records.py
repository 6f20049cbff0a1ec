#!/usr/bin/env python3
"""records.py SOCKET JOB NODE SECONDS: what a user's own job of one GPU can make espalierd write down.

Says it is the job's launcher and reports acts of its own whose plans have as many GPUs as fit into a message, and statuses with
such plans; then thousands of small acts and transitions, with `bye` and a new registration whenever it is closed. Prints what
was taken: fat plans, and how often it was let in again.
"""
import sys
import time

from peer import Peer

path, job, node, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])


def plan(gpus):
    return {"global_batch": gpus, "micro_batches": 1, "stages": [{"layers": 1, "tp": 1, "replicas": [
        {"share": 1, "gpus": [f"node-{i // 8:0>200}/{i % 8}"]} for i in range(gpus)]}]}


def described(more):
    return {"id": job, "uid": 0, "name": "a", "min_gpus": 1, "max_gpus": 8, "accuracy": "bitwise",
            "model": {"family": "gpt2", "layers": 0, "hidden": 32, "heads": 2, "sequence": 32, "vocabulary": 256,
                      "global_batch": 8, "micro_batches": 1},
            "plan": None, "generation": 0, "phase": "running", "anchor": [{"job": job, "node": node, "gpus": [0]}],
            "extensions": [], "step_seconds": 1.0, "step": 1, "total_steps": 9, "held": False, **more}


def outcome(number, gpus):
    return {"type": "outcome", "job": job, "decision": 0, "kind": "shrink", "result": "committed", "reason": "x" * 900,
            "generation": number, "step": 1, "pause_ms": 1.0, "phases_ms": {}, "plan": plan(gpus)}


def transition():
    return {"type": "transition", "job": job, "time": 1.0, "from": "running", "event": "e" * 40, "to": "running",
            "generation": 0, "decision": 0}


def register():
    peer = Peer(path)
    peer.until("welcome")
    peer.say({"type": "register", "host": node, "pid": 1, "job": described({})})
    return peer if peer.until("registered", "refused")["type"] == "registered" else None


def fat(message):
    """Whether a message of some MiB is taken."""
    peer = register()
    if peer is None:
        return False
    try:
        peer.say(message)
        peer.say({"type": "query", "what": "ping", "arguments": {}})
        answer = peer.until("reply", "refused")
    except OSError:
        answer = None
    peer.close()
    return answer is not None and answer["type"] == "reply"


taken = sum(fat(message) for message in (outcome(1, 30000), {"type": "status", "job": described({"plan": plan(30000)})},
                                         outcome(1, 1000), {"type": "status", "job": described({"plan": plan(1000)})}))
print("fat plans taken", taken, flush=True)
until, rounds = time.monotonic() + seconds, 0
while time.monotonic() < until:
    try:
        peer = register()
        if peer is None:
            time.sleep(0.2)
            continue
        rounds += 1
        for number in range(100):
            peer.say(outcome(number, 1))
            peer.say(transition())
            peer.say({"type": "status", "job": described({"generation": number})})
        peer.say({"type": "bye", "job": job, "exit_code": 0})
        peer.close()
    except (OSError, TypeError):
        pass
    time.sleep(0.1)
print("rounds", rounds, flush=True)
