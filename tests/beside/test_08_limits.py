"""Limits of bytes and packets, which the kernel cannot see while the fast path does the work."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.traffic import assert_ping, ping
from lab.xfrm import Tunnel, states

LIMITS = {
    "packets": "rekey_packets = 500\n life_packets = 20000\n rand_packets = 0",
    "bytes": "rekey_bytes = 150000\n life_bytes = 20000000\n rand_bytes = 0",
}


@pytest.mark.parametrize("limit", [pytest.param("packets", marks=pytest.mark.sample), "bytes"])
def test_soft(bed, limit):
    """`rekey_packets` and `rekey_bytes` make charon rekey when the fast path has counted that far, and nothing is
    lost."""
    net = bed.up(extra_child=LIMITS[limit])
    first = {c["spi-in"] for c in net.gwa.swan.children("net")}
    bed.start()
    stream = bed.stream(rate=400, count=1500)
    wait_for("a new CHILD_SA", lambda: {c["spi-in"] for c in net.gwa.swan.children("net")} - first, timeout=20)
    stream.wait()
    bed.perfect(stream)
    bed.wait_taken()
    assert_ping(net.client, t.SERVER4)


@pytest.mark.parametrize("begun", ["before", "while"])
def test_hard(bed, begun):
    """An SA with a hard limit sends exactly as many packets as that, soft and hard EXPIRE are told, and it is gone."""
    net = bed.make()
    Tunnel(limits="limit packet-soft 200 limit packet-hard 300").install(net)
    monitor = net.gwa.host.spawn("stdbuf", "-oL", "ip", "xfrm", "monitor", "expire")
    if begun == "before":
        assert_ping(net.client, t.SERVER4, count=50, interval=0.005)
    bed.start()
    bed.excused |= {"XfrmOutStateExpired", "XfrmOutNoStates", "XfrmAcquireError", "XfrmOutStateProtoError"}
    ping(net.client, t.SERVER4, count=180 if begun == "before" else 230, interval=0.005)
    wait_for("the soft limit", lambda: "soft" in monitor.output() or "hard 0" in monitor.output(), timeout=5)
    ping(net.client, t.SERVER4, count=400, interval=0.005)
    wait_for("the hard limit", lambda: "hard 1" in monitor.output(), timeout=5)
    assert bed.wire.record().packets(0x1000) == 300
    wait_for("the SA to be gone", lambda: 0x1000 not in states(net.gwa.host), timeout=5)
    for gateway in bed.beside():
        wait_for(
            "it to be gone from culvert",
            lambda g=gateway: 0x1000 not in {int(sa["spi"], 16) for sa in g.daemon.json("sa")}, timeout=5,
        )  # fmt: skip
    assert ping(net.client, t.SERVER4, count=3)["received"] == 0
