#!/usr/bin/env python3
"""pings.py SOCKET SECONDS: how long another user's pings take meanwhile. Prints their 99th percentile in ms and how many failed."""
import sys
import time

from peer import Peer

path, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
times, failed = [], 0
while time.monotonic() < until:
    start = time.monotonic()
    try:
        peer = Peer(path, 5)
        peer.until("welcome")
        peer.say({"type": "query", "what": "ping", "arguments": {}})
        if peer.until("reply", "refused")["type"] != "reply":
            failed += 1
        peer.close()
    except (OSError, TypeError):
        failed += 1
    times.append((time.monotonic() - start) * 1000)
    time.sleep(0.05)
times.sort()
print(round(times[int(len(times) * 0.99)], 1), failed, flush=True)
