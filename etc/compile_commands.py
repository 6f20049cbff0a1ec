"""make -nB ... | compile_commands.py: the compilation database of what make would compile, for clang-tidy and clangd."""
import json
import os
import shlex
import sys

# What only GCC knows.
FOREIGN = {"-fstack-clash-protection", "-fcf-protection"}

database = []
for line in sys.stdin:
    words = shlex.split(line, posix=True) if " -c -o " in line else []
    if "-c" in words and not words[-1].endswith(".cu"):  # those are nvcc's
        words = [word for word in words if word not in FOREIGN] + ["-Wno-unknown-warning-option"]
        database.append({"directory": os.getcwd(), "file": words[words.index("-o") + 2], "arguments": words})
json.dump(database, sys.stdout, indent=1)
