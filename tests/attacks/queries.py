#!/usr/bin/env python3
"""queries.py SOCKET SECONDS: asks for as much as there is, as fast as it is answered, on ever new connections.

Prints how many answers and bytes came, and how many questions were refused.
"""
import sys
import time

from peer import Peer

path, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
answers = size = refused = 0
while time.monotonic() < until:
    try:
        peer = Peer(path)
        peer.until("welcome")
        while time.monotonic() < until:
            peer.say({"type": "query", "what": "decisions", "arguments": {"limit": 1000}})
            answer = peer.until("reply", "refused")
            if answer is None or answer["type"] == "refused":
                refused += 1
                break
            answers += 1
            size += len(str(answer))
    except OSError:
        refused += 1
    time.sleep(0.005)
print("answers", answers, "mib", size >> 20, "refused", refused, flush=True)
