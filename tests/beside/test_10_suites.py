"""Suites, modes and families: hand-made SAs are taken over and given back, and both kernels count the same."""

import pytest
from lab import topology as t
from lab.beside import is_fast, reason
from lab.traffic import assert_perfect, assert_ping
from lab.xfrm import NO_IV, Tunnel

ESN = {"flags": "esn", "window": 64}

TUNNELS = {
    "AES-GCM-128": Tunnel(),
    "AES-GCM-256, ESN": Tunnel("gcm256", **ESN),
    "AES-GCM-128, a window of 1024": Tunnel(window=1024),
    "ChaCha20-Poly1305": Tunnel("chacha"),
    "AES-CBC with SHA-256": Tunnel("cbc-sha256"),
    "AES-CBC with SHA-512, ESN": Tunnel("cbc-sha512", **ESN),
    "NULL with SHA-256": Tunnel("null-sha256"),
    "AH with SHA-256": Tunnel("ah-sha256"),
    "AH with SHA-256, ESN": Tunnel("ah-sha256", **ESN),
    "IPv6 in IPv6": Tunnel(outer=6, inner=6),
    "IPv4 in IPv6": Tunnel(outer=6),
    "IPv6 in IPv4": Tunnel(inner=6),
}

TRANSPORTS = {
    "AES-GCM-128": Tunnel(mode="transport"),
    "AES-CBC with SHA-256, ESN": Tunnel("cbc-sha256", mode="transport", **ESN),
    "AH with SHA-256": Tunnel("ah-sha256", mode="transport"),
    "IPv6": Tunnel(mode="transport", outer=6, inner=6),
}

#: In the sample.
FEW = {"IPv4 in IPv6"}


def params(cases):
    return [pytest.param(name, marks=[pytest.mark.sample] * (name in FEW)) for name in cases]


def come_and_go(bed, tunnel, make_stream, pings, is_taken=True):
    """Traffic with the kernel, with culvert, and with the kernel again."""
    if tunnel.suite in NO_IV:
        bed.wire.iv_len_bytes = 0
    pings()
    stream = make_stream()
    bed.start(taken=is_taken)
    bed.settle()
    pings()
    bed.stop()
    pings()
    bed.perfect(stream)
    bed.assert_counted()
    bed.start(taken=is_taken)
    pings()
    bed.assert_counted()


@pytest.mark.parametrize("case", params(TUNNELS))
def test_tunnel(bed, case):
    """A tunnel made by hand is taken over and given back under traffic, and no packet is lost."""
    net = bed.make()
    tunnel = TUNNELS[case].install(net)
    near, far = (t.CLIENT4, t.SERVER4) if tunnel.inner == 4 else (t.CLIENT6, t.SERVER6)

    def pings():
        assert_ping(net.client, far, count=5, wait=3)
        assert_ping(net.server, near, count=5, wait=3)
        # Longer than a packet of the stream, and of every length modulo a cipher's block.
        for size in range(600, 616, 5):
            assert_ping(net.client, far, count=1, size=size, wait=3)

    come_and_go(bed, tunnel, lambda: bed.stream(far), pings)


@pytest.mark.parametrize("case", TRANSPORTS)
def test_transport(bed, case):
    """Transport mode between two hosts comes and goes with culvert, and no packet is lost. What Linux itself sends over
    IPv6 does not pass culvert: that SA stays, and the one back is taken."""
    net = bed.make("host2host")
    tunnel = TRANSPORTS[case]
    near, far = (t.WAN_A4, t.WAN_B4) if tunnel.outer == 4 else (t.WAN_A6, t.WAN_B6)
    a, b = net.gwa.host, net.gwb.host
    # Neighbour discovery between the two would be protected itself.
    a.ip("neigh", "replace", far, "lladdr", b.mac("wan"), "dev", "wan")
    b.ip("neigh", "replace", near, "lladdr", a.mac("wan"), "dev", "wan")
    tunnel.install(net)

    def pings():
        assert_ping(a, far, count=5, wait=3)
        assert_ping(b, near, count=5, wait=3)

    come_and_go(bed, tunnel, lambda: bed.between(a, b, far, rate=300), pings, is_taken=tunnel.outer == 4)
    for gateway in (g for g in bed.beside() if g is net.gwa):
        out, back = (bed.placement(gateway, tunnel.spi + n) for n in (0, 1))
        assert is_fast(back) and is_fast(out) is (tunnel.outer == 4), (out, back)
        assert is_fast(out) or "IPv6 of this host is the kernel's" in reason(out), out


def test_many_sas(bed):
    """Forty tunnels side by side, of two families, are all taken, used and given back."""
    net = bed.make()
    for number in range(40):
        port = 7000 + 2 * number
        Tunnel(
            spi=0x10000 + 16 * number, reqid=100 + number, inner=4 if number % 2 else 6,
            select=f"proto udp dport {port if number % 2 else port + 1}",
            select_back=f"proto udp sport {port if number % 2 else port + 1}",
        ).install(net)  # fmt: skip
    bed.start()
    streams = [
        bed.between(net.client, net.server, t.SERVER4 if n % 2 else t.SERVER6, rate=50, port=7000 + 2 * n, count=50)
        for n in range(0, 40, 5)
    ]
    for stream in streams:
        stream.wait()
        assert_perfect(stream.finish())
    bed.stop()
    bed.assert_counted()
