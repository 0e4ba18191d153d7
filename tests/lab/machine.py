"""A machine: Debian with systemd as its first process, in the network namespace of a host.

It starts from a folder that is not changed: what it writes is in memory, and gone with it.
"""

import os
import shutil
from pathlib import Path

from .base import PATIENCE_S, ROOT, CommandFailed, LabError, sh, wait_for

#: Made by scripts/fetch-machine.
ROOT_FOLDER = ROOT / "build" / "machine"


def missing():
    """Why there can be no machine; an empty text when there can."""
    if not shutil.which("systemd-nspawn"):
        return "systemd-nspawn is missing (apt-get install systemd-container)"
    if not (ROOT_FOLDER / "usr/sbin/charon-systemd").exists():
        return f"{ROOT_FOLDER} is not there (scripts/fetch-machine)"
    return ""


class Machine:
    """`binds`: folders of this machine that it sees under the same names."""

    def __init__(self, host, binds=()):
        self.host, self.binds = host, list(binds)
        self.process = self.leader = None

    def start(self):
        self.process = self.host.spawn(
            # `ip netns exec` has mounted a /sys without control groups.
            "nsenter", f"--mount=/proc/{os.getpid()}/ns/mnt", "systemd-nspawn", "--quiet", "--keep-unit", "--register=no", "--boot", "--volatile=overlay",
            "--console=read-only", "--machine", self.host.ns, "--directory", ROOT_FOLDER,
            "--capability=all", "--bind=/dev/net/tun", "--system-call-filter=bpf perf_event_open",
            *(f"--bind-ro={folder}" for folder in self.binds),
            log=self.host.lab.tmp / f"{self.host.name}-machine.log",
        )  # fmt: skip
        self.leader = wait_for("systemd of the machine", self._first_process)
        wait_for("the machine", lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip()
                 in ("running", "degraded"))  # fmt: skip
        return self

    def _first_process(self):
        if not self.process.alive():
            raise LabError(f"the machine did not start:\n{self.process.output()[-4000:]}")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next((int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd"), None)

    def run(self, *argv, check=True, timeout=PATIENCE_S, stdin=None):
        """Runs a command in the machine and waits for it; returns the finished process."""
        into = ["nsenter", "-t", self.leader, "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w"]
        environment = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"]
        try:
            return sh(*into, "--", *environment, *argv, check=check, timeout=timeout, stdin=stdin)
        except CommandFailed as error:
            raise CommandFailed([f"[{self.host.name}]", *argv], error.status, error.stdout, error.stderr) from None

    def write(self, path, text):
        self.run("sh", "-c", f"mkdir -p $(dirname {path}) && cat >{path}", stdin=text)
