"""A peer of espalierd as an attack needs one: frames over the local socket, or over TCP before the login."""
import json
import socket

from channel import frame


class Peer:
    def __init__(self, where, patience=10.0):
        if where.startswith("/"):
            self.socket = socket.socket(socket.AF_UNIX)
            address = where
        else:
            host, _, port = where.rpartition(":")
            self.socket, address = socket.socket(socket.AF_INET), (host, int(port))
        self.socket.settimeout(patience)
        self.socket.connect(address)
        self.input = b""

    def say(self, body):
        self.socket.sendall(frame(body))

    def hear(self):
        """The next frame, or None at the end of the stream."""
        while True:
            if len(self.input) >= 8:
                size = 8 + int.from_bytes(self.input[4:8], "big")
                if len(self.input) >= size:
                    body, self.input = self.input[8:size], self.input[size:]
                    return json.loads(body)
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self.input += data

    def until(self, *kinds):
        """The next frame of one of these types, or None at the end of the stream."""
        while (answer := self.hear()) and answer["type"] not in kinds:
            pass
        return answer

    def close(self):
        self.socket.close()
