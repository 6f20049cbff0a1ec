#!/usr/bin/env python3
"""unread.py SOCKET COUNT SECONDS: COUNT connections that ask for all decisions again and again and read nothing."""
import socket
import sys
import time

from peer import frame

path, count, until = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
question = frame({"type": "query", "what": "decisions", "arguments": {"limit": 1000}})
crowd = []
while time.monotonic() < until:
    while len(crowd) < count:
        try:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            one.connect(path)
            crowd.append(one)
        except OSError:
            break
    for one in list(crowd):
        try:
            one.send(question)
        except BlockingIOError:
            pass
        except OSError:
            crowd.remove(one)
            one.close()
    time.sleep(0.02)
print("held", len(crowd), flush=True)
