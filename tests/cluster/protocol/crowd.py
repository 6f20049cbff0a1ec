"""crowd.py USER SOCKET COUNT: opens so many local connections as that user, says when they are there, and leaves them idle."""
import os
import pwd
import resource
import socket
import sys
import time

user, count = pwd.getpwnam(sys.argv[1]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
crowd, deadline = [], time.monotonic() + 10
while len(crowd) < count and time.monotonic() < deadline:
    one = socket.socket(socket.AF_UNIX)
    one.setblocking(False)
    try:
        one.connect(sys.argv[2])
        crowd.append(one)
    except BlockingIOError:  # the queue of those that wait to be let in is full
        time.sleep(0.01)
print(len(crowd), "are there", flush=True)
time.sleep(60)
