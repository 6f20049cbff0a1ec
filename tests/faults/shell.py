"""Commands inside a box: as its root, and as boxuser, who owns the jobs. All have a time limit."""
import os
import subprocess

BOX = os.environ["BOX"]
HOME = f"{BOX}/home"
USER = 4242


def run(*command, check=True, timeout=30):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def as_user(*command, **options):
    return run("env", "-C", HOME, f"HOME={HOME}", "USER=boxuser", "setpriv", "--reuid", "boxuser", "--regid", "boxuser",
               "--clear-groups", *command, **options)


def on_node(node, *command, **options):
    """In the node's network namespace."""
    return run("nsenter", f"--net=/run/netns/{node}", *command, **options)
