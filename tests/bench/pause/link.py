"""link.py: in a box: how fast plain TCP is from n1 and n2 together to n3, in bytes per second: three runs of 1 GiB, as JSON."""
import json
import socket
import subprocess
import sys
import time

PORT, BYTES, BLOCK = 7001, 1 << 29, 1 << 20


def address(node):
    with open("/etc/hosts", encoding="ascii") as hosts:
        return next(line.split()[0] for line in hosts if node in line.split()[1:])


def send():
    data = memoryview(bytearray(BLOCK))
    with socket.create_connection((address("n3"), PORT)) as link:
        for _ in range(BYTES // BLOCK):
            link.sendall(data)


def drain(link):
    buffer = bytearray(BLOCK)
    while link.recv_into(buffer):
        pass


def receive():
    import threading

    with socket.create_server((address("n3"), PORT), reuse_port=True) as server:
        print("listening", flush=True)
        links = [server.accept()[0] for _ in range(2)]
        start = time.monotonic()
        threads = [threading.Thread(target=drain, args=(link,)) for link in links]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(2 * BYTES / (time.monotonic() - start))


def on(node, what, **options):
    return subprocess.Popen(["nsenter", f"--net=/run/netns/{node}", sys.executable, __file__, what], **options)


if len(sys.argv) > 1:
    {"send": send, "receive": receive}[sys.argv[1]]()
else:
    rates = []
    for _ in range(3):
        receiver = on("n3", "receive", stdout=subprocess.PIPE, text=True)
        receiver.stdout.readline()
        senders = [on(node, "send") for node in ("n1", "n2")]
        rates.append(float(receiver.stdout.readline()))
        for process in (receiver, *senders):
            if process.wait() != 0:
                sys.exit("the link could not be measured")
    print(json.dumps({"bytes_per_second": sorted(rates)[1], "runs": rates}))
