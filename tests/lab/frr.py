"""FRR on a host: zebra and a routing daemon, with sockets of their own."""

import shutil
import tempfile
from pathlib import Path

from .base import wait_for

FRR = Path("/usr/lib/frr")


class Frr:
    """zebra and one routing daemon, `ospfd` or `bgpd`, with a configuration; zebra's own beyond its name is `zebra`."""

    def __init__(self, host, daemon, text, zebra=""):
        # They give up root for a user of their own, who cannot look into the lab's folder.
        folder = Path(tempfile.mkdtemp(prefix="culvert-frr-"))
        host.lab.at_close(lambda: shutil.rmtree(folder))
        folder.chmod(0o777)
        (folder / "zebra.conf").write_text(f"hostname {host.name}\nlog stdout\n{zebra}")
        (folder / f"{daemon}.conf").write_text(text)
        self.processes = []
        for name in ("zebra", daemon):
            self.processes.append(
                host.spawn(
                    FRR / name, "-f", folder / f"{name}.conf", "-i", folder / f"{name}.pid",
                    "-z", folder / "zserv.api",
                    "--vty_socket", folder, "-P", "0", "-A", "127.0.0.1",
                    log=host.lab.tmp / f"{host.name}-{name}.log",
                )
            )  # fmt: skip
            wait_for(f"{name} on {host.name}", (folder / f"{name}.vty").exists)

    def stop(self):
        for process in reversed(self.processes):
            process.stop()


def has(daemon):
    """Whether a daemon is installed."""
    return (FRR / daemon).exists()


def learnt(host, prefix):
    """Whether a host has a route that a routing daemon gave it."""
    return f"{prefix} nhid" in host.ip("route").stdout
