"""probe.py USER WHERE STEP...: a peer of that user that says exactly what it is told to, and prints what it is answered.

WHERE: HOST:PORT (a stream over TCP), /PATH (a local stream), udp:HOST:PORT or datagram:/PATH.
STEP:  text:TEXT       just that
       header:VER:LEN  a header that announces protocol version VER and LEN bytes
       frame:TEXT      TEXT behind the header that it needs
       nested:TYPE:N   a message of that type whose lists are nested N deep
       end             no more will be said; the other direction stays open
       challenge       waits for the server's first word: who it is
       seal:CHANGES    our half of the login, with some lines of the credential's text in place of the right ones:
                       "service=worker,job=17,token=...", "first=TEXT" for the first line, "more=TEXT" for one more,
                       "reader=UID" for who may open it ("reader=" for anybody)
       credential:TEXT our half with TEXT in place of a credential; @FILE: with what FILE holds
       login:CHANGES   the whole login, as it should be; from then on frames have tags
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
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../attacks"))
from channel import TAG, Login, frame, header, munge  # noqa: E402


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
        self.sent = self.received = None  # the tags of both directions, after the login

    def send(self, data):
        self.socket.sendall(data)

    def frame(self, text):
        data = frame(text.encode())
        self.send(data + (self.sent.next(data) if self.sent else b""))

    def receive(self):
        """The next frame, or None at the end of the stream."""
        while True:
            if len(self.input) >= 8:
                size = 8 + int.from_bytes(self.input[4:8], "big")
                tag = TAG if self.received else 0
                if len(self.input) >= size + tag:
                    data, given, self.input = self.input[:size], self.input[size:size + tag], self.input[size + tag:]
                    if self.received and self.received.next(data) != given:
                        sys.exit("a frame of the server's has a wrong tag")
                    return json.loads(data[8:])
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
        answer = self.receive()
        self.login = Login(self.socket, answer)
        print(f"the server is uid {answer['uid']}", flush=True)

    def do_credential(self, text):
        if text.startswith("@"):
            with open(text[1:], encoding="utf-8") as file:
                text = file.read()
        self.credential = text
        self.frame(json.dumps({"type": "login", "credential": text}))

    def do_seal(self, changes):
        for change in filter(None, changes.split(",")):
            name, _, value = change.partition("=")
            if name == "first":
                self.login.first = value
            elif name == "reader":
                self.login.reader = int(value) if value else None
            else:
                self.login.fields[name] = value
        self.do_credential(self.login.credential())

    def do_login(self, changes):
        self.do_challenge("")
        self.do_seal(changes)
        self.sent, self.received = self.login.finish(self.expect())

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
