"""The recipes of the cookbook: their files, what their READMEs have the reader type, and what must hold then."""

import os
import re
import shlex
import shutil
import subprocess

import pytest

from .base import PATIENCE_S, ROOT, wait_for
from .capture import Capture, assert_only_protected
from .planes import ON_A_DISK
from .topology import PROTECTED
from .traffic import Stream, assert_perfect, assert_ping

COOKBOOK = ROOT / "cookbook"

#: Findings of `culvert doctor` that are about the lab's links and guests, whatever the recipe says.
OF_THE_LAB = (
    "VLAN offload is on",
    "timer: each look at the clock is a system call",
    "seccomp: off, this kernel has none (CONFIG_SECCOMP_FILTER)",
)

#: Checks of `culvert doctor` that are about the queues of $CULVERT_WORKERS: a recipe's frames are for one at each port.
OF_MORE_QUEUES = ("buffers",) if os.environ.get("CULVERT_WORKERS") else ()


def names():
    """The recipes that there are."""
    return sorted(folder.name for folder in COOKBOOK.iterdir() if folder.is_dir())


def recipe(name, *planes):
    """Runs a test with one recipe, on one or several planes."""
    cases = [pytest.param(name, plane, id=f"{name}-{plane}") for plane in planes]
    return pytest.mark.parametrize("name,plane", cases, indirect=["plane"])


def typed(name, host):
    """The command lines that a README has one type on a host: those of the blocks below `## On HOST`."""
    text = (COOKBOOK / name / "README.md").read_text()
    parts = re.findall(rf"^## On {host}\b.*?$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    blocks = [block for part in parts for block in re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)]
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [words for words in lines if words]


def certificates(name, folder):
    """Runs the block below `## Certificates` in a folder, which then holds keys and certificates."""
    text = (COOKBOOK / name / "README.md").read_text()
    block = re.search(r"^## Certificates\b.*?^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1]
    folder.mkdir()
    subprocess.run(["sh", "-e", "-c", block], cwd=folder, check=True, timeout=PATIENCE_S)


class Cooked:
    """A recipe in its network, begun with a capture of the wire. `follow` does what the README says."""

    def __init__(self, network, name, kind="net4", **build):
        self.name = name
        self.net = network(kind, build, COOKBOOK / name)
        self.wire = Capture(self.net.mid, "west")
        self.dropped = {}

    def typed(self, gateway, *begin):
        """What is typed on a gateway and begins so, without that."""
        lines = typed(self.name, gateway.host.name)
        return [words[len(begin) :] for words in lines if tuple(words[: len(begin)]) == begin]

    def certify(self, made, *names):
        """Puts what a gateway needs where the README says."""
        for gateway, name in zip(self.net.gateways(), names):
            shutil.copy(made / "ca.pem", gateway.swan.etc / "x509ca")
            if name:
                shutil.copy(made / f"{name}.pem", gateway.swan.etc / "x509")
                shutil.copy(made / f"{name}.key.pem", gateway.swan.etc / "private")

    def follow(self):
        """Starts daemons with the files as they are, those that call by themselves last; then `ip` and `swanctl` as the
        README has them."""
        for gateway in sorted(self.net.gateways(), key=calls):
            gateway.start()
        for gateway in self.net.gateways():
            for words in self.typed(gateway, "ip"):
                gateway.host.ip(*words)
        for gateway in self.net.gateways():
            for words in self.typed(gateway, "swanctl", "--initiate", "--child"):
                gateway.swan.initiate(words[0])
        # Some start by themselves.
        wait_for("a tunnel", self.net.gwa.swan.children)
        self.settle()
        return self.net

    def daemons(self):
        return [gateway.daemon for gateway in self.net.gateways() if gateway.daemon and gateway.daemon.alive()]

    def settle(self):
        """What was dropped until now does not count: it was on its way while tunnels and addresses came."""
        self.dropped = {daemon.name: daemon.drops() for daemon in self.daemons()}

    def reach(self, *ends, count=5):
        """Hosts reach addresses, as pairs of both."""
        for host, to in ends:
            assert_ping(host, to, count=count)

    def carry(self, near, far, to, child=None, gateway=None):
        """A stream of which nothing is lost, while the child is rekeyed."""
        gateway = gateway or self.net.gwa
        stream = Stream(near, far, to, rate=500, most=100)
        if child:
            rekey(gateway, child)
        assert_ping(near, to, count=25)
        report = stream.finish()
        assert_perfect(report)
        assert report["sent"] > 50, report

    def well(self, why, protected=PROTECTED, but=(), answers="=> protected"):
        """Nothing was on the wire in clear; `culvert doctor` has nothing that the recipe could mend, but for checks that
        its README says to leave; `culvert why`, asked as the arguments say, answers that the packet is protected."""
        assert_only_protected(self.wire.stop(), protected=protected)
        for daemon in self.daemons():
            found = daemon.json("doctor", "--config", str(daemon.config))
            left = {*but, *OF_MORE_QUEUES}
            bad = [
                f for f in found
                if f["result"] != "ok" and f["seen"] not in OF_THE_LAB and ON_A_DISK not in f["seen"] and f["check"] not in left
            ]  # fmt: skip
            assert not bad, (daemon.name, bad)
            # What the README's table of usual mistakes is about has not happened.
            before = self.dropped.get(daemon.name, {})
            drops = {reason: n for reason, n in daemon.drops().items() if n > before.get(reason, 0)}
            # Linux says which groups a tunnel interface listens to, some seconds long.
            drops.pop("out-tunnel-multicast", None)
            assert not drops, (daemon.name, drops)
        answer = self.net.gwa.daemon.culvert("why", *why.split()).stdout
        assert answers in answer, answer


def calls(gateway):
    """Whether a gateway's configuration has it start a tunnel by itself. IKE ends there when the other side runs, and has
    not loaded its configuration yet."""
    return "start_action = start" in (gateway.swan.etc / "swanctl.conf").read_text()


def rekey(gateway, child):
    """Rekeys a child and waits for its successor."""
    before = {c["spi-in"] for c in gateway.swan.children(child)}
    assert before, f"no child {child}"
    gateway.swan.rekey(child=child)
    wait_for("a new CHILD_SA", lambda: {c["spi-in"] for c in gateway.swan.children(child)} - before)
