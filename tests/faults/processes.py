"""The processes of boxuser, by what they are and which generation they belong to."""
import os

from shell import USER


def _environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
    except OSError:
        return {}


def _words(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace").split("\0")
    except OSError:
        return []


def command(pid):
    return " ".join(_words(pid)).strip()[:100]


def job_of(pid):
    """The Slurm job it belongs to, or works for; "" for none."""
    environment = _environment(pid)
    return (environment.get(b"SLURM_JOB_ID") or environment.get(b"ESPALIER_ANCHOR") or b"").decode()


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def pids():
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == USER:
                yield int(name)
        except OSError:
            continue


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def of_generation(name, generation):
    """Workers ("espalier-train"), "orted", "mpirun" or the steps ("srun") of one generation."""
    wanted = str(generation).encode()
    found = [pid for pid in pids() if name_of(pid) == name]
    return sorted(pid for pid in found if _environment(pid).get(b"ESPALIER_GENERATION") == wanted)


def below(ancestor):
    """Its children and grandchildren: a worker may have a supervisor between itself and orted."""
    return [pid for pid in pids() if ancestor in (up := parent(pid), up and parent(up))]


def rank_of(pid):
    return int(_environment(pid).get(b"OMPI_COMM_WORLD_RANK", b"-1"))


def launchers():
    return [pid for pid in pids() if name_of(pid) == "espalier-launch" and _environment(pid).get(b"ESPALIER_TASK") == b"run"
            and not {"agent", "keeper", "step", "shield", "rank"} & set(_words(pid)[1:2])]


def keepers(extension):
    """Of extensions, or of the anchor's other nodes."""
    return [pid for pid in pids() if name_of(pid) == "espalier-keeper" and ("--extension" in _words(pid)) == extension]


def helpers(generation, *wanted):
    """espalier-launch's, by their first argument."""
    return [pid for name in ("espalier-launch", "espalier-rank") for pid in of_generation(name, generation)
            if _words(pid)[1:2] and _words(pid)[1] in wanted]


def generations():
    """That have a process which is not about to be reaped: a worker, what starts it, or what supervises it."""
    found = set()
    for pid in pids():
        if name_of(pid) in ("espalier-train", "mpirun", "orted") or "rank" in _words(pid)[1:2]:
            generation = _environment(pid).get(b"ESPALIER_GENERATION")
            if generation is not None:
                found.add(int(generation))
    return found
