"""probe.py USER WHERE STEP...: a peer of that user that says exactly what it is told to, and prints what it is answered.

WHERE: HOST:PORT (a stream over TCP), /PATH (a local stream), udp:HOST:PORT or datagram:/PATH.
STEP:  text:TEXT       just that
       header:VER:LEN  a header that announces protocol version VER and LEN bytes
       frame:TEXT      TEXT behind the header that it needs
       nested:TYPE:N   a message of that type whose lists are nested N deep
       end             no more will be said; the other direction stays open
       challenge       the first half of the handshake: which service the server is, and who, by MUNGE
       seal:PURPOSE    the second half, with a credential of ours for PURPOSE and this stream's nonces
       credential:TEXT the second half with TEXT in place of a credential; @FILE: with what FILE holds
       login           the whole handshake, as it should be
       keep:FILE       writes the last credential that was sent to FILE
       sealed:TEXT     datagrams: TEXT in a credential of ours
       file:FILE       datagrams: what FILE holds
       wait:SECONDS    nothing, for so long
Then it prints one line for each frame that comes, and "closed", or "open" when the peer has said nothing for two seconds.
"""
import json
import os
import pwd
import socket
import subprocess
import sys


def munge(text):
    return subprocess.run(["munge", "--string", text], capture_output=True, check=True).stdout.decode().strip()


def unmunge(credential):
    """The payload and the uid that munged vouches for."""
    done = subprocess.run(["unmunge", "-N"], input=credential.encode(), capture_output=True, check=True)
    head, _, payload = done.stdout.decode().partition("\n\n")
    uid = next(line.split()[-1].strip("()") for line in head.splitlines() if line.startswith("UID:"))
    return payload.strip(), int(uid)


def header(version, length):
    return b"ESP" + bytes([version]) + length.to_bytes(4, "big")


class Peer:
    def __init__(self, where):
        kind = socket.SOCK_STREAM
        if where.startswith(("udp:", "datagram:")):
            kind, where = socket.SOCK_DGRAM, where.partition(":")[2]
        if where.startswith("/"):
            self.socket, address = socket.socket(socket.AF_UNIX, kind), where
        else:
            host, _, port = where.rpartition(":")
            self.socket, address = socket.socket(socket.AF_INET, kind), (host, int(port))
        self.datagrams = kind == socket.SOCK_DGRAM
        self.socket.settimeout(7)  # longer than the time that the server grants a handshake
        self.socket.connect(address)
        self.input, self.credential = b"", None

    def send(self, data):
        self.socket.sendall(data)

    def frame(self, text):
        body = text.encode()
        self.send(header(1, len(body)) + body)

    def receive(self):
        """The next frame, or None at the end of the stream."""
        while True:
            if len(self.input) >= 8:
                size = 8 + int.from_bytes(self.input[4:8], "big")
                if len(self.input) >= size:
                    body, self.input = self.input[8:size], self.input[size:]
                    return json.loads(body)
            try:
                data = self.socket.recv(65536)
            except ConnectionError:
                return None
            if not data:
                return None
            self.input += data

    def expect(self):
        answer = self.receive()
        print(json.dumps(answer) if answer else "closed", flush=True)
        if answer is None or answer["type"] == "refused":
            sys.exit(0)
        return answer

    # --- the steps -------------------------------------------------------------------------------------------------------
    def do_text(self, text):
        self.send(text.encode())

    def do_header(self, text):
        self.send(header(*map(int, text.split(":"))))

    def do_frame(self, text):
        self.frame(text)

    def do_nested(self, text):
        kind, depth = text.split(":")
        lists = "[" * int(depth) + "]" * int(depth)
        self.frame('{"type": "%s", "what": "job", "arguments": %s, "reason": %s}' % (kind, lists, lists))

    def do_end(self, _):
        self.socket.shutdown(socket.SHUT_WR)

    def do_challenge(self, _):
        ours = os.urandom(16).hex()
        self.frame(json.dumps({"type": "challenge", "nonce": ours}))
        answer = self.receive()
        payload, uid = unmunge(answer["credential"])
        nonce = answer["nonce"]
        self.service = payload.split(" ")[2]
        if payload != f"espalier server {self.service} {ours} {nonce}":
            sys.exit("the server's credential is not for this connection: " + payload)
        print(f"{self.service} is uid {uid}", flush=True)
        self.nonces = f"{ours} {nonce}"

    def do_credential(self, text):
        if text.startswith("@"):
            with open(text[1:], encoding="utf-8") as file:
                text = file.read()
        self.credential = text
        self.frame(json.dumps({"type": "identity", "nonce": "", "credential": text}))

    def do_seal(self, purpose):
        self.do_credential(munge(f"espalier {purpose} {self.nonces}"))

    def do_login(self, _):
        self.do_challenge("")
        self.do_seal("client " + self.service)
        self.expect()

    def do_keep(self, name):
        with open(name, "w", encoding="utf-8") as file:
            file.write(self.credential)

    def do_sealed(self, text):
        self.credential = munge(text)
        self.send(self.credential.encode())

    def do_file(self, name):
        with open(name, "rb") as file:
            self.send(file.read())

    def do_wait(self, seconds):
        self.socket.settimeout(float(seconds))
        try:
            self.expect()
        except TimeoutError:
            pass

    def drain(self):
        self.socket.settimeout(2)
        try:
            while True:
                self.expect()
        except TimeoutError:
            print("open")


def main():
    user = pwd.getpwnam(sys.argv[1])
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    peer = Peer(sys.argv[2])
    for step in sys.argv[3:]:
        name, _, text = step.partition(":")
        getattr(peer, "do_" + name)(text)
    if not peer.datagrams:
        peer.drain()


main()
