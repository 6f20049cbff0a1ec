"""ear.py LOCAL_SOCKET UDP_PORT: hears what the plugins tell a planner. One line of JSON for each datagram."""
import json
import os
import select
import socket
import subprocess
import sys
import time

local = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
local.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
local.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", int(sys.argv[2])))


def unmunge(credential):
    """The payload and the uid that munged vouches for."""
    done = subprocess.run(["unmunge", "-N"], input=credential, capture_output=True, check=True)
    head, _, payload = done.stdout.decode().partition("\n\n")
    uid = next(line.split()[-1].strip("()") for line in head.splitlines() if line.startswith("UID:"))
    return payload.strip(), int(uid)


print(json.dumps({"ready": True}), flush=True)
while True:
    for ready in select.select([local, udp], [], [])[0]:
        data, extra, _, _ = ready.recvmsg(8192, 64)
        now = time.time()
        if ready is local:
            event, uid = data.decode(), int.from_bytes(extra[0][2][4:8], "little")
        else:
            event, uid = unmunge(data)
        print(json.dumps({"time": now, "from": "local" if ready is local else "udp", "uid": uid, "event": event}), flush=True)
