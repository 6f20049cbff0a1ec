"""Unit tests of the Python package: which samples a process computes, what it tells the launcher, and bad input of each. Run by
tests/torchrt/python.bats."""
import contextlib
import hashlib
import hmac
import io
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

from espalier import _channel, _profile, _slices


class Slices(unittest.TestCase):
    def test_every_sample_belongs_to_one_replica_and_each_step_follows_the_last(self):
        for batch in (1, 7, 24, 100):
            for replicas in range(1, min(batch, 9) + 1):
                shares = _slices.even_shares(batch, replicas)
                used = [n for step in (1, 2, 3) for r in range(replicas) for n in _slices.slice_of(step, batch, shares, r)]
                self.assertEqual(used, list(range(3 * batch)))
                self.assertLessEqual(max(shares) - min(shares), 1)

    def test_a_batch_smaller_than_the_world_is_refused_in_words(self):
        with self.assertRaisesRegex(ValueError, "global batch of 3 samples is smaller than the 4 processes"):
            _slices.even_shares(3, 4)

    def test_a_replica_of_several_processes_has_one_share(self):
        plan = {"micro_batches": 1, "stages": [{"replicas": [{"share": 5, "gpus": ["a/0", "a/1"]}, {"share": 3, "gpus": ["b/0", "b/1"]}]}]}
        self.assertEqual(_slices.shares_of(plan, 8, (2,)), ([5, 3], 2))
        self.assertEqual(_slices.nodes_of(plan), ["a", "a", "b", "b"])
        with self.assertRaisesRegex(ValueError, "replica of 2 GPUs, and this program's replicas have 4 processes"):
            _slices.shares_of(plan, 8, (4,))

    def test_shares_come_from_the_plan_also_uneven_ones(self):
        plan = {"micro_batches": 1, "stages": [{"replicas": [{"share": 5, "gpus": ["n1/0"]}, {"share": 3, "gpus": ["n-a/b/1"]}]}]}
        self.assertEqual(_slices.shares_of(plan, 8), ([5, 3], 1))
        self.assertEqual(_slices.nodes_of(plan), ["n1", "n-a/b"])
        self.assertEqual(_slices.jobs_of(plan, {"n-a/b/1": 7}), ["", "7"])

    def test_a_plan_of_another_kind_is_refused_in_words(self):
        stage = {"replicas": [{"share": 8, "gpus": ["n1/0"]}]}
        with self.assertRaisesRegex(ValueError, "pipeline stages"):
            _slices.shares_of({"stages": [stage, stage]}, 8)
        with self.assertRaisesRegex(ValueError, "a replica of 2 GPUs"):
            _slices.shares_of({"stages": [{"replicas": [{"share": 8, "gpus": ["n1/0", "n1/1"]}]}]}, 8)
        with self.assertRaisesRegex(ValueError, "divides 8 samples, the global batch is 9"):
            _slices.shares_of({"stages": [stage]}, 9)

    def test_parts_cover_a_slice_in_order(self):
        for length in range(1, 12):
            for most in range(1, 13):
                parts = _slices.parts_of(range(5, 5 + length), most)
                self.assertEqual([n for part in parts for n in part], list(range(5, 5 + length)))
                self.assertLessEqual(max(map(len, parts)), most)
        with self.assertRaises(ValueError):
            _slices.parts_of(range(3), 0)

    def test_all_replicas_have_as_many_parts_where_their_samples_allow(self):
        for shares in ((13, 12), (9, 8, 8), (30, 7)):
            for most in range(1, 13):
                parts = [_slices.parts_of(range(share), most, shares) for share in shares]
                self.assertEqual([len(one) for one in parts], [min(share, _slices.count_of(shares, most)) for share in shares])
                self.assertLessEqual(max(len(part) for one in parts for part in one), most)


class Frames(unittest.TestCase):
    def test_a_frame_comes_back_and_more_bytes_stay(self):
        data = _channel.encode({"type": "step", "loss": None, "text": "ä"})
        for cut in range(8):
            self.assertIsNone(_channel.frame_size(data[:cut]))
        self.assertEqual(_channel.frame_size(data + b"ESP"), len(data))
        self.assertEqual(_channel.decode(data)["text"], "ä")

    def test_a_tag_holds_the_frame_and_its_place_and_its_direction(self):
        first, again = _channel.Tags(b"key", b"a"), _channel.Tags(b"key", b"a")
        tags = [first.next(b"one"), first.next(b"one"), first.next(b"two")]
        self.assertEqual(len(set(tags)), 3)
        self.assertEqual(tags, [again.next(b"one"), again.next(b"one"), again.next(b"two")])
        self.assertNotEqual(_channel.Tags(b"key", b"b").next(b"one"), tags[0])
        self.assertNotEqual(_channel.Tags(b"other", b"a").next(b"one"), tags[0])
        # HMAC-SHA256 of the key's direction, then of a counter of 8 bytes and the frame.
        self.assertEqual(tags[0].hex(), hmac.new(hmac.new(b"key", b"a", hashlib.sha256).digest(), bytes(8) + b"one",
                                                 hashlib.sha256).hexdigest()[:32])

    def tagged(self, change):
        """A channel after its login whose first message has been through `change`."""
        channel = _channel.Channel.__new__(_channel.Channel)
        channel._most, channel._received = 1 << 20, _channel.Tags(b"session", b"server to client")
        tags = _channel.Tags(b"session", b"server to client")
        frames = [_channel.encode({"type": "switch", "next": n}) for n in (1, 2)]
        channel._input = change([frame + tags.next(frame) for frame in frames])
        return channel

    def test_tagged_messages_are_read_in_order_and_what_somebody_changed_is_refused(self):
        channel = self.tagged(b"".join)
        self.assertEqual([channel._whole()["next"], channel._whole()["next"], channel._whole()], [1, 2, None])
        self.assertIsNone(self.tagged(lambda frames: frames[0][:-1])._whole())
        for change in (lambda f: f[1] + f[0], lambda f: f[1], lambda f: f[0].replace(b"1", b"3", 1),
                       lambda f: f[0][:-1] + bytes([f[0][-1] ^ 1])):
            with self.assertRaisesRegex(_channel.ChannelError, "tag is wrong"):
                self.tagged(change)._whole()
        channel = self.tagged(lambda f: f[0] + f[0])
        channel._whole()
        with self.assertRaisesRegex(_channel.ChannelError, "tag is wrong"):
            channel._whole()

    def refused(self, data, what, most=1 << 20):
        with self.assertRaisesRegex(_channel.ChannelError, what):
            size = _channel.frame_size(data, most)
            self.assertEqual(size, len(data))
            _channel.decode(data)

    def test_bad_frames_are_refused_by_what_is_wrong(self):
        good = _channel.encode({"type": "ready"})
        self.refused(b"HTTP/1.1", "not the Espalier protocol")
        self.refused(b"ESP\x63" + good[4:], "protocol version 99")
        self.refused(good[:4] + (1 << 27).to_bytes(4, "big"), "134217728 bytes is larger")
        body = lambda text: good[:4] + len(text).to_bytes(4, "big") + text
        self.refused(body(b"{"), "not JSON")
        self.refused(body(b"[" * 100000), "not JSON")
        self.refused(body(b"[1]"), "no type")
        self.refused(body(b'{"type":1}'), "no type")

    def test_what_cannot_be_sent_is_an_error_here(self):
        with self.assertRaises(ValueError):
            _channel.encode({"type": "step", "loss": float("nan")})
        with self.assertRaisesRegex(_channel.ChannelError, "larger than a frame"):
            _channel.encode({"type": "failed", "message": "x" * (9 << 20)})

    def test_a_launcher_that_is_not_there_or_ends_is_an_error_in_time(self):
        for address in ("nowhere", "host:port", ":1"):
            with self.assertRaisesRegex(_channel.ChannelError, "host:port"):
                _channel.Channel(address, "")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            with self.assertRaises(_channel.ChannelError):
                _channel.Channel("127.0.0.1:%d" % closed.getsockname()[1], "")
        with socket.create_server(("127.0.0.1", 0)) as server, unittest.mock.patch.object(_channel, "_DROPPED_SECONDS", 0.0):
            threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
            with self.assertRaisesRegex(_channel.Dropped, "has ended"):
                _channel.Channel("127.0.0.1:%d" % server.getsockname()[1], "")

    def test_a_worker_that_is_dropped_in_its_login_comes_again(self):
        came = []

        def serve(server):
            for welcome in (False, False, True):
                came.append(server.accept()[0])
                if welcome:
                    came[-1].sendall(_channel.encode({"type": "challenge"}))
                else:
                    came[-1].close()

        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=serve, args=(server,), daemon=True).start()
            with self.assertRaisesRegex(_channel.ChannelError, "challenge is malformed"):  # which is no reason to come again
                _channel.Channel("127.0.0.1:%d" % server.getsockname()[1], "")
        self.assertEqual(len(came), 3)
        for connection in came:
            connection.close()


class Telling(unittest.TestCase):
    """What the training's thread tells is sent by another one."""

    def control(self, send, heartbeat=0.0, **more):
        from espalier import _control
        made = types.SimpleNamespace(send=send, receive=lambda: threading.Event().wait())
        with unittest.mock.patch.object(_control, "Channel", lambda *_: made):
            control = _control.Control("none:1", "", heartbeat, **more)
        control.hello(rank=0)
        return control

    def test_messages_go_in_the_order_in_which_they_were_told_heartbeats_among_them(self):
        sent = []
        control = self.control(lambda frame: sent.append((time.sleep(0.02), frame.get("step"), frame["type"])[1:]), 0.01)
        control.begin_heartbeats()
        for step in range(50):
            control.send("step", step=step)
        self.assertLess(len(sent), 50)  # it has waited for none of them
        control.send("switched", step=50)
        self.assertEqual(sent[0], (None, "hello"))
        told = [one for one in sent if one[1] == "step"]
        self.assertEqual(told, [(step, "step") for step in range(50)])
        before = [one for one in sent if one[1] != "heartbeat"]
        self.assertEqual(before[-1], (50, "switched"))
        self.assertGreater(len(sent), len(before))
        control.farewell()

    def test_a_launcher_is_waited_for_as_long_as_it_said_and_not_for_ever(self):
        control, begun = self.control(lambda _: None, patience=0.3), time.monotonic()
        with self.assertRaisesRegex(_channel.ChannelError, "launcher: no `commit` within 0 s; see its log"):
            control.expect("commit")
        self.assertGreaterEqual(time.monotonic() - begun, 0.3)
        self.assertLess(time.monotonic() - begun, 60)

    def test_time_in_which_the_process_stood_still_does_not_count(self):
        from espalier import _control
        control, begun = self.control(lambda _: None, patience=0.5), time.monotonic()

        class Frames:  # Slurm has the process suspended in its second look
            def __init__(self, come_in_look):
                self.look, self.come_in_look = 0, come_in_look

            def get(self, timeout):
                self.look += 1
                time.sleep(1.5 if self.look == 2 else timeout)
                if self.look == self.come_in_look:
                    return {"type": "commit"}
                raise queue.Empty

        with unittest.mock.patch.multiple(_control, _LOOK=0.1, _STALLED=1.0):
            control._frames = Frames(come_in_look=0)
            with self.assertRaisesRegex(_channel.ChannelError, "no `commit`"):
                control.expect("commit")
            self.assertGreaterEqual(time.monotonic() - begun, 1.85)
            control._frames = Frames(come_in_look=3)
            self.assertEqual(control.expect("commit"), {"type": "commit"})

    def test_who_tells_its_last_words_waits_until_they_are_sent_and_not_for_ever(self):
        from espalier import _control
        sent, gone = [], threading.Event()

        def send(frame):
            time.sleep(0.05)
            if gone.is_set():
                raise _channel.ChannelError("launcher: gone")
            sent.append(frame["type"])

        control = self.control(send)
        control.send("step", step=1)
        control.send("failed", message="x")
        self.assertEqual(sent, ["hello", "step", "failed"])
        control.farewell()
        gone.set()
        begin = time.monotonic()
        for _ in range(3):
            control.send("done", step=1)  # as nobody hears it, nothing is waited for
        self.assertLess(time.monotonic() - begin, _control._SENT_WITHIN / 2)

    def test_a_launcher_that_takes_nothing_is_waited_for_so_long_and_no_longer(self):
        from espalier import _control
        stuck = threading.Event()
        control = self.control(lambda frame: frame["type"] == "hello" or stuck.wait(60))
        with unittest.mock.patch.object(_control, "_SENT_WITHIN", 0.2):
            begin = time.monotonic()
            with contextlib.redirect_stderr(io.StringIO()) as said:
                control.send("failed", message="x")
            self.assertLess(time.monotonic() - begin, 30)
        self.assertIn("`failed` could not be sent to the launcher within 0 s", said.getvalue())
        stuck.set()

    def test_a_launcher_that_is_lost_is_told_of_with_the_cause(self):
        from espalier import _control
        control, said, ended = self.control(lambda frame: frame["type"] == "hello" or self.lose()), io.StringIO(), threading.Event()
        with unittest.mock.patch.object(_control.os, "_exit", lambda _: ended.set()), contextlib.redirect_stderr(said):
            control.send("step", step=1)
            self.assertTrue(ended.wait(60))
        self.assertIn("the launcher is gone (launcher: the cable is cut); leaving", said.getvalue())

    def lose(self):
        raise _channel.ChannelError("launcher: the cable is cut")

    def test_what_cannot_be_a_message_is_an_error_at_the_next_one(self):
        control = self.control(_channel.encode)
        control.send("step", loss=float("nan"))
        with self.assertRaisesRegex(_channel.ChannelError, "a message cannot be told: Out of range float values"):
            control.send("ready")
        control.send("ready")


class Profiles(unittest.TestCase):
    def test_the_replica_that_waits_least_tells_how_long_synchronization_is(self):
        made = _profile.flat(25, 20, [[10, 3, 1], [12, 1, 2]], (4, 8, 16), 0, 0.01)
        self.assertEqual((made["compute_ms"], made["sync_ms"], made["rest_ms"]), ([10, 12], 1, 2))
        self.assertNotIn("sync_ms", _profile.flat(25, 20, [[10, -1, 1], [12, 1, 2]], (4, 8, 16), 0, 0.01))
        self.assertNotIn("sync_ms", _profile.flat(25, 20, [[10, 3, 1]], (4, 8, 16), 0, 0.01))

    def test_a_replica_is_as_slow_as_its_slowest_process(self):
        told = [[*one, 4, 0.01] for one in ([1, 2, 3], [4, 1, 0], [5, 5, 5], [6, 6, 6])]
        self.assertEqual(_profile.of_replicas(told, 2), [[4, 1, 3], [6, 5, 6]])

    def test_a_process_that_steps_no_optimizer_tells_as_many_numbers_and_counts_for_nothing(self):
        idle, busy = _profile.Samples(), _profile.Samples()
        for _ in range(3):
            busy.add(5.0, 1.0, 2.0)
        self.assertEqual(busy.told(), idle.told())  # too few to tell
        busy.add(5.0, 1.0, 2.0)
        self.assertEqual(busy.told(), [5.0, 1.0, 2.0, 4, 0.0])
        self.assertEqual(len(idle.told()), len(busy.told()))
        self.assertEqual(_profile.of_replicas([idle.told(), busy.told(), busy.told(), idle.told()], 2), [[5, 1, 2], [5, 1, 2]])
        self.assertEqual(_profile.of_replicas([idle.told(), busy.told()], 1), [])

    def test_the_spread_is_small_for_equal_steps_and_large_for_drifting_ones(self):
        self.assertEqual(_profile.spread_of([5.0] * 20), 0)
        self.assertGreater(_profile.spread_of([10.0] * 10 + [5.0] * 10), 0.2)
        self.assertEqual(_profile.spread_of([5.0] * 3), 1.0)


class Join(unittest.TestCase):
    def run_script(self, text, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ESPALIER_LAUNCHER", "OMPI_"))}
        done = subprocess.run([sys.executable, "-c", text], env={**clean, **environment}, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def test_joining_loads_no_torch_and_bad_use_is_refused_in_words(self):
        code, said = self.run_script("import espalier, sys; espalier.join(global_batch=4, steps=1); sys.exit('torch' in sys.modules)")
        self.assertEqual(code, 0, said)
        for call, words in (("espalier.join(global_batch=0, steps=1)", "must be at least 1"),
                            ("espalier.join(global_batch=4, steps=1, checkpoint_minutes=-1)", "checkpoint_minutes=-1): must be between 0"),
                            ("espalier.join(global_batch=4, steps=1, checkpoint_minutes=float('nan'))", "must be between 0"),
                            ("espalier.join(global_batch=4, steps=1, unit=0)", "unit=0): must be between 1 and 1024"),
                            ("espalier.join(global_batch=4, steps=1, unit=2)", "1 processes are no whole replicas of 2"),
                            ("espalier.join(global_batch=4, steps=1, parallel='3d')", 'must be "data"'),
                            ("list(espalier.join(global_batch=4, steps=1).register(x=3) or [])", "has no state_dict"),
                            ("espalier.join(global_batch=4, steps=1).report(1.0)", "inside `for step in run.steps"),
                            ("next(espalier.join(global_batch=4, steps=1).steps())", "run.register"),):
            code, said = self.run_script("import espalier; " + call)
            self.assertNotEqual(code, 0)
            self.assertIn(words, said)
        code, said = self.run_script("import espalier; espalier.join(global_batch=4, steps=1)", RANK="0", WORLD_SIZE="5")
        self.assertIn("smaller than the 5 processes", said)

    def test_joining_raises_the_limit_of_open_files_to_the_hard_one_or_a_million(self):
        text = ("import resource as r, espalier\n"
                "r.setrlimit(r.RLIMIT_NOFILE, (64, {0}))\n"
                "try: espalier.join(global_batch=4, steps=1)\n"
                "except espalier.ChannelError as error: assert 'host:port' in str(error), error\n"
                "print(*r.getrlimit(r.RLIMIT_NOFILE))\n")
        led = {"ESPALIER_LAUNCHER": "nowhere", "ESPALIER_TOKEN": "t", "ESPALIER_GENERATION": "0", "OMPI_COMM_WORLD_RANK": "0"}
        for environment in ({}, led):  # a plain run, and one of a launcher
            code, said = self.run_script(text.format(900), **environment)
            self.assertEqual((code, said), (0, "900 900\n"))

    def test_a_limit_of_open_files_is_never_lowered_and_one_that_cannot_be_raised_ends_nothing(self):
        from espalier import _open_files
        free, most, done = _open_files.resource.RLIM_INFINITY, 1 << 20, []

        def limited(soft, hard, refuses=False):
            done.clear()

            def set_limit(which, limits):
                if refuses:
                    raise ValueError("not allowed to raise maximum limit")
                done.append(limits)

            with unittest.mock.patch.multiple(_open_files.resource, getrlimit=lambda which: (soft, hard), setrlimit=set_limit):
                _open_files.allow_many_files()
            return list(done)

        self.assertEqual(limited(1024, 4096), [(4096, 4096)])
        self.assertEqual(limited(1024, most * 2), [(most, most * 2)])
        self.assertEqual(limited(1024, free), [(most, free)])
        for soft, hard in ((4096, 4096), (most, free), (most + 1, most * 2), (free, free)):
            self.assertEqual(limited(soft, hard), [])
        self.assertEqual(limited(1024, 4096, refuses=True), [])

    def test_a_half_set_environment_is_refused_by_name(self):
        for missing, words in (({}, "ESPALIER_GENERATION"), ({"ESPALIER_GENERATION": "x"}, "is not a number"),
                               ({"ESPALIER_GENERATION": "0"}, "OMPI_COMM_WORLD_RANK"),
                               ({"ESPALIER_GENERATION": "0", "OMPI_COMM_WORLD_RANK": "0"}, "ESPALIER_TOKEN: is not set")):
            code, said = self.run_script("import espalier; espalier.join(global_batch=4, steps=1)", ESPALIER_LAUNCHER="h:1", **missing)
            self.assertNotEqual(code, 0)
            self.assertIn(words, said)

    def test_a_process_that_runs_the_scripts_top_once_more_is_told_which_guard_is_missing(self):
        top = ("import os, espalier\n{0}\nimport multiprocessing as m\n"
               "def work():\n  print('worked')\n"
               "def main():\n  os.environ['ESPALIER_LAUNCHER'] = 'nowhere'\n"
               "  one = m.get_context('{1}').Process(target=work)\n  one.start(); one.join()\n"
               "if __name__ == '__main__': main()\n")
        join = "espalier.join(global_batch=4, steps=1)"
        words = 'runs the script\'s top in it once more; put the script\'s work into a function, from espalier.join() on, and call that below `if __name__ == "__main__":`'
        for how in ("spawn", "forkserver"):
            for guard, wanted in (("", False), ("if __name__ == '__main__': ", True)):
                with tempfile.TemporaryDirectory() as folder:
                    script = os.path.join(folder, "script.py")
                    with open(script, "w") as file:
                        file.write(top.format(guard + join, how))
                    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
                said = done.stdout + done.stderr
                self.assertEqual("worked" in said, wanted, said)
                self.assertEqual(words in said, not wanted, said)

    def test_a_child_that_multiprocessing_has_started_may_itself_be_the_rank(self):
        text = ("import multiprocessing as m, os, sys, espalier\n"
                "def rank():\n  try: espalier.join(global_batch=4, steps=1)\n  except espalier.ChannelError as e: print(e)\n"
                "if __name__ == '__main__':\n  one = m.get_context('spawn').Process(target=rank)\n  one.start(); one.join()\n")
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script.py")
            with open(script, "w") as file:
                file.write(text)
            done = subprocess.run([sys.executable, script], env={**os.environ, "ESPALIER_LAUNCHER": "nowhere"}, capture_output=True, text=True, timeout=300)
        self.assertIn("ESPALIER_GENERATION: is not set", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
