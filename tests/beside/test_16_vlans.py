"""Gateways whose networks are VLANs of their cables: culvert takes the cables, and the VLANs of Linux with them."""

import time

import pytest
from lab import topology as t
from lab.capture import Capture

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
    time.sleep(1)
    if bed.beside():
        assert bed.transmitted() - before > 400, "the fast path has the packets"
        shown = ports(net.gwa)
        assert [shown[dev]["vlan"] for dev in ("wan.v", "lan.v")] == [[n for _, n in of[c]] for c in ("wan", "lan")]
        assert shown["wan.v"]["state"] == shown["lan.v"]["state"] == "up", shown
        assert all(shown[dev][way] > 100 for dev in ("wan.v", "lan.v") for way in ("rx_packets", "tx_packets")), shown
    bed.stop()
    bed.perfect(*streams)
    bed.assert_counted(missing=4)
    assert_tagged([f for f in wan.stop() if f.data[0] & 1 == 0], of["wan"])
    assert_tagged([f for f in lan.stop() if f.data[0] & 1 == 0], of["lan"])
