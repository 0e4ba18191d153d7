"""The recipes of the cookbook: their files, what their READMEs have the reader type, and what must hold then."""

import re
import shlex

import pytest

from .base import ROOT, wait_for
from .capture import Capture, assert_only_protected
from .topology import PROTECTED
from .traffic import Stream, assert_perfect, assert_ping

COOKBOOK = ROOT / "cookbook"

#: Findings of `culvert doctor` that are about the lab's links, whatever the recipe says.
OF_THE_LAB = ("VLAN offload is on",)


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


class Cooked:
    """A recipe in its network, begun with a capture of the wire. `follow` does what the README says."""

    def __init__(self, network, name, kind="net4", **build):
        self.name = name
        self.net = network(kind, build, COOKBOOK / name)
        self.wire = Capture(self.net.mid, "west")

    def typed(self, gateway, *begin):
        """What is typed on a gateway and begins so, without that."""
        lines = typed(self.name, gateway.host.name)
        return [words[len(begin) :] for words in lines if tuple(words[: len(begin)]) == begin]

    def follow(self):
        """Starts daemons with the files as they are; then `ip` and `swanctl` as the README has them."""
        self.net.start()
        for gateway in self.net.gateways():
            for words in self.typed(gateway, "ip"):
                gateway.host.ip(*words)
        for gateway in self.net.gateways():
            for words in self.typed(gateway, "swanctl", "--initiate", "--child"):
                gateway.swan.initiate(words[0])
        # Some start by themselves.
        wait_for("a tunnel", self.net.gwa.swan.children)
        return self.net

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
            assert_ping(near, to, count=10)
        report = stream.finish()
        assert_perfect(report)
        assert report["sent"] > 50, report

    def well(self, why, protected=PROTECTED, but=()):
        """Nothing was on the wire in clear; `culvert doctor` has nothing that the recipe could mend, but for checks that
        its README says to leave; `culvert why`, asked as the arguments say, answers that the packet is protected."""
        assert_only_protected(self.wire.stop(), protected=protected)
        for gateway in self.net.gateways():
            if not gateway.daemon:
                continue
            found = gateway.daemon.json("doctor", "--config", str(gateway.daemon.config))
            bad = [f for f in found if f["result"] != "ok" and f["seen"] not in OF_THE_LAB and f["check"] not in but]
            assert not bad, (gateway.host.name, bad)
            # What the table of usual mistakes in the README is about has not happened.
            drops = {reason: n for reason, n in gateway.daemon.drops().items() if n}
            assert not drops, (gateway.host.name, drops)
        answer = self.net.gwa.daemon.culvert("why", *why.split()).stdout
        assert "=> protected" in answer, answer


def rekey(gateway, child):
    """Rekeys a child and waits for its successor."""
    before = {c["spi-in"] for c in gateway.swan.children(child)}
    assert before, f"no child {child}"
    gateway.swan.rekey(child=child)
    wait_for("a new CHILD_SA", lambda: {c["spi-in"] for c in gateway.swan.children(child)} - before)
