"""Login and framing of the stream to the launcher. The only module that knows bytes of the protocol (espalier-worker(7)).

A frame is the bytes "ESP" and the protocol's version, the body's length in 4 bytes, big-endian, and the body: a JSON object
with a string "type". At the login both sides prove who they are by MUNGE credentials that only the other may read. The
credentials carry keys: each later frame ends in a tag that shows its sender and its place in the stream.
"""
from __future__ import annotations

import ctypes
import hashlib
import hmac
import json
import os
import random
import socket
import threading
import time
from typing import Any, Dict, Optional

from ._forks import not_for_children

Frame = Dict[str, Any]

VERSION = 2
_HEADER = 8
_MOST_STRANGER = 16 << 10  # bytes of a body before the login
_MOST = 8 << 20
_LOGIN_SECONDS = 10.0
_DROPPED_SECONDS = 60.0  # a worker that is dropped in its login tries again for so long
_TAG = 16  # bytes
_CIPHER_TYPE, _UID_RESTRICTION, _AES256 = 0, 9, 5  # of munge.h


class ChannelError(ConnectionError):
    """The launcher cannot be reached, is not the job's, or breaks the protocol."""


class Dropped(ChannelError):
    """The stream has ended. In the login it means that more workers have come at once than the launcher takes on."""


def _host_uid() -> int:
    """What this user is called outside of all containers, where MUNGE is: in a container it may be called root."""
    text = os.environ.get("ESPALIER_UID", "")
    return int(text) if text.isascii() and text.isdigit() else os.geteuid()


class Munge:
    """libmunge, or the text of why it cannot be used."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libmunge.so.2")
        except OSError as error:
            raise ChannelError(f"libmunge.so.2: {error}; install MUNGE's library on this node") from error
        self._library.munge_strerror.restype = ctypes.c_char_p
        self._free = ctypes.CDLL(None).free
        self._free.argtypes = [ctypes.c_void_p]

        self._library.munge_ctx_create.restype = ctypes.c_void_p

    def seal(self, text: str, reader: int) -> str:
        """A credential that only the user id `reader` may open."""
        credential, data = ctypes.c_void_p(), text.encode()
        context = self._context()
        try:
            self._check(self._library.munge_ctx_set(context, _CIPHER_TYPE, ctypes.c_int(_AES256)))
            self._check(self._library.munge_ctx_set(context, _UID_RESTRICTION, ctypes.c_uint32(reader)))
            self._check(self._library.munge_encode(ctypes.byref(credential), context, data, len(data)))
        finally:
            self._library.munge_ctx_destroy(context)
        sealed = ctypes.string_at(credential).decode()
        self._free(credential)
        return sealed

    def open(self, credential: str) -> "tuple[str, int, int]":
        """The text, the user id of who sealed it, and the only user id that may open it."""
        data, size = ctypes.c_void_p(), ctypes.c_int()
        uid, gid, reader = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint32()
        context = self._context()
        try:
            self._check(self._library.munge_decode(credential.encode(), context, ctypes.byref(data), ctypes.byref(size),
                                                   ctypes.byref(uid), ctypes.byref(gid)))
            text = ctypes.string_at(data, size.value).decode(errors="replace")
            self._free(data)
            self._check(self._library.munge_ctx_get(context, _UID_RESTRICTION, ctypes.byref(reader)))
        finally:
            self._library.munge_ctx_destroy(context)
        return text, uid.value, reader.value

    def _context(self) -> ctypes.c_void_p:
        context = self._library.munge_ctx_create()
        if not context:
            raise ChannelError("munge: no memory")
        return ctypes.c_void_p(context)

    def _check(self, error: int) -> None:
        if error:
            raise ChannelError("munge: " + self._library.munge_strerror(error).decode())


class Tags:
    """The tags of one direction: HMAC-SHA256 of the frame and of its number in the stream."""

    def __init__(self, session: bytes, direction: bytes) -> None:
        self._key = hmac.new(session, direction, hashlib.sha256).digest()
        self._count = 0

    def next(self, data: bytes) -> bytes:
        tag = hmac.digest(self._key, self._count.to_bytes(8, "big") + data, "sha256")[:_TAG]
        self._count += 1
        return tag


def _lines(first: str, fields: Dict[str, Any]) -> str:
    return first + "\n" + "".join(f"{name}={value}\n" for name, value in fields.items())


_JSON = json.JSONEncoder(allow_nan=False, separators=(",", ":"))  # json.dumps() would make one for each message


def encode(frame: Frame) -> bytes:
    body = _JSON.encode(frame).encode()
    if len(body) > _MOST:
        raise ChannelError(f"message {frame.get('type')}: larger than a frame may be")
    return b"ESP" + bytes([VERSION]) + len(body).to_bytes(4, "big") + body


def frame_size(buffer: bytes, most: int = _MOST) -> Optional[int]:
    """Bytes of the header and body of the frame at the front of `buffer`, without a tag. None: the header is not whole.
    Raises ChannelError."""
    if not b"ESP".startswith(buffer[:3]):
        raise ChannelError("stream: not the Espalier protocol")
    if len(buffer) < _HEADER:
        return None
    if buffer[3] != VERSION:
        raise ChannelError(f"stream: the launcher speaks protocol version {buffer[3]}, this package {VERSION}; "
                           "install the package of the launcher's Espalier")
    size = int.from_bytes(buffer[4:_HEADER], "big")
    if size > most:
        raise ChannelError(f"stream: a message of {size} bytes is larger than allowed")
    return _HEADER + size


def decode(data: bytes) -> Frame:
    """The message of a whole frame. Raises ChannelError."""
    try:
        frame = json.loads(data[_HEADER:])
    except (ValueError, RecursionError) as error:
        raise ChannelError("stream: a message is not JSON") from error
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise ChannelError("stream: a message has no type")
    return frame


class Channel:
    """One authenticated stream. send() is for any thread, receive() for one."""

    def __init__(self, address: str, token: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ChannelError(f'ESPALIER_LAUNCHER: "{address}" is not of the form host:port')
        self._sending = threading.Lock()
        self._token = token
        until = time.monotonic() + _DROPPED_SECONDS
        while True:
            try:
                self._connect(host, int(port))
                return
            except Dropped:
                if time.monotonic() > until:
                    raise
            time.sleep(random.uniform(0.1, 1.0))  # thousands of workers may have come in one moment

    def _connect(self, host: str, port: int) -> None:
        address = f"{host}:{port}"
        self._input = b""
        self._most = _MOST_STRANGER
        self._sent: Optional[Tags] = None  # None before the login has ended
        self._received: Optional[Tags] = None
        try:
            self._socket = not_for_children(socket.create_connection((host, port), _LOGIN_SECONDS))
        except OSError as error:
            raise ChannelError(f"launcher {address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A launcher whose node is gone is noticed within ten seconds.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 10),
                              (socket.TCP_USER_TIMEOUT, 10_000)):
            self._socket.setsockopt(socket.IPPROTO_TCP, option, value)
        try:
            self._login()
        except BaseException:
            self._socket.close()
            raise
        self._most = _MOST
        self._socket.settimeout(None)

    def _login(self) -> None:
        munge, until, own = Munge(), time.monotonic() + _LOGIN_SECONDS, _host_uid()
        challenge = self._expect("challenge", until)
        nonce, uid = challenge.get("nonce"), challenge.get("uid")
        if not isinstance(nonce, str) or len(nonce) != 32 or not set(nonce) <= set("0123456789abcdef"):
            raise ChannelError("login: the launcher's challenge is malformed")
        if uid != own:
            raise ChannelError("login: what listens at the launcher's address is not this user's launcher")
        host, port = self._socket.getpeername()[:2]
        fields = {"service": "worker", "job": os.environ.get("ESPALIER_ANCHOR", "0"), "server": f"{host}:{port}",
                  "server_uid": uid, "client_uid": own, "server_nonce": nonce, "client_nonce": os.urandom(16).hex()}
        key = os.urandom(32)
        text = _lines("espalier 2 client", {**fields, "token": self._token, "key": key.hex()})
        self.send({"type": "login", "credential": munge.seal(text, own)})
        credential = self._expect("welcome", until).get("credential")
        if not isinstance(credential, str):
            raise ChannelError("login: the launcher's welcome is malformed")
        answer, sealer, reader = munge.open(credential)
        theirs = answer.rpartition("key=")[2].strip()
        if sealer != own or reader != own or answer != _lines("espalier 2 server", {**fields, "key": theirs}):
            raise ChannelError("login: the launcher's credential is not for this login: somebody passes the connection on")
        try:
            session = hmac.new(key + bytes.fromhex(theirs), (text + answer).encode(), hashlib.sha256).digest()
        except ValueError as error:
            raise ChannelError("login: the launcher's key is malformed") from error
        self._sent, self._received = Tags(session, b"client to server"), Tags(session, b"server to client")

    def _expect(self, kind: str, until: float) -> Frame:
        frame = self.receive(max(0.001, until - time.monotonic()))
        if frame is None:
            raise ChannelError(f"login: no `{kind}` from the launcher within {_LOGIN_SECONDS:.0f} s")
        if frame["type"] == "refused":
            raise ChannelError(f"login: the launcher refuses this worker: {frame.get('reason')}")
        if frame["type"] != kind:
            raise ChannelError(f"login: got `{frame['type']}` instead of `{kind}`")
        return frame

    def send(self, frame: Frame) -> None:
        data = encode(frame)
        with self._sending:  # a tag holds the frame's place in the stream
            if self._sent:
                data += self._sent.next(data)
            try:
                self._socket.sendall(data)
            except OSError as error:
                raise Dropped(f"launcher: {error}") from error

    def receive(self, timeout: Optional[float] = None) -> Optional[Frame]:
        """The next message; None after `timeout` seconds. Raises ChannelError when the stream ends or is no good."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            frame = self._whole()
            if frame is not None:
                return frame
            try:
                self._socket.settimeout(None if until is None else max(0.001, until - time.monotonic()))
                data = self._socket.recv(1 << 16)
            except socket.timeout:
                return None
            except OSError as error:
                raise Dropped(f"launcher: {error}") from error
            if not data:
                raise Dropped("launcher: the connection has ended")
            self._input += data
            if until is not None and time.monotonic() > until:
                return self._whole()

    def _whole(self) -> Optional[Frame]:
        """Takes the frame at the front of what has come. None: more is needed."""
        size = frame_size(self._input, self._most)
        tag = _TAG if self._received else 0
        if size is None or len(self._input) < size + tag:
            return None
        data, sealed = self._input[:size], self._input[size:size + tag]
        self._input = self._input[size + tag:]
        if self._received and not hmac.compare_digest(sealed, self._received.next(data)):
            raise ChannelError("stream: a message's tag is wrong: it was changed, repeated, or is out of order")
        return decode(data)

    def close(self) -> None:
        self._socket.close()
