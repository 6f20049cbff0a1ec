"""train.py as with a package or a launcher of another version. ESPALIER_TEST_FORM says which, as words with commas between them:
older-package: its messages have no field that may be absent; newer-package: they have fields that nobody knows; older-launcher: what the launcher says
comes without fields that may be absent; newer-launcher: it comes with fields that nobody knows; protocol-N: the package speaks version N."""
import os
import pathlib
import runpy
import sys

import espalier  # waits here, where it was started ahead
from espalier import _channel

FORMS = os.environ.get("ESPALIER_TEST_FORM", "").split(",")
MAY_BE_ABSENT = {"hello": ("spare", "parallel"), "step": ("settled",), "assign": ("jobs",), "switch": ("jobs",)}
NEEDED_CAPABILITIES = ("parallel", "global_batch")
LATER = {"weather": {"sun": True}, "of_the_next_version": [1, None, "red"]}
seen = set()


def say(form):
    if form not in seen:
        seen.add(form)
        print(f"versions: {form}", file=sys.stderr, flush=True)


def without(frame):
    kind = frame["type"]
    if not any(name in frame for name in MAY_BE_ABSENT.get(kind, ())) and "capabilities" not in frame:
        return frame
    made = {name: value for name, value in frame.items() if name not in MAY_BE_ABSENT.get(kind, ())}
    if "capabilities" in made:
        made["capabilities"] = {name: value for name, value in made["capabilities"].items() if name in NEEDED_CAPABILITIES}
    if "flat" in made:
        made["flat"] = {name: value for name, value in made["flat"].items() if name != "sync_ms"}
    return made


def more(frame):
    return {**LATER, **{name: {**LATER, **value} if isinstance(value, dict) and name not in ("phases_ms", "jobs") else value
                        for name, value in frame.items()}}


send, receive = _channel.Channel.send, _channel.Channel.receive


def send_changed(channel, frame):
    if frame["type"] != "login":
        for form, change in (("older-package", without), ("newer-package", more)):
            if form in FORMS:
                say(form)
                frame = change(frame)
    send(channel, frame)


def receive_changed(channel, timeout=None):
    frame = receive(channel, timeout)
    if frame is not None and frame["type"] not in ("challenge", "welcome"):
        for form, change in (("older-launcher", without), ("newer-launcher", more)):
            if form in FORMS:
                say(form)
                frame = change(frame)
    return frame


_channel.Channel.send, _channel.Channel.receive = send_changed, receive_changed
for form in FORMS:
    if form.startswith("protocol-"):
        _channel.VERSION = int(form.rpartition("-")[2])
sys.argv[0] = str(pathlib.Path(__file__).resolve().parent / "train.py")
runpy.run_path(sys.argv[0], run_name="__main__")
