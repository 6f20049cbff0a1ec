#!/usr/bin/env python3
"""strangers.py HOST:PORT SECONDS IDLE: what can be had of a port without saying who one is.

Holds IDLE connections that say nothing, opening new ones for those that are closed, and beside them logs in with 3,900 bytes
that are no credential, which MUNGE is asked to open. Prints how many credentials came.
"""
import socket
import sys
import time

from peer import Peer

where, until, idle = sys.argv[1], time.monotonic() + float(sys.argv[2]), int(sys.argv[3])
host, _, port = where.rpartition(":")
crowd, credentials, asked = [], 0, 0
while time.monotonic() < until:
    while len(crowd) < idle:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex((host, int(port)))
        crowd.append(one)
    crowd = crowd[idle // 8:]  # the oldest go; others come
    for _ in range(20):
        try:
            peer = Peer(where, 0.5)
            peer.say({"type": "login", "credential": "MUNGE:" + "A" * 3900 + ":"})
            asked += 1
            while answer := peer.hear():
                credentials += "credential" in answer
            peer.close()
        except OSError:
            pass
print("asked", asked, "credentials", credentials, flush=True)
