"""scrapes.py SECONDS: what a user of the controller can do to the metrics' port: connections that say nothing, requests that
are never read, and as many scrapes as go. Prints how many of each there were."""
import socket
import sys
import threading
import time

ADDRESS = ("127.0.0.1", 7322)
end = time.monotonic() + float(sys.argv[1])
counts = {"silent": 0, "unread": 0, "scrapes": 0, "refused": 0}


def attack(kind):
    held = []
    while time.monotonic() < end:
        try:
            link = socket.create_connection(ADDRESS, timeout=2)
            if kind != "silent":
                link.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            if kind == "scrapes":
                while link.recv(65536):
                    pass
                link.close()
            else:
                held.append(link)
                del held[:-100]
            counts[kind] += 1
        except OSError:
            counts["refused"] += 1
            time.sleep(0.01)


threads = [threading.Thread(target=attack, args=(kind,)) for kind in ("silent", "unread", "scrapes", "scrapes")]
for one in threads:
    one.start()
print("begun", flush=True)
for one in threads:
    one.join()
print(counts)
