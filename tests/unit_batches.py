"""unit_batches.py FOLDER SIZE: writes sources to FOLDER that each include up to SIZE files of tests/unit, and prints the
sources to compile, in place of those files. Most of what a test file costs the compiler is its headers and what is made of
their templates: a batch pays that once. The files of a batch have names in common, so each is in a namespace of its own,
behind the headers of all."""
import glob
import os
import re
import sys

# What cannot be put into a namespace, or would reach the files behind it.
ALONE = re.compile(r"^(namespace [a-z]|extern |template <>|int main|#\s*(?!include\b))", re.MULTILINE)
INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)


def batches(files, size):
    """Lists of files whose names begin alike, of much the same length."""
    kinds = {}
    for file in files:
        kinds.setdefault(os.path.basename(file).split("_")[0], []).append(file)
    for kind, own in sorted(kinds.items()):
        count = -(-len(own) // size)
        for at in range(count):
            yield f"{kind}_{at}", own[at * len(own) // count:(at + 1) * len(own) // count]


def write(path, text):
    """Not where it is there already: make goes by its time."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        pass
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def main():
    folder, size = sys.argv[1], int(sys.argv[2])
    alone, together = [], []
    texts = {}
    for file in sorted(glob.glob("tests/unit/*.cpp")):
        with open(file, encoding="utf-8") as source:
            texts[file] = source.read()
        (alone if size < 2 or ALONE.search(texts[file]) else together).append(file)
    for name, files in batches(together, max(1, size)):
        if len(files) == 1:
            alone += files
            continue
        headers = dict.fromkeys(line for file in files for line in INCLUDE.findall(texts[file]))
        parts = ["namespace of_{} {{\n#include \"{}\"\n}}\n".format(os.path.basename(file)[:-4], file) for file in files]
        path = f"{folder}/{name}.cpp"
        write(path, "\n".join(headers) + "\n" + "".join(parts))
        alone.append(path)
    print(*alone)


main()
