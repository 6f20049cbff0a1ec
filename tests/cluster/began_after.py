"""began_after.py METRICS < PIDS: fails where a process began before the newest generation's first step did."""
import json
import os
import sys
import time

steps = [json.loads(line) for line in open(sys.argv[1])]
newest = steps[-1]["generation"]
first = next(step for step in steps if step["generation"] == newest)
begin = first["time"] - first["seconds"]
boot = time.time() - float(open("/proc/uptime").read().split()[0])
for pid in sys.stdin.read().split():
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    began = boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    print(f"{pid} began {began - begin:+.2f} s after the first step of generation {newest} did")
    assert began > begin - 0.1, "a spare was started beside ranks that started"
