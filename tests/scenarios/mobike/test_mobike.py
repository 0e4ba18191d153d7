"""charon moves an SA by deleting it and adding it again with the same keys."""

import signal
from collections import defaultdict

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.traffic import assert_ping, ping

#: What gateway A goes on with.
OTHER_A4 = "192.0.2.11"


def numbers(frames):
    """The sequence numbers of each SPI, in the order of the wire."""
    by_spi = defaultdict(list)
    for frame in frames:
        if frame.is_esp:
            by_spi[frame.spi].append(frame.sequence)
    return by_spi


def assert_without_a_gap(frames):
    by_spi = numbers(frames)
    assert len(by_spi) == 2, by_spi
    for spi, seen in by_spi.items():
        assert seen == list(range(1, len(seen) + 1)), (hex(spi), seen)


def test_the_address_changes(network):
    net = network(local_a="%any", encap="yes")
    gwa = net.gwa.host
    gwa.sysctl("net.ipv4.conf.wan.promote_secondaries", 1)
    gwa.address("wan", f"{OTHER_A4}/24")
    # Whichever it is that charon begins with, the other one stays.
    net.up()
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=1)
    before = net.gwa.daemon.json("sa")
    used = next(sa["src"] for sa in before if sa["src"] in (t.WAN_A4, OTHER_A4))
    gwa.ip("addr", "del", f"{used}/24", "dev", "wan")

    def moved():
        ends = {end for sa in net.gwa.daemon.json("sa") for end in (sa["src"], sa["dst"])}
        there = {end for sa in net.gwb.daemon.json("sa") for end in (sa["src"], sa["dst"])}
        return ends and used not in ends and there and used not in there

    wait_for("the SAs at the other address", moved)
    assert {sa["spi"] for sa in before} == {sa["spi"] for sa in net.gwa.daemon.json("sa")}
    assert_ping(net.client, t.SERVER4, count=5)
    assert_ping(net.server, t.CLIENT4, count=5)
    assert_without_a_gap(wire.stop())


def test_moved_by_hand_under_traffic(network):
    """Deleted and added again in one breath, again and again, while packets flow."""
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24").up()
    daemon = net.gwa.daemon
    # A packet that finds the SA gone asks for one, and is not to get another.
    net.gwa.swan.process.kill(signal.SIGSTOP)
    wire = Capture(net.mid, "west")
    traffic = net.client.spawn("ping", "-n", "-i", "0.002", t.SERVER4)
    sent = next(sa for sa in daemon.json("sa", "--show-keys") if sa["src"] == t.WAN_A4)
    key = "0x" + sent["keys"]["cipher"] + sent["keys"]["salt"]
    name = f"src {sent['src']} dst {sent['dst']} proto esp spi {sent['spi']}"
    again = net.lab.tmp / "again"
    again.write_text(
        f"xfrm state delete dst {sent['dst']} proto esp spi {sent['spi']}\n"
        f"xfrm state add {name} reqid {sent['reqid']} mode tunnel"
        f" aead rfc4106(gcm(aes)) {key} 128\n"
    )
    for _ in range(50):
        daemon.exec("ip", "-batch", again)
    assert ping(net.client, t.SERVER4, count=5)["received"] == 5
    traffic.stop()
    net.gwa.swan.process.kill(signal.SIGCONT)
    assert_without_a_gap(wire.stop())
