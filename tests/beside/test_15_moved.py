"""SAs that get other ends while they are in the fast path."""

import errno

import pytest
from lab import topology as t
from lab.capture import Capture
from lab.inject import Injector, ipv4_checksum
from lab.migrate import migrate, migrate_state
from lab.traffic import assert_ping
from lab.xfrm import A, B, Tunnel, batch, states

OTHER_A4 = "192.0.2.11"

TUNNEL = Tunnel(window=64)

#: (direction, source, destination) of the policies.
AT_A = [("out", "A", "B"), ("in", "B", "A"), ("fwd", "B", "A")]
AT_B = [("out", "B", "A"), ("in", "A", "B"), ("fwd", "A", "B")]
SIDES = {"A": A, "B": B}

#: What the outer addresses are, and become.
OUTER = {"A": (t.WAN_A4, OTHER_A4), "B": (t.WAN_B4, t.WAN_B4)}


def move(net, by):
    """Gives both SAs of the tunnel another end at gwa, at both gateways."""
    for gateway, side, policies in ((net.gwb, B, AT_B), (net.gwa, A, AT_A)):
        if by == "MIGRATE_STATE":
            for spi, src, dst in ((TUNNEL.spi, "A", "B"), (TUNNEL.spi + 1, "B", "A")):
                old, new = zip(OUTER[src], OUTER[dst])
                migrate_state(gateway.host, spi, old, new, TUNNEL.reqid)
            lines = (line.replace("policy add", "policy update") for line in TUNNEL.policies(side))
            batch(gateway.host, *(line.replace(t.WAN_A4, OTHER_A4) for line in lines))
            continue
        for direction, src, dst in policies:
            old, new = zip(OUTER[src], OUTER[dst])
            migrate(gateway.host, direction, (SIDES[src].inner[4], SIDES[dst].inner[4]), old, new, TUNNEL.reqid)


def to_other_end(frame):
    """A frame to gwa as an attacker sends it after the SA has moved: an outer header is not authenticated."""
    head = bytearray(frame.data[14:34])
    head[16:20] = bytes(map(int, OTHER_A4.split(".")))
    head[10:12] = b"\0\0"
    head[10:12] = ipv4_checksum(head).to_bytes(2, "big")
    return frame.data[:14] + bytes(head) + frame.data[34:]


@pytest.mark.parametrize("by", ["MIGRATE", "MIGRATE_STATE"])
def test_an_sa_moves(bed, by):
    """SAs of the fast path get other ends: it goes on with them, no number comes twice, all packets are counted, and what
    was received before is refused."""
    net = bed.make()
    net.gwa.host.address("wan", f"{OTHER_A4}/24")
    TUNNEL.install(net)
    bed.start()
    assert_ping(net.client, t.SERVER4, count=5)
    arriving = Capture(net.mid, "west", f"ip and dst {t.WAN_A4} and proto 50")
    # The kernel is told of packets once a second: of these not before the SA moves.
    assert_ping(net.server, t.CLIENT4, count=40, interval=0.005)
    try:
        move(net, by)
    except OSError as error:
        if by == "MIGRATE_STATE" and error.errno in (errno.ENOPROTOOPT, errno.EINVAL):
            pytest.skip("this kernel has no MIGRATE_STATE")
        raise
    old = [to_other_end(frame) for frame in arriving.stop() if frame.is_esp]
    assert len(old) >= 40
    assert {end for sa in states(net.gwa.host).values() for end in (sa.src, sa.dst)} == {OTHER_A4, t.WAN_B4}
    bed.wait_taken()
    bed.excused |= {"XfrmInStateSeqError"}
    bed.wire.injected = set(old)
    arrived = Capture(net.client, "eth0", "icmp")
    wire = Injector(net.mid, "west")
    wire.send(*old)
    wire.close()
    bed.settle()
    assert arrived.stop() == []
    before = bed.transmitted()
    assert_ping(net.client, t.SERVER4, count=20)
    assert_ping(net.server, t.CLIENT4, count=20)
    # One packet each second is the kernel's.
    assert bed.transmitted() - before >= 70 * len(bed.beside()), "the fast path has the packets"
    bed.assert_counted()
