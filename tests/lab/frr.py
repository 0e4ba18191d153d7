"""FRR on a host: zebra and a routing daemon, with sockets of their own."""

import json
import shutil
import tempfile
from pathlib import Path

from .base import wait_for

FRR = Path("/usr/lib/frr")


class Frr:
    """zebra and one routing daemon, such as `ospfd` or `bgpd`, with a configuration; zebra's own beyond its name is `zebra`.

    `bfdd` is the configuration of a `bfdd` beside them, and `dataplane` the address at which another program may have its sessions.
    """

    def __init__(self, host, daemon=None, text="", zebra="", bfdd=None, dataplane=None):
        # They give up root for a user of their own, who cannot look into the lab's folder.
        self.host = host
        self.folder = folder = Path(tempfile.mkdtemp(prefix="culvert-frr-"))
        host.lab.at_close(lambda: shutil.rmtree(folder))
        folder.chmod(0o777)
        texts = {"zebra": f"hostname {host.name}\nlog stdout\n{zebra}", "bfdd": bfdd}
        if daemon:
            texts[daemon] = text
        self.options = {"bfdd": ["--bfdctl", folder / "bfdd.sock", *(["--dplaneaddr", dataplane] if dataplane else [])]}
        self.processes = {}
        for name, content in texts.items():
            if content is not None:
                (folder / f"{name}.conf").write_text(content)
                self.start(name)

    def start(self, name):
        """Starts one of the daemons, for the first time or again."""
        host, folder = self.host, self.folder
        (folder / f"{name}.vty").unlink(missing_ok=True)
        self.processes[name] = host.spawn(
            FRR / name, "-f", folder / f"{name}.conf", "-i", folder / f"{name}.pid",
            "-z", folder / "zserv.api",
            "--vty_socket", folder, "-P", "0", "-A", "127.0.0.1", *self.options.get(name, []),
            log=host.lab.tmp / f"{host.name}-{name}.log",
        )  # fmt: skip
        wait_for(f"{name} on {host.name}", (folder / f"{name}.vty").exists)

    def vtysh(self, command, daemon="bfdd"):
        """What a daemon answers to a command of its operators."""
        return self.host.run("vtysh", "--vty_socket", self.folder, "-d", daemon, "-c", command).stdout

    def peers(self, more=""):
        """The peers of bfdd by their addresses: `more` is counters."""
        found = json.loads(self.vtysh(f"show bfd peers{more and ' ' + more} json"))
        return {peer["peer"]: peer for peer in found}

    def stop(self):
        for process in reversed(self.processes.values()):
            process.stop()


def has(daemon):
    """Whether a daemon is installed."""
    return (FRR / daemon).exists()


def learnt(host, prefix):
    """Whether a host has a route that a routing daemon gave it."""
    return f"{prefix} nhid" in host.ip("route").stdout
