"""Gateways whose networks are VLANs of their cables: culvert takes the cables, and the VLANs of Linux with them."""

import socket
import threading
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, parse
from lab.memif import MemifClient
from lab.traffic import Iperf, assert_ping

#: Where tags are seen: the cables below the VLANs.
WAN_CABLE, LAN_CABLE = "west0", "cable"


def tags(frame):
    """The tags of a frame, as (TPID, VLAN identifier, priority), and what the frame would be without."""
    data, found = frame.data, []
    while data[12:14] in (b"\x81\x00", b"\x88\xa8"):
        tpid, tci = int.from_bytes(data[12:14], "big"), int.from_bytes(data[14:16], "big")
        found.append((tpid, tci & 0xFFF, tci >> 13))
        data = data[:12] + data[16:]
    return found, data


def vlans(of):
    """What `tags` finds on a cable, without priorities."""
    return [({"802.1Q": 0x8100, "802.1ad": 0x88A8}[protocol], number) for protocol, number in of]


def assert_tagged(frames, of):
    """All frames have these tags."""
    assert frames
    seen = {tuple((tpid, number) for tpid, number, _ in tags(frame)[0]) for frame in frames}
    assert seen == {tuple(vlans(of))}


def ports(gateway):
    """The lines of `culvert port`, by interface."""
    return {port["interface"]: port for port in gateway.daemon.json("port")}


@pytest.mark.parametrize("of", [pytest.param("one", marks=pytest.mark.sample), "two"])
def test_a_tunnel_over_a_vlan(bed, of):
    """A tunnel between VLANs, with the networks behind it in other VLANs, is taken over in use and given back, and no
    packet is lost."""
    of = {"one": t.ONE_TAG, "two": t.TWO_TAGS}[of]
    net = bed.up("vlans", {"tags": of})
    wan, lan = Capture(net.mid, WAN_CABLE, snap=120), Capture(net.client, LAN_CABLE, snap=120)
    streams = bed.stream(), bed.stream(t.CLIENT6, rate=100, port=7100)
    time.sleep(0.5)
    bed.start()
    before = bed.transmitted()
    bed.pings()
    if bed.beside():
        wait_for("the fast path to have the packets", lambda: bed.transmitted() - before > 400, timeout=10)
        shown = ports(net.gwa)
        assert [shown[dev]["vlan"] for dev in ("wan.v", "lan.v")] == [[n for _, n in of[c]] for c in ("wan", "lan")]
        assert shown["wan.v"]["state"] == shown["lan.v"]["state"] == "up", shown
        assert all(shown[dev][way] > 100 for dev in ("wan.v", "lan.v") for way in ("rx_packets", "tx_packets")), shown
    bed.stop()
    bed.perfect(*streams)
    bed.assert_counted(missing=4)
    assert_tagged([f for f in wan.stop() if f.data[0] & 1 == 0], of["wan"])
    assert_tagged([f for f in lan.stop() if f.data[0] & 1 == 0], of["lan"])


def test_tcp_over_vlans(bed):
    """TCP goes through a tunnel over two tags at full length, both ways, and its checksums are right."""
    net = bed.up("vlans", {"tags": t.TWO_TAGS})
    bed.start()
    iperf = Iperf(net.server)
    for reverse in (False, True):
        before = bed.transmitted()
        assert iperf.run(net.client, t.SERVER4, seconds=2, reverse=reverse)["bits_per_second"] > 1e6
        assert bed.transmitted() - before > 400 or not bed.beside()
    iperf.stop()


#: DSCPs, and what `MAP` makes of them: by Linux, the lower three bits alone give a packet its priority.
MAP = "0:1", "2:2", "4:5", "6:4"
PRIORITIES = {0: 1, 48: 1, 10: 2, 12: 4, 46: 5}


def test_priorities_are_linuxs(bed):
    """The tags of what culvert sends have the priorities that the other gateway, which is Linux, gives the answers."""
    net = bed.up("vlans")
    for gateway in net.gateways():
        for dev in ("wan.v", "lan.v"):
            gateway.host.ip("link", "set", "dev", dev, "type", "vlan", "egress-qos-map", *MAP)
    bed.start()
    # The middle takes tags off, and puts its own in.
    cables = {"a": Capture(net.mid, "west0"), "b": Capture(net.mid, "east0")}
    lan = Capture(net.client, LAN_CABLE)
    before = bed.transmitted()
    for dscp in PRIORITIES:
        assert_ping(net.client, t.SERVER4, count=3, dscp=dscp)
    # One packet each second is the kernel's.
    assert bed.transmitted() - before >= 4 * len(PRIORITIES) or not bed.beside()
    seen = {"a": set(), "b": set(), "lan": set()}
    for name, source in (("a", t.WAN_A4), ("b", t.WAN_B4)):
        for frame in cables[name].stop():
            found, data = tags(frame)
            inside = parse(0, data)
            if inside.is_esp and str(inside.src) == source:
                seen[name].add((data[15] >> 2, found[0][2]))
    for frame in lan.stop():
        found, data = tags(frame)
        inside = parse(0, data)
        if inside.kind == "icmp" and str(inside.src) == t.SERVER4:
            seen["lan"].add((data[15] >> 2, found[0][2]))
    expected = set(PRIORITIES.items())
    assert seen == {"a": expected, "b": expected, "lan": expected}


#: Tables of a gateway: of one VLAN, and of all of a port's.
TABLES = """
[[vlan]]
interface = "lan.v"
pcp_to_dscp = { 5 = "ef" }

[[vlan]]
interface = "wan"
dscp_to_pcp = { ef = 6, default = 1 }
"""


def test_priorities_by_tables(bed):
    """What the tag of the LAN says becomes the DSCP, of ESP's outer header too, and the tag of the WAN follows that."""
    net = bed.up("vlans")
    net.client.ip("link", "set", "dev", "eth0", "type", "vlan", "egress-qos-map", "0:5")
    if bed.beside():
        net.gwa.daemon.settings = TABLES
        net.gwa.daemon.write_config()
    bed.start()
    wan, lan = Capture(net.mid, "west0"), Capture(net.server, "eth0", "icmp")
    before = bed.transmitted()
    assert_ping(net.client, t.SERVER4, count=8)
    if bed.beside():
        # One packet each second is the kernel's, which has no tables.
        assert bed.transmitted() - before >= 8
        sealed = [(tags(frame)[0][0][2], parse(0, tags(frame)[1])) for frame in wan.stop()]
        sealed = [(pcp, inside) for pcp, inside in sealed if inside.is_esp and str(inside.src) == t.WAN_A4]
        assert sum(pcp == 6 for pcp, _ in sealed) >= 4, sealed
        inner = [frame.data[15] >> 2 for frame in lan.stop() if str(parse(0, frame.data).src) == t.CLIENT4]
        assert inner.count(46) >= 4, inner
        assert ports(net.gwa)["lan.v"]["mode"].endswith(", DSCP by PCP")
        assert ports(net.gwa)["wan.v"]["mode"].endswith(", PCP by DSCP")


#: A host of the LAN that no policy protects, though its packets go where protected ones go.
STRANGER = "10.77.0.10"


def test_what_is_linuxs_comes_back_to_its_vlan(bed):
    """Cleartext that no policy protects is given back as received by the VLAN, with its tags and its priority."""
    net = bed.up("vlans", {"tags": t.TWO_TAGS})
    net.client.address("eth0", f"{STRANGER}/24")
    net.gwa.host.address("lan.v", "10.77.0.1/24")
    net.gwb.host.route("10.77.0.0/24", "via", t.WAN_A4)
    net.client.ip("link", "set", "dev", "eth0", "type", "vlan", "egress-qos-map", "0:5")
    bed.wire.clear = lambda frame: STRANGER in (str(frame.src), str(frame.dst))
    bed.start()
    assert_ping(net.client, t.SERVER4, count=3)
    port, vlan = Capture(net.gwa.host, "lan"), Capture(net.gwa.host, "lan.v", f"src {STRANGER} and icmp")
    before = bed.transmitted()
    assert_ping(net.client, t.SERVER4, count=5, source=STRANGER)
    # Of what the steering program passes at once no capture would tell it.
    assert not bed.beside() or net.gwa.daemon.stats()["outcomes"]["to-linux"] >= 5
    assert bed.transmitted() == before
    assert len(vlan.stop()) == 5
    back = [tags(frame) for frame in port.stop()]
    back = [found for found, data in back if str(parse(0, data).src) == STRANGER and parse(0, data).kind == "icmp"]
    assert [[(tpid, number) for tpid, number, _ in found] for found in back] == [vlans(t.TWO_TAGS["lan"])] * 5
    assert {found[-1][2] for found in back} == {5}


def test_vlans_come_and_go(bed):
    """A VLAN that is deleted and made anew, with another number, is taken again; one is no port of its own."""
    net = bed.up("vlans")
    bed.start()
    bed.pings(count=2)
    for host, dev, name, addresses in (
        (net.gwa.host, "lan", "lan.v", (f"{t.LAN_A4}/24", f"{t.LAN_A6}/64")),
        (net.client, "cable", "eth0", (f"{t.CLIENT4}/24", f"{t.CLIENT6}/64")),
    ):
        host.ip("link", "del", name)
        t.add_vlan(host, dev, [("802.1ad", 300)], name)
        host.address(name, *addresses)
    net.client.route("default", "via", t.LAN_A4)
    net.client.route("default", "via", t.LAN_A6)
    if bed.beside():
        wait_for("the new VLAN", lambda: ports(net.gwa)["lan.v"]["state"] == "up")
        before = ports(net.gwa)["lan.v"]
        assert before["vlan"] == [300]
    bed.pings(count=5)
    if bed.beside():
        assert ports(net.gwa)["lan.v"]["rx_packets"] - before["rx_packets"] >= 10
        bed.stop()
        net.gwa.daemon.ports = ["wan.v", "lan"]
        net.gwa.daemon.write_config()
        bed.start(taken=False)
        assert 'interface = "wan"' in ports(net.gwa)["wan.v"]["state"]


#: In VLAN 5 of a memif port, which is a part of the LAN's network.
APP4, APP_GATE4, APP_MAC, APP_TAG = "10.1.0.130", "10.1.0.129/25", bytes.fromhex("020000000502"), bytes.fromhex("81000005")


class TaggedApplication(threading.Thread):
    """Answers ARP and pings in the VLAN; what has another tag, or none, it does not see."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.port, self.is_over, self.pings = MemifClient(path), False, 0
        self.start()

    def run(self):
        while not self.is_over:
            for frame in self.port.receive(0.2):
                answer = frame[12:16] == APP_TAG and (self.arp(frame[16:]) or self.ping(frame[16:]))
                if answer:
                    self.port.send(frame[6:12] + APP_MAC + APP_TAG + answer)

    def arp(self, rest):
        """The answer to a request for its address."""
        own = socket.inet_aton(APP4)
        if rest[:10] == bytes.fromhex("08060001080006040001") and rest[26:30] == own:
            return rest[:9] + b"\x02" + APP_MAC + own + rest[10:20]
        return None

    def ping(self, rest):
        """The answer to an echo request, whose checksum is another by the type alone."""
        if rest[:3] != b"\x08\x00\x45" or rest[11] != socket.IPPROTO_ICMP or rest[22] != 8:
            return None
        self.pings += 1
        total = int.from_bytes(rest[24:26], "big") + 0x0800
        checksum = (total & 0xFFFF) + (total >> 16)
        return rest[:14] + rest[18:22] + rest[14:18] + b"\0\0" + checksum.to_bytes(2, "big") + rest[26:]

    def stop(self):
        self.is_over = True
        self.join()
        self.port.close()


def test_a_vlan_of_an_application(bed):
    """A VLAN on a memif port: ARP there is Linux's, and pings through the tunnel go past it."""
    net = bed.up()
    if not bed.beside():
        pytest.skip("the kernel has no memif")
    path = net.gwa.host.lab.tmp / "app0.sock"
    net.gwa.daemon.settings = f'[[port]]\ninterface = "app0"\nkind = "memif"\nsocket = "{path}"\n'
    net.gwa.daemon.write_config()
    bed.start()
    net.gwa.host.ip("link", "set", "dev", "app0", "up")
    t.add_vlan(net.gwa.host, "app0", [("802.1Q", 5)], "app0.v")
    net.gwa.host.address("app0.v", APP_GATE4)
    application = TaggedApplication(path)
    wait_for("the VLAN", lambda: ports(net.gwa).get("app0.v", {}).get("state") == "up")
    assert_ping(net.gwa.host, APP4, count=2)
    before = bed.transmitted()
    assert_ping(net.server, APP4, count=20)
    assert bed.transmitted() - before >= 20
    shown = ports(net.gwa)["app0.v"]
    application.stop()
    # One of each second is the kernel's.
    assert application.pings >= 22 and min(shown["rx_packets"], shown["tx_packets"]) >= 10, shown
