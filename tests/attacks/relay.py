#!/usr/bin/env python3
"""relay.py [--in NETNS] LISTEN TARGET MODE [TEXT]: passes a login between a client and its server, then interferes.

LISTEN and TARGET are HOST:PORT. --in: listens in that network namespace and connects from the present one, as somebody on the
path between both could: client and server then see the same address. Serves one client. MODE is what happens to the client's
frames behind the login:
  pass      nothing
  inject    TEXT, a message, goes to the server before the first of them, with a tag of zeros where frames have tags
  alter     a letter of the first one changes
  replay    the first one goes twice
  reorder   the first two change places
  drop      the first one does not go
  cut       half of the first one goes, and then the stream ends
  inject-to-client TEXT goes to the client before the server's first frame behind the login
Prints each message of the server's behind the login, "logged in" when that is over, and "over" at the end.
"""
import argparse
import ctypes
import json
import os
import socket
import sys
import threading

from channel import TAG, frame


def pieces(stream, tagged):
    """The frames of a stream, each with its tag if tagged() says that there are tags now."""
    data = b""
    while True:
        while len(data) >= 8:
            size = 8 + int.from_bytes(data[4:8], "big") + (TAG if tagged(data[3]) else 0)
            if len(data) < size:
                break
            yield data[:size]
            data = data[size:]
        more = stream.recv(65536)
        if not more:
            return
        data += more


class Relay:
    def __init__(self, client, server, mode, text):
        self.client, self.server, self.mode, self.text = client, server, mode, text
        self.logged_in = threading.Event()

    def tagged(self, version):
        return version >= 2 and self.logged_in.is_set()

    def forged(self, version):
        data = frame(self.text.encode())
        return data[:3] + bytes([version]) + data[4:] + (b"\0" * TAG if version >= 2 else b"")

    def from_server(self):
        first = True
        for piece in pieces(self.server, self.tagged):
            message = json.loads(piece[8:8 + int.from_bytes(piece[4:8], "big")])
            if self.logged_in.is_set():
                if first and self.mode == "inject-to-client":
                    self.client.sendall(self.forged(piece[3]))
                first = False
                print("server:", json.dumps(message), flush=True)
            elif message["type"] == "refused":
                print("server:", json.dumps(message), flush=True)
            elif message["type"] == "welcome":
                self.logged_in.set()
                print("logged in", flush=True)
            self.client.sendall(piece)
        self.client.shutdown(socket.SHUT_WR)

    def interfere(self, behind):
        """What goes to the server in place of the client's frames behind the login; None: not yet known."""
        first = behind[0]
        if self.mode == "inject":
            return [self.forged(first[3]), first]
        if self.mode == "alter":
            at = first.rindex(b"ping") if b"ping" in first else 12
            return [first[:at] + bytes([first[at] ^ 1]) + first[at + 1:]]
        if self.mode == "replay":
            return [first, first]
        if self.mode == "reorder":
            return [behind[1], first] if len(behind) > 1 else None
        if self.mode == "drop":
            return []
        if self.mode == "cut":
            return [first[:len(first) // 2]]
        return [first]

    def from_client(self):
        behind, done = [], False
        for piece in pieces(self.client, self.tagged):
            message = json.loads(piece[8:8 + int.from_bytes(piece[4:8], "big")])
            if message["type"] in ("challenge", "identity", "login") or done:
                self.server.sendall(piece)
                continue
            behind.append(piece)
            instead = self.interfere(behind)
            if instead is None:
                continue
            done = True
            self.server.sendall(b"".join(instead))
            if self.mode == "cut":
                break
        self.server.shutdown(socket.SHUT_WR)

    def run(self):
        def quietly(side):
            try:
                side()
            except OSError:
                pass
        threads = [threading.Thread(target=quietly, args=(side,)) for side in (self.from_client, self.from_server)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def place(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--in", dest="netns")
    options.add_argument("listen", type=place)
    options.add_argument("target", type=place)
    options.add_argument("mode")
    options.add_argument("text", nargs="?", default="")
    options = options.parse_args()
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter = ctypes.CDLL(None, use_errno=True).setns
    if options.netns and enter(os.open("/run/netns/" + options.netns, os.O_RDONLY), 0) != 0:
        sys.exit("cannot enter " + options.netns)
    listener = socket.create_server(options.listen)
    if options.netns and enter(here, 0) != 0:
        sys.exit("cannot come back")
    print("listening", flush=True)
    listener.settimeout(30)
    client, _ = listener.accept()
    client.settimeout(10)
    server = socket.create_connection(options.target, timeout=10)
    Relay(client, server, options.mode, options.text).run()
    print("over", flush=True)


main()
