#!/usr/bin/env python3
"""squat.py NAME COUNT SECONDS: takes the abstract socket NAME and COUNT names NAME-0, NAME-1, ..., and never answers there.

Fills the queue of each, so that who connects has to wait.
"""
import socket
import sys
import time

name, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
held = []
for one in [name] + [f"{name}-{i}" for i in range(count)]:
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("\0" + one)
        listener.listen(0)
        held.append(listener)
        for _ in range(2):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.setblocking(False)
            client.connect("\0" + one)
            held.append(client)
    except OSError:
        pass
print("squatted", flush=True)
time.sleep(seconds)
