#!/usr/bin/env python3
"""connections.py SECONDS BYTES HOST:PORT...: what another user of the cluster can do to a port without any rights.

Opens eight connections to each port, sends BYTES bytes of nonsense on each (0: none, which many servers wait for), and
holds them for SECONDS. Prints, for each port, how many of its connections were accepted and are still open at the end.
"""
import selectors
import socket
import sys
import time

EACH = 8


def main():
    seconds, count = float(sys.argv[1]), int(sys.argv[2])
    held = {}
    for place in sys.argv[3:]:
        host, port = place.rsplit(":", 1)
        held[place] = []
        for _ in range(EACH):
            try:
                made = socket.create_connection((host, int(port)), timeout=2)
                made.sendall(b"\x00" * count)
                made.setblocking(False)
                held[place].append(made)
            except OSError:
                pass
    print("connected", flush=True)
    until = time.monotonic() + seconds
    poll = selectors.DefaultSelector()
    for place, connections in held.items():
        for one in connections:
            poll.register(one, selectors.EVENT_READ, place)
    while (left := until - time.monotonic()) > 0:
        for key, _ in poll.select(left):
            try:
                if key.fileobj.recv(4096):
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            poll.unregister(key.fileobj)
            held[key.data].remove(key.fileobj)
            key.fileobj.close()
    for place, connections in held.items():
        print(place, len(connections))


main()
