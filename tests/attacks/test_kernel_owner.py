"""Gateways whose kernel does ESP too, in a guest: tenants in VRFs, and a database that changes below a daemon beside it."""

import json
import time
from pathlib import Path

import pytest
from lab import topology as t
from lab.attack import IS_SAMPLE, Health, effort
from lab.base import wait_for
from lab.beside import is_fast
from lab.capture import Capture
from lab.inject import Injector, ether
from lab.traffic import assert_ping, ping
from lab.xfrm import Tunnel
from scapy.layers.inet import ICMP, IP, UDP
from scapy.packet import Raw

pytestmark = pytest.mark.skipif(IS_SAMPLE, reason="not in the sample, as a guest boots for each: make attacks")

HURL = Path(__file__).resolve().parents[1] / "lab" / "hurl_xfrm.py"
MIB = 1 << 20
VRF, TABLE = "red", "100"


def tenant(net):
    """A host at an interface of gateway A's that is in a VRF, and its own server; they have the addresses of the tunnel's."""
    gwa = net.gwa.host
    gwa.ip("link", "add", VRF, "type", "vrf", "table", TABLE)
    gwa.ip("link", "set", VRF, "up")
    hosts = []
    for name, dev, near, far in (("tenant", "t1", "10.1.0.254", t.CLIENT4), ("theirs", "t2", "10.2.0.254", t.SERVER4)):
        host = net.lab.host(name)
        net.lab.link(gwa, dev, host, "eth0")
        gwa.ip("link", "set", dev, "master", VRF)
        gwa.address(dev, f"{near}/24")
        host.address("eth0", f"{far}/24")
        host.route("default", "via", near)
        hosts.append(host)
    return hosts


def taken(net):
    """Has the daemon beside the kernel take the tunnel over."""
    net.gwa.daemon.start()
    wait_for("the SAs to be taken", lambda: len(net.gwa.daemon.json("sa")) >= 2 and all(is_fast(sa) for sa in net.gwa.daemon.json("sa")))


@pytest.mark.parametrize("plane", ["beside+kernel"], indirect=True)
def test_a_tenant_with_the_same_addresses(network):
    """Attacker: a host in a VRF of gateway A, which has the client's address, sends what looks like the peer's ESP and the
    server's packets, and spoofs its own site. The VRF has a network of its own at these addresses.

    Nothing of his is opened or delivered in the tunnel's site, and nothing of the tunnel's comes to him: the client's pings are
    answered by the tunnel's server, each once.
    """
    net = network()
    Tunnel().install(net)
    assert_ping(net.client, t.SERVER4, count=3)
    attacker, _ = tenant(net)
    taken(net)
    assert_ping(net.client, t.SERVER4, count=3)
    at_client = Capture(net.client, "eth0", f"ip and dst {t.CLIENT4}", snap=128)
    at_attacker = Capture(attacker, "eth0", f"icmp and ether dst {attacker.mac('eth0')}", snap=128)
    injector = Injector(attacker, "eth0")
    macs = attacker.mac("eth0"), net.gwa.host.mac("t1")
    for number in range(effort(50, 300)):
        injector.send(
            ether(*macs, IP(src=f"10.1.0.{20 + number % 200}", dst=t.SERVER4) / UDP(sport=5, dport=9) / Raw(b"spoofed")),
            ether(*macs, IP(src=t.WAN_B4, dst=t.WAN_A4, proto=50) / Raw((0x1001).to_bytes(4, "big") + bytes(60))),
            ether(*macs, IP(src=t.SERVER4, dst=t.CLIENT4) / ICMP()),
        )
    assert_ping(net.client, t.SERVER4, count=20)
    assert not at_attacker.stop()
    came = [f for f in at_client.stop() if f.protocol in (1, 17)]
    assert len(came) == 20, [str(f) for f in came]
    assert all(is_fast(sa) for sa in net.gwa.daemon.json("sa") if sa["dst"] == t.WAN_A4)


@pytest.mark.parametrize("plane", ["beside+kernel"], indirect=True)
def test_a_database_that_changes_below(network, rng):
    """Attacker: a program that may change the kernel's database, below a daemon that follows it: changed messages of all kinds, as
    fast as the kernel takes them.

    The daemon goes on, knows in the end what the kernel has, keeps its descriptors; the tunnel's pings are answered.
    """
    net = network()
    Tunnel(priority=10).install(net)
    taken(net)
    assert_ping(net.client, t.SERVER4, count=3)
    health = Health(net.gwa.daemon)
    hurler = net.gwa.host.spawn("/usr/bin/python3", HURL, "kernel", rng.getrandbits(32), effort(3, 20), "aware")
    sent = received = 0
    while hurler.alive():
        result = ping(net.client, t.SERVER4, count=10, interval=0.05, wait=30)
        sent, received = sent + result["sent"], received + result["received"]
    said = json.loads(hurler.output().splitlines()[-1])
    assert said["sent"] > 100 and said["answered"] > said["sent"] * 9 // 10, said
    assert received == sent, (sent, received)

    def spis():
        text = net.gwa.host.run("ip", "xfrm", "state").stdout
        return {int(word, 16) for line in text.splitlines() if "spi 0x" in line for word in [line.split("spi ")[1].split()[0].split("(")[0]]}

    end = time.monotonic() + 30
    while {int(sa["spi"], 16) for sa in net.gwa.daemon.json("sa")} - spis() and time.monotonic() < end:
        time.sleep(0.5)
    assert not {int(sa["spi"], 16) for sa in net.gwa.daemon.json("sa")} - spis()
    health.check(48 * MIB)
