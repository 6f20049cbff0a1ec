"""The login and the tagged frames of a TCP connection, as planner/wire/handshake.hpp and frame_tags.hpp write them down.

Written from that text alone, with Python's standard library and MUNGE's commands: a second reader of the protocol.
"""
import hashlib
import hmac
import json
import os
import subprocess

VERSION, TAG = 2, 16


def header(version, length):
    return b"ESP" + bytes([version]) + length.to_bytes(4, "big")


def frame(body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return header(VERSION, len(data)) + data


def hmac_sha256(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def munge(text, reader=None):
    who = [] if reader is None else ["--restrict-uid", str(reader)]
    done = subprocess.run(["munge", "--string", text, "--cipher", "aes256", *who], capture_output=True, check=True)
    return done.stdout.decode().strip()


def unmunge(credential):
    """The text, the uid that munged vouches for, and the only uid that may read it, or None."""
    done = subprocess.run(["unmunge", "-N"], input=credential.encode(), capture_output=True, check=True)
    head, _, text = done.stdout.decode().partition("\n\n")
    fields = {}
    for line in head.splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.split()[-1].strip("()") if value.split() else ""
    reader = fields.get("UID_RESTRICTION")
    return text.rstrip("\n") + "\n", int(fields["UID"]), None if reader is None else int(reader)


def lines(first, fields):
    return first + "\n" + "".join(f"{name}={value}\n" for name, value in fields.items())


class Tags:
    """Of one direction."""

    def __init__(self, key):
        self.key, self.count = key, 0

    def next(self, data):
        tag = hmac_sha256(self.key, self.count.to_bytes(8, "big") + data)[:TAG]
        self.count += 1
        return tag


class Login:
    """A client's. challenge, credential(), finish(): the text of the client's credential may be changed in between."""

    def __init__(self, socket, challenge, service="planner", job=0, token=""):
        host, port = socket.getpeername()[:2]
        self.reader = challenge["uid"]
        self.fields = {"service": service, "job": job, "server": f"{host}:{port}", "server_uid": self.reader,
                       "client_uid": os.geteuid(), "server_nonce": challenge["nonce"], "client_nonce": os.urandom(16).hex(),
                       "token": token, "key": os.urandom(32).hex()}
        self.first = "espalier 2 client"

    def credential(self):
        self.text = lines(self.first, self.fields)
        return munge(self.text, self.reader)

    def finish(self, welcome):
        """The tags of frames to the server and of frames from it."""
        text, uid, reader = unmunge(welcome["credential"])
        said = dict(line.split("=", 1) for line in text.splitlines()[1:])
        expected = {name: str(value) for name, value in self.fields.items() if name not in ("token", "key")}
        if text != lines("espalier 2 server", {**expected, "key": said["key"]}):
            raise ValueError("the server's credential is for another login: " + text)
        if uid != self.reader or reader != os.geteuid():
            raise ValueError(f"the server's credential is of uid {uid}, for uid {reader}")
        session = hmac_sha256(bytes.fromhex(self.fields["key"] + said["key"]), (self.text + text).encode())
        return Tags(hmac_sha256(session, b"client to server")), Tags(hmac_sha256(session, b"server to client"))
