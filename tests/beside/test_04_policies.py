"""Policies of every kind, decided as the kernel decides."""

from lab import topology as t
from lab.base import wait_for
from lab.beside import is_fast
from lab.capture import MARK
from lab.traffic import assert_ping, ping
from lab.xfrm import A, B, Tunnel, batch, states

#: Ports of streams, each with a policy of its own.
NARROW, BYPASS, BLOCK = 7300, 7400, 7500

#: Both ways of a port's policies, for both gateways: what the selector says of A's packets to B, and of B's.
WAYS = ((t.CLIENT4, t.SERVER4, "dport"), (t.SERVER4, t.CLIENT4, "sport"))


def without_template(action, priority, port):
    """The lines that make policies without a template about a port of the server, at either gateway."""
    for side in ("a", "b"):
        lines = []
        for (src, dst, which), is_out in zip(WAYS, (side == "a", side == "b")):
            for direction in ("out", "fwd") if is_out else ("in", "fwd"):
                lines.append(
                    f"xfrm policy add src {src}/32 dst {dst}/32 proto udp {which} {port} dir {direction} "
                    f"priority {priority} action {action}"
                )
        yield lines


def by_hand(bed, *tunnels, lines=((), ())):
    """A network without an IKE daemon, with tunnels made by hand."""
    net = bed.make()
    for tunnel in tunnels:
        tunnel.install(net)
    for gateway, more in zip((net.gwa, net.gwb), lines):
        if more:
            batch(gateway.host, *more)
    return net


def counted(bed, port):
    """What a stream to a port of the server left on the wire: packets by SPI, and in clear."""
    before = bed.wire.record().numbers
    was = {spi: len(numbers) for (_, spi), numbers in before.items()}
    stream = bed.stream(port=port, rate=300, count=100)
    stream.wait()
    report = stream.finish()
    bed.settle()
    now = bed.wire.record().numbers
    by_spi = {spi: len(n) - was.get(spi, 0) for (_, spi), n in now.items() if len(n) > was.get(spi, 0)}
    clear = sum(port in f.ports and MARK in f.data for f in bed.wire.frames())
    return report, by_spi, clear


def test_side_by_side(bed):
    """Protect, a narrower policy with another SA, a bypass and a block inside the protected prefix each get their
    packets, with culvert and without."""
    lines = [
        [*bypass, *block]
        for bypass, block in zip(without_template("allow", 400, BYPASS), without_template("block", 300, BLOCK))
    ]
    wide, narrow = Tunnel(spi=0x1000), Tunnel(
        spi=0x2000, reqid=2, priority=500, select=f"proto udp dport {NARROW}", select_back=f"proto udp sport {NARROW}"
    )
    by_hand(bed, wide, narrow, lines=lines)
    bed.wire.clear = lambda frame: BYPASS in frame.ports
    bed.excused |= {"XfrmOutPolBlock", "XfrmFwdHdrError", "XfrmInPolBlock"}
    for round_number, act in enumerate((lambda: None, bed.start, bed.stop, bed.start)):
        act()
        report, by_spi, clear = counted(bed, 7000)
        assert by_spi == {0x1000: 100, 0x1001: 100} and clear == 0, (by_spi, clear)
        report, by_spi, clear = counted(bed, NARROW)
        assert by_spi == {0x2000: 100, 0x2001: 100} and clear == 0, (by_spi, clear)
        report, by_spi, clear = counted(bed, BYPASS)
        assert by_spi == {} and clear == 200 * (round_number + 1), (by_spi, clear)
        assert report["back"]["lost"] == 0, report
        report, by_spi, clear = counted(bed, BLOCK)
        assert by_spi == {} and clear == 0 and report["there"]["received"] == 0, (by_spi, clear, report)
    bed.assert_counted()


def test_priorities(bed):
    """A policy that is added with a lower number gets the packets at once, and gives them back when it is deleted."""
    net = by_hand(bed, Tunnel(spi=0x1000))
    bed.start()
    assert counted(bed, 7000)[1] == {0x1000: 100, 0x1001: 100}
    first = Tunnel(spi=0x3000, reqid=3, priority=10, select="proto udp", select_back="proto udp").install(net)
    bed.wait_taken()
    assert counted(bed, 7000)[1] == {0x3000: 100, 0x3001: 100}
    for gateway, side in ((net.gwa, A), (net.gwb, B)):
        batch(gateway.host, *(
            line.partition(" priority ")[0].replace(" add ", " delete ") for line in first.policies(side)
        ))  # fmt: skip
    bed.settle()
    assert counted(bed, 7000)[1] == {0x1000: 100, 0x1001: 100}
    bed.assert_counted()


def test_another_policy_for_the_same_sas(bed):
    """A policy that comes while its SAs are in the fast path already is carried out there at once."""
    net = by_hand(bed, Tunnel(spi=0x1000))
    bed.start()
    assert counted(bed, 7000)[1] == {0x1000: 100, 0x1001: 100}
    narrow = Tunnel(
        spi=0x1000, priority=10, select=f"proto udp dport {NARROW}", select_back=f"proto udp sport {NARROW}"
    )
    for gateway, side in ((net.gwb, B), (net.gwa, A)):
        batch(gateway.host, *narrow.policies(side))
    bed.settle()
    before = bed.transmitted()
    assert counted(bed, NARROW)[1] == {0x1000: 100, 0x1001: 100}
    # But for those inbound ones that pass to the kernel to move its use times.
    assert bed.transmitted() - before > 190 or not bed.beside()
    bed.wait_taken()
    bed.assert_counted()


def test_a_newer_sa(bed):
    """Of two SAs for one policy the one that the kernel would choose is used, and the change loses nothing."""
    net = by_hand(bed, Tunnel(spi=0x1000))
    bed.start()
    stream = bed.stream()
    newer = Tunnel(spi=0x4000)
    (a_out, a_in), (b_in, b_out) = newer.states(A), newer.states(B)
    for gateway, line in ((net.gwa, a_in), (net.gwb, b_in), (net.gwa, a_out), (net.gwb, b_out)):
        batch(gateway.host, line)
    bed.wait_taken()
    batch(net.gwa.host, f"xfrm state delete src {t.WAN_A4} dst {t.WAN_B4} proto esp spi 0x1000")
    batch(net.gwb.host, f"xfrm state delete src {t.WAN_B4} dst {t.WAN_A4} proto esp spi 0x1001")
    wait_for("packets under the newer SAs", lambda: (
        bed.wire.record().packets(0x4000) > 50 and bed.wire.record().packets(0x4001) > 50
    ), timeout=10)  # fmt: skip
    bed.perfect(stream)


def test_trap(bed):
    """A trap policy makes the kernel ask, charon negotiates, and the packets that waited arrive."""
    net = bed.make(start_action="trap")
    for gateway in net.gateways():
        # So that the kernel holds packets while it waits for an SA, as culvert does; its default is to drop them.
        gateway.host.sysctl("net.core.xfrm_larval_drop", 0)
    bed.start(taken=False)
    net.start()
    assert not net.gwa.swan.children()
    assert_ping(net.client, t.SERVER4, count=20, interval=0.1)
    assert net.gwa.swan.children("net")
    bed.wait_taken()
    bed.pings(count=3)
    # Deleted, it traps again.
    net.gwa.swan.terminate(ike="gw")
    for gateway in net.gateways():
        wait_for("no SA", lambda g=gateway: not states(g.host))
    assert_ping(net.client, t.SERVER6, count=20, interval=0.1)
    bed.wait_taken()


def test_trap_without_an_answer(bed):
    """While nobody answers what a trap asks, nothing is sent in clear, and it is no packet that culvert lost."""
    net = bed.make(start_action="trap")
    bed.start(taken=False)
    net.gwa.swan.start()
    assert ping(net.client, t.SERVER4, count=10)["received"] == 0
    bed.excused |= {"XfrmOutNoStates", "XfrmOutStateInvalid", "XfrmOutPolError"}
    net.gwb.swan.start()
    # charon sends its request again.
    wait_for("a CHILD_SA", lambda: ping(net.client, t.SERVER4, count=1)["received"], timeout=30)
    bed.wait_taken()


def test_policies_are_shown(bed):
    """`culvert policy` lists the kernel's policies of all directions, with index and priority."""
    net = by_hand(bed, Tunnel(spi=0x1000), lines=list(without_template("block", 300, BLOCK)))
    bed.start()
    assert_ping(net.client, t.SERVER4, count=2)
    for gateway in bed.beside():
        shown = gateway.daemon.json("policy")
        assert sorted(p["direction"] for p in shown) == ["fwd"] * 3 + ["in"] * 2 + ["out"] * 2, shown
        assert {p["priority"] for p in shown} == {300, 1000}, shown
        text = gateway.host.run("ip", "xfrm", "policy", "list", "nosock").stdout
        # But for those that let in what culvert itself has decrypted.
        # Culvert's own, which let pass what it has judged, have its mark.
        assert text.count("priority") - text.count("mark 0x20000000/0x20000000") == len(shown), text
        assert all(is_fast(sa) for sa in gateway.daemon.json("sa"))
