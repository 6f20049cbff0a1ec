"""Unit tests of spares: a process that imports the package ahead of time, and learns later which rank it is. Run by
tests/torchrt/python.bats."""
import os
import socket
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

    def __init__(self, script: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "script.py")
        with open(path, "w") as file:
            file.write(script)
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(300)
        environment = {**os.environ, "ESPALIER_SPARE": str(theirs.fileno()), "ESPALIER_GENERATION": "spare     ", "HOME": "/before"}
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


class Imports(unittest.TestCase):
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
