"""Route-based VPN: tunnels to everywhere, and routes that decide."""

import json

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import Stream, assert_perfect, assert_ping, first_answer, ping
from lab.xfrm import setdefault

TUNNEL = """
[[tunnel]]
interface = "ipsec0"
if_id = 42
"""

#: Addresses of the tunnel interfaces.
NEAR4, FAR4 = "10.9.0.1", "10.9.0.2"
NEAR6, FAR6 = "2001:db8:9::1", "2001:db8:9::2"


def with_tunnels(net, *, routed=True):
    """Gateways whose SAs are for everything, by tunnel interfaces with addresses."""
    for gateway in net.gateways():
        gateway.daemon.write_config(gateway.daemon.config.read_text() + TUNNEL)
    net.up()
    for gateway, near4, near6, far in (
        (net.gwa, NEAR4, NEAR6, "2"), (net.gwb, FAR4, FAR6, "1"),
    ):  # fmt: skip
        host = gateway.host
        host.address("ipsec0", f"{near4}/24", f"{near6}/64")
        if routed:
            for prefix in (f"10.{far}.0.0/24", f"2001:db8:{far}::/64"):
                host.ip("route", "replace", prefix, "dev", "ipsec0")
    return net


def tunnels(network, **values):
    everything = "0.0.0.0/0,::/0"
    child = "if_id_in = 42\n if_id_out = 42"
    return network(ts_a=everything, ts_b=everything, extra_child=child, **values)


def sent(host):
    """Packets that Linux has sent by the tunnel interface."""
    link = json.loads(host.ip("-json", "-s", "link", "show", "ipsec0").stdout)[0]
    return link["stats64"]["tx"]["packets"]


def test_routes_decide(network):
    net = with_tunnels(tunnels(network))
    wire = Capture(net.mid, "west")
    # Forwarded, of the gateways themselves, and between the interfaces' own addresses.
    for to in (t.SERVER4, t.SERVER6):
        assert_ping(net.client, to, count=10)
        assert_ping(net.gwa.host, to, count=5)
    assert_ping(net.gwa.host, FAR4, count=5)
    assert_ping(net.gwb.host, NEAR6, count=5)
    # Forwarded packets go from port to port: none of them leaves by the interface.
    before = sent(net.gwa.host)
    stream = Stream(net.client, net.server, t.SERVER4, count=500)
    stream.wait()
    assert_perfect(stream.finish())
    assert sent(net.gwa.host) - before < 50
    assert_only_protected(wire.stop(), protected=(*t.PROTECTED, "10.9.0.0/24", "2001:db8:9::/64"))
    # What is routed elsewhere is not the tunnel's, though its policy is for everything.
    net.gwa.host.ip("route", "replace", "10.2.0.0/24", "via", t.WAN_B4)
    net.gwb.host.ip("route", "replace", "10.1.0.0/24", "via", t.WAN_A4)
    wire = Capture(net.mid, "west", "icmp")
    assert_ping(net.client, t.SERVER4, count=3)
    assert len(wire.stop()) == 6
    # Linux sees an interface like any other.
    assert sent(net.gwa.host) > 0
    rows = {row["interface"]: row for row in net.gwa.daemon.json("port")}
    assert rows["ipsec0"]["kind"] == "tunnel" and rows["ipsec0"]["if_id"] == 42, rows


def test_under_default_actions_that_block(network):
    """What the interface sends has policies of its `if_id`, and what its SAs have decrypted was judged: neither meets a
    barrier of the guard."""
    net = with_tunnels(tunnels(network))
    gwa = net.gwa
    setdefault(gwa.daemon, "in block fwd block out block")
    for to in (FAR4, FAR6):
        assert_ping(gwa.host, to, count=3)
    for to in (NEAR4, NEAR6):
        assert_ping(net.gwb.host, to, count=3)
    for to in (t.WAN_B4, t.WAN_B6):
        assert ping(gwa.host, to, count=1, wait=1)["received"] == 0, to


def by_hand(gateway, here, there, spis):
    """SAs and policies for everything, a pair for each interface id."""
    lines = []
    for if_id, (out, back) in spis.items():
        for spi, src, dst in ((out, here, there), (back, there, here)):
            lines.append(
                f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid {if_id} mode tunnel "
                f"if_id {if_id} aead rfc4106(gcm(aes)) 0x{spi:040x} 128 replay-window 64"
            )
        for direction, src, dst in (("out", here, there), ("in", there, here), ("fwd", there, here)):
            lines.append(
                f"xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir {direction} priority 100 if_id {if_id} "
                f"tmpl src {src} dst {dst} proto esp reqid {if_id} mode tunnel"
            )
    batch = gateway.host.lab.tmp / f"{gateway.host.name}.xfrm"
    batch.write_text("\n".join(lines) + "\n")
    gateway.daemon.exec("ip", "-batch", batch)


def test_two_tunnels_for_everything_between_the_same_gateways(network):
    """Nothing but routes tells them apart."""
    net = network()
    second = TUNNEL.replace("ipsec0", "ipsec1").replace("42", "43")
    for gateway in net.gateways():
        gateway.daemon.write_config(gateway.daemon.config.read_text() + TUNNEL + second)
        gateway.daemon.start()
    by_hand(net.gwa, t.WAN_A4, t.WAN_B4, {42: (0x1042, 0x2042), 43: (0x1043, 0x2043)})
    by_hand(net.gwb, t.WAN_B4, t.WAN_A4, {42: (0x2042, 0x1042), 43: (0x2043, 0x1043)})

    def carried():
        return {int(sa["spi"], 16): sa["packets"] for sa in net.gwa.daemon.json("sa")}

    wire = Capture(net.mid, "west")
    expected = dict.fromkeys((0x1042, 0x2042, 0x1043, 0x2043), 0)
    for there, back, n in (("ipsec0", "ipsec0", 5), ("ipsec1", "ipsec1", 6), ("ipsec0", "ipsec1", 7)):
        net.gwa.host.ip("route", "replace", "10.2.0.0/24", "dev", there)
        net.gwb.host.ip("route", "replace", "10.1.0.0/24", "dev", back)
        assert_ping(net.client, t.SERVER4, count=n)
        expected[0x1042 if there == "ipsec0" else 0x1043] += n
        expected[0x2042 if back == "ipsec0" else 0x2043] += n
        wait_for("the counters", lambda: carried() == expected)
    assert_only_protected(wire.stop())


def test_without_a_policy_nothing_leaves(network):
    net = with_tunnels(tunnels(network))
    net.gwa.swan.terminate(ike="gw")
    wire = Capture(net.mid, "west")
    assert ping(net.client, t.SERVER4, count=3)["received"] == 0
    assert ping(net.gwa.host, FAR4, count=3)["received"] == 0
    assert_only_protected(wire.stop())
    assert net.gwa.daemon.drops()["out-no-tunnel"] >= 6


def test_no_interface_for_an_if_id(network):
    """The policies match nothing, and that is said, with what to do; a reload makes the interface."""
    net = tunnels(network)
    plain = net.gwa.daemon.config.read_text()
    net.gwb.daemon.write_config(net.gwb.daemon.config.read_text() + TUNNEL)
    net.up()
    missing = lambda: [w for w in net.gwa.daemon.json("status")["warnings"] if "if_id 0x2a" in w]  # noqa: E731
    wait_for("the warning", missing)
    assert "[[tunnel]]" in missing()[0] and "[[tunnel]]" in net.gwa.daemon.log()
    net.gwa.daemon.write_config(plain + TUNNEL)
    net.gwa.daemon.reload()
    wait_for("the interface", lambda: not missing())
    net.gwa.host.address("ipsec0", f"{NEAR4}/24")
    net.gwb.host.address("ipsec0", f"{FAR4}/24")
    # The daemons hear of the addresses a moment after Linux has them.
    first_answer(net.gwa.host, FAR4)
    assert_ping(net.gwa.host, FAR4, count=5)
    # Taken out again: it goes, and nothing with it.
    net.gwa.daemon.write_config(plain)
    net.gwa.daemon.reload()
    wait_for("the end", lambda: "ipsec0" not in net.gwa.host.ip("-o", "link").stdout)
    assert net.gwa.daemon.alive()


def test_the_interface_outlives_the_daemon(network):
    """With its routes: what is routed to it stops, and goes on with the next daemon."""
    net = with_tunnels(tunnels(network))
    assert_ping(net.client, t.SERVER4, count=3)
    wire = Capture(net.mid, "west")
    net.gwa.daemon.kill9()
    assert ping(net.client, t.SERVER4, count=3)["received"] == 0
    assert "10.2.0.0/24 dev ipsec0" in net.gwa.host.ip("route").stdout
    net.gwa.daemon.start()
    assert_ping(net.client, t.SERVER4, count=10)
    assert_only_protected(wire.stop())


def test_an_interface_in_another_namespace(network):
    """Programs there have the tunnel; SAs, policies and ports stay here, and the routes here lead there no longer."""
    net = with_tunnels(tunnels(network))
    a = net.gwa.host
    other = net.lab.host("other")
    elsewhere = lambda: {r["interface"]: r["state"] for r in net.gwa.daemon.json("port")}["ipsec0"]  # noqa: E731
    assert_ping(net.client, t.SERVER4, count=3)
    wire = Capture(net.mid, "west")
    a.ip("link", "set", "ipsec0", "netns", other.ns)
    wait_for("culvert to see it", lambda: "another" in elsewhere())
    other.ip("link", "set", "ipsec0", "up")
    other.address("ipsec0", f"{NEAR4}/24", f"{NEAR6}/64")
    other.ip("route", "add", "10.2.0.0/24", "dev", "ipsec0")
    # An address that gateway A has too, and one of its LAN: it is the interface that decides.
    for source in (NEAR4, t.LAN_A4, t.CLIENT4):
        if source != NEAR4:
            other.address("ipsec0", f"{source}/32")
        assert_ping(other, t.SERVER4, count=5, source=source)
    assert_ping(other, FAR6, count=5)
    assert ping(net.client, t.SERVER4, count=3)["received"] == 0
    # With the daemon it stops, and nothing of it leaves in clear.
    net.gwa.daemon.kill9()
    assert ping(other, t.SERVER4, count=3)["received"] == 0
    assert ping(net.client, t.SERVER4, count=3)["received"] == 0
    assert_only_protected(wire.stop(), protected=(*t.PROTECTED, "10.9.0.0/24"))


def test_an_interface_that_comes_back_from_another_namespace(network):
    net = with_tunnels(tunnels(network))
    a = net.gwa.host
    other = net.lab.host("other")
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=3)
    a.ip("link", "set", "ipsec0", "netns", other.ns)
    assert ping(net.client, t.SERVER4, count=2)["received"] == 0
    other.ip("link", "set", "ipsec0", "netns", a.ns)
    a.ip("link", "set", "ipsec0", "up")
    a.address("ipsec0", f"{NEAR4}/24")
    a.ip("route", "replace", "10.2.0.0/24", "dev", "ipsec0")
    first_answer(net.client, t.SERVER4)
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(a, FAR4, count=5)
    settings = a.run("sysctl", "-n", "net.ipv4.conf.ipsec0.disable_policy", "net.ipv4.conf.ipsec0.disable_xfrm")
    assert settings.stdout.split() == ["1", "1"], settings.stdout
    assert_only_protected(wire.stop(), protected=(*t.PROTECTED, "10.9.0.0/24"))
