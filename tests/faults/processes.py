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
    """Workers ("espalier-train") of one generation."""
    wanted = str(generation).encode()
    found = [pid for pid in pids() if name_of(pid) == name]
    return sorted(pid for pid in found if _environment(pid).get(b"ESPALIER_GENERATION") == wanted)


def rank_servers():
    return sorted(pid for pid in pids() if name_of(pid) == "espalier-ranks")


def below(ancestor):
    return [pid for pid in pids() if parent(pid) == ancestor]


def beside_launcher(server):
    """Whether a rank server is the launcher's child, on its node."""
    return "--with-launcher" in _words(server)


def steps():
    """The sruns that hold rank servers."""
    return sorted(pid for pid in pids() if name_of(pid) == "srun" and any("espalier-ranks" in word for word in _words(pid)))


def rank_of(pid):
    return int(_environment(pid).get(b"OMPI_COMM_WORLD_RANK", b"-1"))


def launchers():
    """The plugin tells a launcher its role in a variable or, from Slurm 23.11 on, in its first argument."""
    return [pid for pid in pids() if name_of(pid) == "espalier-launch"
            and (_environment(pid).get(b"ESPALIER_TASK") == b"run" or _words(pid)[1:2] == ["run"])
            and not {"keeper", "step"} & set(_words(pid)[1:2])]


def keepers(extension):
    """Of extensions, or of the anchor's other nodes."""
    return [pid for pid in pids() if name_of(pid) == "espalier-keeper" and ("--extension" in _words(pid)) == extension]


def tethers():
    """What stands between a launcher or keeper and the srun of a rank server."""
    return [pid for pid in pids() if name_of(pid) == "espalier-launch" and _words(pid)[1:2] == ["step"]]


def generations():
    """That have a worker which is not about to be reaped."""
    found = set()
    for pid in pids():
        if name_of(pid) == "espalier-train":
            generation = _environment(pid).get(b"ESPALIER_GENERATION")
            if generation is not None and generation.isdigit():  # a spare is of none
                found.add(int(generation))
    return found
