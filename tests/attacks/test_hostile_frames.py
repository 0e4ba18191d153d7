"""Malformed frames at every kind of port, from the wire and from a site.

Frames are sent a few hundred at a time, and a ping has to be answered behind each: an attack that only outruns the machine
proves nothing.
"""

import time

import pytest
from lab import topology as t
from lab.attack import Health, Mutator, effort, mended, narrow
from lab.capture import Capture
from lab.hostile import ATTACKER4, ATTACKER6, frames, from_the_site, to_the_gateway
from lab.inject import Injector
from lab.memif import MemifClient
from lab.traffic import assert_ping

#: Frames between two pings: fewer than the shortest ring on the way has room for.
BURST = 256
MIB = 1 << 20

SECONDS = effort(4, 60)

#: Protected, and in clear.
IN_CLEAR = (
    "(src net 10.2.0.0/24 and dst net 10.1.0.0/24) or (src net 10.1.0.0/24 and dst net 10.2.0.0/24)"
    " or (ip6 and src net 2001:db8:2::/64 and dst net 2001:db8:1::/64)"
    " or (ip6 and src net 2001:db8:1::/64 and dst net 2001:db8:2::/64)"
)


def storm(send, good, rng, beat, seconds=SECONDS):
    """Sends the good ones as they are, then changed copies, with a ping behind each burst; returns how many frames and
    how many pings there were."""
    mutator = Mutator(rng)
    sent = beats = 0
    end = time.monotonic() + seconds
    burst = list(good)
    while time.monotonic() < end:
        for frame in burst:
            send(frame)
        sent += len(burst)
        beat()
        beats += 1
        burst = []
        for _ in range(BURST):
            # The destination stays: other stations' frames end at the first look.
            frame = mutator.changed(good[int(rng.random() * len(good))], good, keep=6 if rng.random() < 0.95 else 0)
            burst.append(mended(frame, rng) if rng.random() < 0.7 else frame)
    return sent, beats


def sender(injector):
    """Sends a frame as it is, but for those that no interface takes."""

    def send(frame):
        if len(frame) >= 14:
            injector.send(frame)

    return send


def settle(net):
    """Neighbours of gateway B are known for good: what ARP and neighbour discovery can be made to say is another test's."""
    mac = net.gwa.host.mac("wan")
    known = ((ATTACKER4, "02:00:00:00:00:66", "wan"), (ATTACKER6, "02:00:00:00:00:66", "wan"), (t.WAN_A4, mac, "wan"), (t.WAN_A6, mac, "wan"))
    for address, mac, dev in (*known, *((to, net.server.mac("eth0"), "lan") for to in (t.SERVER4, t.SERVER6))):
        net.gwb.host.ip("neigh", "replace", address, "lladdr", mac, "dev", dev)
    net.server.ip("neigh", "replace", t.LAN_B4, "lladdr", net.gwb.host.mac("lan"), "dev", "eth0")


@pytest.mark.parametrize("ports", ["xdp", "packet", "unprivileged"])
def test_at_the_ports(network, monkeypatch, rng, ports):
    """Attackers: one on the wire between the gateways, and a host of site B. They send malformed Ethernet, VLAN tags, IPv4,
    IPv6, extension headers, fragments, ESP, AH, IPComp, NAT-T, ICMP errors, segments, tunnels of others, and what is
    protected in clear.

    Each ping of the tunnel is answered; the server gets no packet of site A but those pings, and the wire carries none
    between the sites; the daemon keeps neither memory nor descriptors, and has accounted for each frame.
    """
    monkeypatch.setenv("CULVERT_PORTS", ports)
    net = network(encap="yes" if ports == "unprivileged" else "no")
    narrow(net)
    settle(net)
    net.up()
    assert_ping(net.client, t.SERVER4, count=3)
    assert_ping(net.client, t.SERVER6, count=3)
    spi = int(next(sa["spi"] for sa in net.gwb.daemon.json("sa") if sa["dst"] == t.WAN_B4), 16)
    wire = Capture(net.mid, "east", f"ip and dst {t.WAN_B4} and (proto 50 or udp port 4500)")
    assert_ping(net.client, t.SERVER4, count=5)
    seen = [f.data for f in wire.stop() if f.is_esp]
    health = Health(net.gwb.daemon)
    beat = lambda: assert_ping(net.client, t.SERVER4, count=1)  # noqa: E731
    # What has a source at site A and reaches the server is a ping, or what site A answers to those who send in clear as the
    # server: without a reverse path filter a router forwards that, and by the policy into the tunnel, as Linux does.
    answers = "(icmp[icmptype] == icmp-echoreply or icmp[icmptype] == icmp-unreach or icmp[icmptype] == icmp-timxceed)"
    arrived = Capture(
        net.server, "eth0", f"(src net 10.1.0.0/24 and not (icmp and {answers})) or (ip6 and src net 2001:db8:1::/64)", snap=128
    )
    macs = net.gwa.host.mac("wan"), net.gwb.host.mac("wan")
    good = [*frames(to_the_gateway(spi), *macs), *seen]
    sent, beats = storm(sender(Injector(net.mid, "east")), good, rng, beat)
    came = [f for f in arrived.stop() if f.kind != "nd"]
    others = [f for f in came if f.kind != "icmp"]
    assert len(came) == beats and not others, (len(came), beats, [str(f) for f in others[:5]])
    # From the site.
    clear = Capture(net.mid, "west", IN_CLEAR, snap=128)
    good = frames(from_the_site(), net.server.mac("eth0"), net.gwb.host.mac("lan"))
    site_sent, site_beats = storm(sender(Injector(net.server, "eth0")), good, rng, beat, SECONDS / 2)
    # MOBIKE probes paths between protected addresses.
    leaked = [f for f in clear.stop() if f.kind != "ike"]
    assert not leaked, "; ".join(map(str, leaked[:5]))
    print(f"{ports}: {sent} frames from the wire, {site_sent} from the site, {beats + site_beats} pings")
    assert sent > 10 * BURST and site_sent > 5 * BURST
    health.check(48 * MIB)


APP4, GATE4 = "10.1.5.2", "10.1.5.1"

_MEMIF = """
[[port]]
interface = "app0"
kind = "memif"
socket = "{path}"
"""


def test_at_a_memif_port(network, lab, rng):
    """Attacker: an application at a memif port of gateway A, which sends the same as a host of a site.

    The tunnel's pings are answered, nothing that is protected is on the wire in clear, and each frame is accounted for.
    """
    net = network(ts_a="10.1.0.0/24,10.1.5.0/24,2001:db8:1::/64")
    path = lab.tmp / "app0.sock"
    net.gwa.daemon.write_config(net.gwa.daemon.config.read_text() + _MEMIF.format(path=path))
    narrow(net)
    net.gwb.host.route("10.1.5.0/24", "via", t.WAN_A4)
    net.up()
    net.gwa.host.address("app0", f"{GATE4}/28")
    client = MemifClient(path)
    row = lambda: next(p for p in net.gwa.daemon.json("port") if p["interface"] == "app0")  # noqa: E731
    assert_ping(net.client, t.SERVER4, count=3)
    health = Health(net.gwa.daemon)
    clear = Capture(net.mid, "west", "net 10.1.5.0/24 or (ip6 and net 2001:db8:1::/64)", snap=128)

    def send(frame):
        end = time.monotonic() + 30
        while not client.send(frame[:1600]):
            client.receive(0.001)
            assert time.monotonic() < end, f"frames are not taken any more: {row()}"

    packets = from_the_site(APP4, t.CLIENT6, t.SERVER4, t.SERVER6)
    good = frames(packets, "02:00:00:00:05:02", net.gwa.host.mac("app0"))
    sent, beats = storm(send, good, rng, lambda: assert_ping(net.client, t.SERVER4, count=1), SECONDS / 2)
    leaked = [f for f in clear.stop() if f.kind not in ("ike", "nd")]
    leaked = [f for f in leaked if str(f.dst).startswith(("10.2.0.", "2001:db8:2:"))]
    assert not leaked, "; ".join(map(str, leaked[:5]))
    assert row()["rx_packets"] > sent / 2, row()
    print(f"memif: {sent} frames, {beats} pings")
    client.close()
    health.check(48 * MIB)
