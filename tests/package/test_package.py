"""The package on a machine with systemd: installed, used, upgraded and downgraded under traffic, removed."""

import json
import os
import socket

import pytest
from lab import machine, topology as t
from lab.base import ROOT, wait_for
from lab.capture import Capture, assert_only_protected, leaks
from lab.machine import Machine
from lab.traffic import Stream, assert_ping, ping

PACKAGES = ROOT / "build" / "deb"
#: Made by `make package-test`: two versions of the same program.
OLD, NEW = "0.1.0", "0.1.1"

CONFIGURATION = """\
name = "default"

[[port]]
interface = "wan"

[[port]]
interface = "lan"
"""


def package(version):
    return next(PACKAGES.glob(f"culvert_{version}_*.deb"))


@pytest.fixture
def site(network):
    """A network whose gateway A is a machine, and that machine."""
    missing = machine.missing()
    if missing:
        (pytest.fail if os.environ.get("CULVERT_REQUIRE") else pytest.skip)(missing)
    net = network()
    return net, Machine(net.gwa.host, binds=[PACKAGES]).start()


NDPI = """
[applications]
enabled = true
ndpi = true
"""


def install(box, version):
    box.run("dpkg", "--force-confdef", "--install", package(version))
    assert version in box.run("dpkg-query", "--show", "culvert").stdout


def configure(net, box, more=""):
    """What docs/guides/systemd.md says, for a gateway of this network."""
    box.write("/etc/culvert/culvert.toml", CONFIGURATION + more)
    common = (t.COMMON / "gwa.swanctl.conf").read_text()
    box.write("/etc/swanctl/conf.d/net.conf", t.filled(common))
    box.run("culvert", "check")
    box.run("systemctl", "enable", "--now", "culvert-guard", "culvert")
    box.run(
        "install", "-D", "-m", "0644", "/usr/share/doc/culvert/strongswan-culvert.conf",
        "/etc/systemd/system/strongswan.service.d/culvert.conf",
    )  # fmt: skip
    box.run("systemctl", "daemon-reload")
    box.run("systemctl", "restart", "strongswan")
    net.gwb.start()
    box.run("swanctl", "--initiate", "--child", "net")


def spis(box):
    found = box.run("culvert", "exec", "--", "ip", "xfrm", "state").stdout
    return sorted(line.split()[3] for line in found.splitlines() if "proto esp" in line)


def pid(box):
    return box.run("systemctl", "show", "--property=MainPID", "--value", "culvert").stdout.strip()


def test_nothing_runs_before_it_is_asked_to(site):
    _, box = site
    install(box, OLD)
    for unit in ("culvert", "culvert-guard", "culvert-metrics", "culvert-web"):
        assert box.run("systemctl", "is-enabled", unit, check=False).stdout.strip() == "disabled"
        assert box.run("systemctl", "is-active", unit, check=False).stdout.strip() == "inactive"
    modes = box.run("stat", "--format=%a", "/etc/culvert", "/etc/culvert/culvert.toml").stdout.split()
    assert modes == ["700", "600"]
    assert "culvert" in box.run("culvert", "--version").stdout


def test_its_units_are_little_exposed(site):
    _, box = site
    install(box, OLD)
    for unit in ("culvert", "culvert-guard", "culvert-metrics", "culvert-web"):
        box.run("systemd-analyze", "security", "--offline=yes", "--threshold=30", "--no-pager", f"{unit}.service")
        box.run("systemd-analyze", "verify", "--man=no", f"{unit}.service")


def test_upgrade_and_downgrade_under_traffic(site):
    """Another version, and back: every SA is the same afterwards, and nothing is in clear."""
    net, box = site
    install(box, OLD)
    configure(net, box)
    assert_ping(net.client, t.SERVER4, count=5)
    locked = box.run("grep", "VmLck", f"/proc/{pid(box)}/status").stdout.split()[1]
    assert int(locked) > 1000, "keys can be written to swap space"
    before = spis(box)
    assert len(before) == 2, before
    wire = Capture(net.mid, "west")
    stream = Stream(net.client, net.server, t.SERVER4, rate=100)
    for version in (NEW, OLD):
        process = pid(box)
        install(box, version)
        assert pid(box) not in (process, "0")
        assert_ping(net.client, t.SERVER4, count=5)
        assert_ping(net.server, t.CLIENT6, count=5)
        assert spis(box) == before
        assert box.run("cat", "/etc/culvert/culvert.toml").stdout == CONFIGURATION
    report = stream.finish()
    print(f"lost over both: {report['there']['lost']} there, {report['back']['lost']} back, at 100 packets a second")
    assert_only_protected(wire.stop())
    assert report["there"]["duplicated"] == report["back"]["duplicated"] == 0, report


def test_ndpi_is_asked_in_the_unit(site):
    """The process that asks nDPI starts within what the unit allows, and loses the rest of it."""
    net, box = site
    install(box, OLD)
    configure(net, box, NDPI)

    def ndpi():
        return json.loads(box.run("culvert", "app", "--json").stdout)["ndpi"]

    wait_for("nDPI", lambda: ndpi()["version"])
    mouth = net.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
    mouth.sendto(b"INVITE sip:bob@b.example SIP/2.0\r\nVia: SIP/2.0/UDP a.example\r\n\r\n", (t.SERVER4, 9060))
    wait_for("a verdict", lambda: "sip" in box.run("culvert", "app").stdout)
    children = box.run("pgrep", "--parent", pid(box), "--exact", "culvert-ndpi").stdout.split()
    status = box.run("cat", f"/proc/{children[0]}/status").stdout
    for line in ("Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"):
        assert line in status, status
    assert ndpi()["crashes"] == 0 and not ndpi()["trouble"], ndpi()


def test_removed_it_leaves_the_guard(site):
    net, box = site
    install(box, OLD)
    configure(net, box)
    assert_ping(net.client, t.SERVER4, count=5)
    wire = Capture(net.mid, "west")
    said = box.run("dpkg", "--remove", "culvert").stderr
    assert "stays blocked" in said, said
    assert ping(net.client, t.SERVER4, count=5, interval=0.1, wait=1)["received"] == 0
    assert not leaks(wire.stop())
    assert box.run("ls", "/etc/culvert").stdout.strip() == "culvert.toml"
    box.run("dpkg", "--purge", "culvert")
    for path in ("/etc/culvert", "/run/culvert", "/usr/bin/culvert"):
        assert box.run("ls", path, check=False).returncode != 0, path


def test_the_guard_can_be_lifted_before(site):
    net, box = site
    install(box, OLD)
    configure(net, box)
    box.run("systemctl", "stop", "strongswan", "culvert")
    # It is an error where charon went first, and nothing is left.
    box.run("culvert", "guard", "clear", "--yes", check=False)
    assert "stays blocked" not in box.run("dpkg", "--purge", "culvert").stderr
    wait_for("Linux alone", lambda: ping(net.client, t.LAN_B4, count=1)["sent"])
