#!/usr/bin/env python3
"""run.py TARGET...: runs fuzz targets, one after the other, and says what they did and reached.

Environment: BUILD, SECONDS_EACH, PARSERS (the source files whose lines are counted). Corpora grow in BUILD/fuzz/corpora;
an input that breaks a target is kept in BUILD/fuzz/broken. The result is BUILD/fuzz.json. Exit code 1: a target broke.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

BUILD = Path(os.environ["BUILD"])
SECONDS = int(os.environ["SECONDS_EACH"])
HERE = Path(__file__).parent
FOLDER = BUILD / "fuzz"


def arguments(name):
    """Of libFuzzer: limits on one input, and where inputs come from and go to."""
    (FOLDER / "corpora" / name).mkdir(parents=True, exist_ok=True)
    (FOLDER / "broken").mkdir(parents=True, exist_ok=True)
    dictionary = HERE / "dictionaries" / f"{name}.dict"
    return [
        str(FOLDER / "bin" / name), str(FOLDER / "corpora" / name), str(HERE / "seeds" / name),
        "-timeout=25", "-rss_limit_mb=2048", "-max_len=65536", "-print_final_stats=1", "-seed=1",
        f"-artifact_prefix={FOLDER}/broken/{name}-",
    ] + ([f"-dict={dictionary}"] if dictionary.exists() else [])


def run(name, more, profile, seconds):
    environment = dict(os.environ, LLVM_PROFILE_FILE=str(profile), UBSAN_OPTIONS="print_stacktrace=1",
                       ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=1",
                       LSAN_OPTIONS=f"suppressions={HERE}/leaks.txt:print_suppressions=0")
    return subprocess.run(arguments(name) + more, env=environment, text=True, errors="replace", timeout=seconds + 300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def fuzz(name):
    done = run(name, [f"-max_total_time={SECONDS}"], "/dev/null", SECONDS)
    runs = re.search(r"stat::number_of_executed_units: (\d+)", done.stdout)
    if done.returncode != 0:
        print(done.stdout[-6000:])
    return {"runs": int(runs[1]) if runs else 0, "broken": done.returncode != 0}


def profile_of(name):
    """The lines that the target's corpus and seeds reach."""
    raw = FOLDER / f"{name}.profraw"
    raw.unlink(missing_ok=True)
    run(name, ["-runs=0"], raw, 300)
    return raw if raw.exists() else None  # None: an input ended the target


def lines_covered(names):
    """{file: (covered lines, lines)} of all targets together."""
    merged = FOLDER / "all.profdata"
    raws = [raw for raw in map(profile_of, names) if raw]
    if not raws:
        return {}
    subprocess.run(["llvm-profdata", "merge", "-sparse", "-o", merged] + raws, check=True)
    objects = [part for name in names[1:] for part in ("-object", str(FOLDER / "bin" / name))]
    exported = subprocess.run(["llvm-cov", "export", "-summary-only", f"-instr-profile={merged}", str(FOLDER / "bin" / names[0])]
                              + objects, check=True, stdout=subprocess.PIPE, text=True).stdout
    covered = {}
    for file in json.loads(exported)["data"][0]["files"]:
        lines = file["summary"]["lines"]
        covered[os.path.relpath(file["filename"])] = (lines["covered"], lines["count"])
    return {name: covered[name] for name in os.environ["PARSERS"].split() if name in covered}


def main(names):
    result = {"seconds_each": SECONDS, "targets": {}, "lines": {}}
    for name in names:
        result["targets"][name] = one = fuzz(name)
        print(f"{name:24} {one['runs']:>10} runs {'BROKEN' if one['broken'] else 'ok'}", flush=True)
    for name, (covered, lines) in lines_covered(names).items():
        result["lines"][name] = {"covered": covered, "of": lines}
        print(f"{100 * covered / max(1, lines):5.1f}% of {lines:4} lines of {name}")
    (BUILD / "fuzz.json").write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(one["broken"] for one in result["targets"].values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
