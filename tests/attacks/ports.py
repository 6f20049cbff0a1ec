#!/usr/bin/env python3
"""ports.py FIRST COUNT SECONDS [FILE]: takes COUNT TCP ports from FIRST on, as far as they are free, and passes nothing on.

Who connects there is accepted and heard, and never answered. Prints how many ports it has, and at the end how many
connections came. It ends before the time is over when there is a file FILE.
"""
import os
import resource
import selectors
import socket
import sys
import time

EACH = 900  # a process may not have more descriptors than its hard limit
first, count, until = int(sys.argv[1]), int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
over = sys.argv[4] if len(sys.argv) > 4 else ""
reader, writer = os.pipe()
children = []
for start in range(first, first + count, EACH):
    child = os.fork()
    if child:
        children.append(child)
        continue
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held, came, poll = [], 0, selectors.DefaultSelector()
    for port in range(start, min(start + EACH, first + count)):
        one = socket.socket()
        try:
            one.bind(("0.0.0.0", port))
            one.listen(4)
            poll.register(one, selectors.EVENT_READ)
            held.append(one)
        except OSError:
            one.close()
    os.write(writer, f"{len(held)}\n".encode())
    guests = []
    while (left := until - time.monotonic()) > 0 and not (over and os.path.exists(over)):
        for key, _ in poll.select(min(left, 0.5)):
            guests.append(key.fileobj.accept()[0])
            came += 1
    os.write(writer, f"{came}\n".encode())
    os._exit(0)
os.close(writer)
numbers = os.fdopen(reader)
print("took", sum(int(numbers.readline()) for _ in children), flush=True)
print("connections", sum(int(numbers.readline()) for _ in children), flush=True)
for child in children:
    os.waitpid(child, 0)
