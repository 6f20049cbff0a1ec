"""Unit tests of spares: a process that imports the package ahead of time, and learns later which rank it is. Run by
tests/torchrt/python.bats."""
import ctypes
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPT = """
import argparse
import espalier
import os, sys
import torch
from torch.nn.functional import no_such_function as nothing
"""
SEES = """
import os
early = os.environ.get("ESPALIER_SPARE")
import espalier
import sys
shown = open("/proc/self/environ", "rb").read().split(b"\\0")
print(early is not None, "torch" in sys.modules, "wave" in sys.modules, os.environ.get("RANK"), os.environ.get("HOME"),
      os.popen("echo $RANK").read().strip(), b"ESPALIER_GENERATION=7" in shown)
import wave
"""


class Spare:
    """A process of `script`, as a rank server starts it ahead."""

    def __init__(self, script: str, **variables: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "script.py")
        with open(path, "w") as file:
            file.write(script)
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(300)
        environment = {**os.environ, "ESPALIER_SPARE": str(theirs.fileno()), "ESPALIER_GENERATION": "spare     ", "HOME": "/before",
                       **variables}
        self.process = subprocess.Popen([sys.executable, "-s", path], env=environment, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        theirs.close()

    def end(self):
        self.ours.close()
        out, error = self.process.communicate(timeout=300)
        self.folder.cleanup()
        return self.process.returncode, out, error


def rank(**variables: str) -> bytes:
    keep = {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "PATH") if name in os.environ}
    return b"".join(f"{name}={value}".encode() + b"\0" for name, value in {**keep, **variables}.items())


class Spares(unittest.TestCase):
    def test_it_loads_what_is_heavy_and_takes_its_environment(self):
        spare = Spare(SEES)
        self.assertEqual(spare.ours.recv(1), b"r")
        spare.ours.sendall(rank(RANK="5", ESPALIER_GENERATION="7", LONG="x" * 100000))
        self.assertEqual(spare.end(), (0, "True True False 5 None 5 True\n", ""))

    def test_one_that_is_needed_before_it_has_loaded_goes_on(self):
        spare = Spare(SEES)
        spare.ours.sendall(rank(RANK="2"))
        code, out, error = spare.end()
        self.assertEqual((code, error), (0, ""))
        self.assertIn("True True False 2", out)

    def test_one_that_nobody_needs_leaves_without_a_word(self):
        spare = Spare(SEES)
        self.assertEqual(spare.ours.recv(1), b"r")
        self.assertEqual(spare.end(), (0, "", ""))

    def test_an_import_that_fails_is_the_scripts_to_report(self):
        spare = Spare(SCRIPT)
        self.assertEqual(spare.ours.recv(1), b"r")
        spare.ours.sendall(rank(RANK="0"))
        code, out, error = spare.end()
        self.assertEqual((code, out), (1, ""))
        self.assertIn("no_such_function", error)


class Forks(unittest.TestCase):
    def setUp(self):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER

    def forked(self, spare, **variables: str):
        """What a process that the fork server makes prints, and its exit code."""
        ours, theirs = socket.socketpair()
        out, into = os.pipe()
        ours.settimeout(300)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        socket.send_fds(spare.ours, [b"f"], [theirs.fileno(), into, into])
        theirs.close()
        os.close(into)
        word, credentials, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(12))
        self.assertEqual(word, b"r")
        ours.sendall(rank(**variables))
        ours.close()
        with open(out) as file:
            text = file.read()
        _, status = os.waitpid(struct.unpack("3i", credentials[0][2])[0], 0)  # a child of this process
        return text, os.waitstatus_to_exitcode(status)

    def test_one_that_may_fork_loads_once_and_makes_others(self):
        spare = Spare(SEES + "import numpy; print(numpy.random.random(), os.getpgrp() == os.getpid(), file=sys.stderr)\nsys.exit(int(os.environ['RANK']))\n",
                      ESPALIER_SPARE_FORKS="1")
        self.assertEqual(spare.ours.recv(1), b"f")
        drawn = set()
        for number in "3", "4":
            text, code = self.forked(spare, RANK=number, ESPALIER_GENERATION="7")
            self.assertEqual(code, int(number), text)
            seen, numbers = sorted(text.splitlines(), key=lambda line: "False" not in line)
            self.assertEqual(seen, f"True True False {number} None {number} True")
            draw, leads = numbers.split()
            self.assertEqual(leads, "True")
            drawn.add(draw)
        self.assertEqual(len(drawn), 2)
        self.assertEqual(spare.end(), (0, "", ""))

    def test_one_with_threads_of_its_own_is_a_spare_like_any(self):
        spare = Spare("import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n" + SEES,
                      ESPALIER_SPARE_FORKS="1")
        self.assertEqual(spare.ours.recv(1), b"r")
        spare.ours.sendall(rank(RANK="5", ESPALIER_GENERATION="7"))
        self.assertEqual(spare.end(), (0, "True True False 5 None 5 True\n", ""))


    def refuses(self, before: str):
        spare = Spare(before + SEES, ESPALIER_SPARE_FORKS="1")
        self.assertEqual(spare.ours.recv(1), b"r")
        spare.ours.sendall(rank(RANK="5", ESPALIER_GENERATION="7"))
        code, out, error = spare.end()
        self.assertEqual((code, error), (0, ""))
        self.assertIn("5 None 5 True", out)

    def test_one_with_an_open_file_is_a_spare_like_any(self):
        self.refuses("held = open(__file__)\n")

    def test_one_in_which_a_devices_library_was_asked_for_devices_is_a_spare_like_any(self):
        self.refuses("import torch\ntorch._C._cuda_isInBadFork = lambda: True\n")


class Imports(unittest.TestCase):
    def ahead(self, text):
        import ast

        from espalier._spare import _imports_of
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(text)
            file.flush()
            return [ast.unparse(one) for one in _imports_of(file.name)]

    def test_what_the_script_imports_after_it_has_changed_its_environment_does_not_run_ahead(self):
        for change in ("os.environ['HF_HOME'] = '/x'", "os.environb[b'HF_HOME'] = b'/x'", "environ.setdefault('HF_HOME', '/x')", "os.putenv('HF_HOME', '/x')",
                       "dotenv.load_dotenv()", "load_dotenv()", "if True:\n    os.environ['HF_HOME'] = '/x'", "def there():\n    os.environ.update(HF_HOME='/x')"):
            with self.subTest(change=change):
                self.assertEqual(self.ahead(f"import espalier\nimport torch\n{change}\nimport transformers\n"), ["import torch"])
                # What stands above the package's import has run when a spare comes there.
                self.assertEqual(self.ahead(f"{change}\nimport espalier\nimport torch\n"), ["import torch"])
                self.assertEqual(self.ahead(f"{change}\nfrom espalier.transformers import attach\nimport torch\n"), ["import torch"])
                self.assertEqual(self.ahead(f"{change}\nimport torch\n"), [])  # nobody knows where the package is imported

    def test_an_environment_that_the_script_changes_is_what_its_imports_see(self):
        spare = Spare("import espalier\nimport os\nos.environ['NUMPY_MADE_UP'] = '1'\nimport sys\nprint('numpy.testing' in sys.modules)\nimport numpy.testing\n")
        self.assertEqual(spare.ours.recv(1), b"r")
        spare.ours.sendall(rank(RANK="0"))
        self.assertEqual(spare.end()[:2], (0, "False\n"))

    def test_only_top_level_imports_of_known_libraries_run_ahead(self):
        import ast

        from espalier._spare import _imports_of
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write("import torch, mine\nimport torch as t, numpy\nfrom torch.nn import functional\nimport mpi4py.MPI\n"
                       "from . import torch\nif True:\n    import numpy\nfrom torchmine import x\n")
            file.flush()
            self.assertEqual([ast.unparse(one) for one in _imports_of(file.name)],
                             ["import torch as t, numpy", "from torch.nn import functional"])
            file.write("this is no Python\n")
            file.flush()
            self.assertEqual(_imports_of(file.name), [])
        self.assertEqual(_imports_of("/nonexistent.py"), [])


if __name__ == "__main__":
    unittest.main()
