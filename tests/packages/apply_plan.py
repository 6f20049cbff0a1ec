"""apply_plan.py PLAN: adds the lines that `espalier doctor --fix-plan` prints to the files that it names, as an administrator does.
A line whose key the file has takes its place; under "# into KEY=NAME" words go into the line that begins so. Commands are left
out, and so is what needs cgroups, which the tests' nodes are without."""
import re
import sys

WITHOUT = ("ProctrackType=", "TaskPlugin=")
path, into = None, None
for line in open(sys.argv[1], encoding="utf-8").read().splitlines():
    if match := re.fullmatch(r"# into (\S+)", line):
        into = match[1]
    elif match := re.fullmatch(r"# (/\S+)", line):
        path, into = match[1], None
    elif line.startswith("#"):
        path = None  # commands
    elif line and path and not line.startswith(WITHOUT):
        lines = open(path, encoding="utf-8").read().splitlines()
        key = line.split("=")[0] + "="
        if into:
            for i, one in enumerate(lines):
                if one.split()[:1] == [into]:
                    words = [word for word in one.split() if not word.startswith(key)]
                    lines[i] = " ".join([*words, line])
        elif key not in ("PartitionName=", "NodeName=") and " " not in key:
            lines = [one for one in lines if not one.startswith(key)] + [line]
        elif line not in lines:
            lines.append(line)
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
