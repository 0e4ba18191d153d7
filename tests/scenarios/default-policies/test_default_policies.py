"""Default actions of the policy database that block: RFC 4301 section 4.4.1, "without an entry a packet is discarded"."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.planes import culvert_binary
from lab.traffic import assert_ping, ping
from lab.xfrm import setdefault

#: Of gateway A alone: it is the one that blocks. Nobody's policies are about it.
ELSEWHERE4, ELSEWHERE6 = "198.51.100.9", "2001:db8:e::9"

#: What is not protected, by which way it goes.
CLEAR = {
    "own": lambda net: [(net.gwa.host, t.WAN_B4), (net.gwa.host, t.WAN_B6)],
    "to it": lambda net: [(net.gwb.host, t.WAN_A4), (net.gwb.host, t.WAN_A6), (net.client, t.LAN_A4), (net.client, t.LAN_A6)],
    "forwarded": lambda net: [(net.client, ELSEWHERE4), (net.client, ELSEWHERE6)],
}

#: What Linux asks of a gateway with such defaults, beside the policies of its tunnels: what is forwarded into a tunnel has
#: to pass `fwd` first, and what comes out of it `out`.
ONWARD = (
    (t.PROTECTED[0], t.PROTECTED[1], "fwd"), (t.PROTECTED[2], t.PROTECTED[3], "fwd"),
    (t.PROTECTED[1], t.PROTECTED[0], "out"), (t.PROTECTED[3], t.PROTECTED[2], "out"),
)  # fmt: skip


def elsewhere(net):
    """A host beyond gateway B that no policy is about."""
    net.gwb.host.address("lo", f"{ELSEWHERE4}/32", f"{ELSEWHERE6}/128")
    net.gwa.host.route(f"{ELSEWHERE4}/32", "via", t.WAN_B4)
    net.gwa.host.route(f"{ELSEWHERE6}/128", "via", t.WAN_B6)


def answered(net, ways=CLEAR):
    """The pairs of host and destination that get answers, by way."""
    return {
        way: [(host.name, to) for host, to in CLEAR[way](net) if ping(host, to, count=1, wait=1)["received"]]
        for way in ways
    }


def forget_neighbours(net):
    for gateway in net.gateways():
        for dev in ("wan", "lan"):
            gateway.host.ip("neigh", "flush", "dev", dev)


def assert_tunnel(net):
    for to in (t.SERVER4, t.SERVER6):
        assert_ping(net.client, to, count=2)
    assert_ping(net.gwa.host, t.SERVER4, count=2, source=t.LAN_A4)
    assert_ping(net.gwa.host, t.SERVER6, count=2, source=t.LAN_A6)
    assert_ping(net.server, t.LAN_A4, count=2)
    assert_ping(net.server, t.LAN_A6, count=2)


def assert_nothing_in_clear(net):
    assert answered(net) == {"own": [], "to it": [], "forwarded": []}


def test_nothing_but_what_a_policy_is_about(network):
    net = network().up()
    elsewhere(net)
    gwa = net.gwa
    everything = {way: [(host.name, to) for host, to in CLEAR[way](net)] for way in CLEAR}
    wait_for("answers to everybody, so that what follows is not true by accident", lambda: answered(net) == everything)
    for src, dst, way in ONWARD:
        gwa.daemon.exec("ip", "xfrm", "policy", "add", "src", src, "dst", dst, "dir", way)
    wire = Capture(net.mid, "west", f"ether src {gwa.host.mac('wan')}")
    setdefault(gwa.daemon, "in block fwd block out block")
    forget_neighbours(net)
    assert_nothing_in_clear(net)
    assert_tunnel(net)
    # Key exchange goes on, also begun by this side.
    before = {sa["spi"] for sa in gwa.daemon.json("sa")}
    gwa.swan.rekey(child="net")
    gwa.swan.rekey(ike="gw")
    wait_for("new SAs", lambda: not before & {sa["spi"] for sa in gwa.daemon.json("sa")})
    assert_tunnel(net)
    assert_only_protected(wire.stop(), allow=())
    # It is told.
    assert gwa.daemon.json("status")["default_blocks"] == ["in", "out", "fwd"]
    assert "what no policy is about is blocked (in, out, fwd)" in gwa.daemon.culvert("status").stdout
    assert "default: what no policy is about is blocked (in, out, fwd)" in gwa.daemon.culvert("policy").stdout

    def shown():
        return gwa.host.run(culvert_binary(), "--name", gwa.daemon.name, "guard", "show").stdout

    assert shown().count("block by default") == 6, shown()

    # Dead, it holds; and the next start knows of it.
    gwa.daemon.kill9()
    assert_nothing_in_clear(net)
    assert shown().count("block by default") == 6, shown()
    gwa.daemon.start()
    assert_nothing_in_clear(net)
    assert_tunnel(net)
    assert "out block" in " ".join(gwa.daemon.exec("ip", "xfrm", "policy", "getdefault").stdout.split()).replace(":", "")
    # Each direction is one by itself.
    setdefault(gwa.daemon, "in accept")
    assert answered(net) == {"own": [], "to it": [], "forwarded": []}, "what it answers is its own"
    setdefault(gwa.daemon, "out accept")
    assert answered(net) == {**everything, "forwarded": []}
    setdefault(gwa.daemon, "fwd accept")
    assert answered(net) == everything
    assert shown().count("block by default") == 0, shown()


def test_it_outlives_the_last_policy_and_an_end_in_order(network):
    net = network()
    elsewhere(net)
    for gateway in net.gateways():
        gateway.daemon.start()
    gwa = net.gwa
    setdefault(gwa.daemon, "in block fwd block out block")
    assert_nothing_in_clear(net)
    assert "no policies; what no policy is about is blocked" in gwa.daemon.culvert("policy").stdout
    assert gwa.daemon.stop() == 0
    assert_nothing_in_clear(net)
    gwa.daemon.start()
    assert_nothing_in_clear(net)
    # The tunnel is negotiated under it.
    for gateway in net.gateways():
        gateway.swan.start()
    gwa.swan.initiate()
    for src, dst, way in ONWARD:
        gwa.daemon.exec("ip", "xfrm", "policy", "add", "src", src, "dst", dst, "dir", way)
    assert_tunnel(net)
    gwa.swan.stop()
    assert gwa.daemon.stop() == 0
    assert_nothing_in_clear(net)
    gwa.host.run(culvert_binary(), "--name", gwa.daemon.name, "guard", "clear", "--yes")
    assert all(answered(net).values())


@pytest.mark.parametrize("family", [4, 6])
def test_without_a_guard_it_stands_all_the_same(network, family):
    """The guard alone can carry a default out; `enabled = false` is about policies."""
    net = network()
    elsewhere(net)
    gwa = net.gwa
    gwa.daemon.settings = "[guard]\nenabled = false\n"
    gwa.daemon.write_config()
    gwa.daemon.start()
    pass4, pass6 = (t.WAN_A4, t.WAN_B4), (t.WAN_A6, t.WAN_B6)
    own, peer = pass4 if family == 4 else pass6
    for src, dst, way in ((own, peer, "out"), (peer, own, "in")):
        gwa.daemon.exec("ip", "xfrm", "policy", "add", "src", src, "dst", dst, "dir", way)
    setdefault(gwa.daemon, "in block fwd block out block")
    expected = [(gwa.host.name, peer)]
    assert answered(net)["own"] == expected, "only what a policy lets pass"
    assert any("a default action blocks" in warning for warning in gwa.daemon.json("status")["warnings"])
    setdefault(gwa.daemon, "in accept fwd accept out accept")
    assert all(answered(net).values())
    assert gwa.daemon.json("status")["guard_policies"] == 0
