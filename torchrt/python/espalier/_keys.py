"""Keys that all processes of a job have and other users have not: derived from the job's token, which processes send to nobody."""
from __future__ import annotations

import hashlib
import hmac


def key_for(token: str, purpose: str) -> bytes:
    """32 bytes. purpose: what the key is used for; keys for different purposes tell nothing about each other."""
    return hmac.new(token.encode(), b"espalier-worker " + purpose.encode(), hashlib.sha256).digest()


def seal_of(token: str) -> bytes:
    """Of what processes of a job read of each other's states (_state.py)."""
    return key_for(token, "state")


def tag_of(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 of the parts, each with its length before it."""
    made = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()
