"""An L3VPN for IPv4 and IPv6 between two gateways, alone and with IPsec."""

import os

import pytest

from lab import topology as t
from lab.capture import Capture, kinds
from lab.traffic import Stream, assert_perfect, assert_ping, ping

TABLE = 100
LONG = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=srv6"
)


def sid(side, number):
    return f"fc00:{side}::{number}"


def gateway(gw, side, mode="encap.red", segments=("46",), source=None, more=""):
    """Gateway number `side` of a VPN: what its site sends is looked for in the table alone."""
    host, other = gw.host, 3 - side
    source = source or (t.WAN_A6 if side == 1 else t.WAN_B6)
    far_wan = t.WAN_B6 if side == 1 else t.WAN_A6
    text = f'''
[srv6]
source = "{source}"
domain = ["wan"]
{more}

[[sid]]
prefix = "{sid(side, "46")}/128"
action = "End.DT46 table {TABLE}"

[[sid]]
prefix = "{sid(side, "1")}/128"
action = "End"
'''
    gw.daemon.write_config(gw.daemon.config.read_text() + text)
    segs = ",".join(sid(other, number) for number in segments)
    for family, far, near in (
        ("-4", f"10.{other}.0.0/24", f"10.{side}.0.0/24"),
        ("-6", f"2001:db8:{other}::/64", f"2001:db8:{side}::/64"),
    ):
        # Nothing leads there but segments.
        host.ip(family, "route", "del", far)
        host.ip(family, "rule", "add", "iif", "lan", "lookup", str(TABLE), "priority", "500")
        host.ip(family, "route", "add", far, "table", str(TABLE), "encap", "seg6", "mode", mode, "segs", segs, "dev", "wan")
        host.ip(family, "route", "add", near, "table", str(TABLE), "dev", "lan")
    host.ip("-6", "route", "add", f"fc00:{other}::/64", "via", far_wan)


def both_families(net):
    for to in (t.SERVER4, t.SERVER6):
        assert_ping(net.client, to, count=5)
    for to in (t.CLIENT4, t.CLIENT6):
        assert_ping(net.server, to, count=5)


def work(net, host, name):
    return getattr(net, host).daemon.stats()["work"][name]


def test_a_vpn_of_two_tables(network):
    net = network()
    gateway(net.gwa, 1)
    gateway(net.gwb, 2, mode="encap", segments=("1", "46"))
    for each in (net.gwb, net.gwa):
        each.plane.start(each)
    wire = Capture(net.mid, "west", "ip6")
    both_families(net)
    stream = Stream(net.client, net.server, t.SERVER4, count=1000, most=100)
    stream.wait()
    assert_perfect(stream.finish())
    frames = [f for f in wire.stop() if f.dst is not None and str(f.dst).startswith("fc00:")]
    to_b = [f for f in frames if str(f.dst) == sid(2, "46")]
    assert len(to_b) >= 1020 and {f.protocol for f in to_b} == {4, 41}
    assert {str(f.src) for f in to_b} == {t.WAN_A6}
    assert len([f for f in frames if str(f.dst) == sid(1, "1")]) >= 20
    # Past Linux, both ways.
    assert work(net, "gwa", "srv6-encapsulated") >= 1020, net.gwa.daemon.stats()
    assert work(net, "gwb", "srv6-decapsulated") >= 1020
    assert work(net, "gwa", "srv6-steps") >= 20
    why = net.gwa.daemon.culvert("why", "--from", t.CLIENT4, "--to", t.SERVER4, "--in", "lan").stdout
    assert "encap.red" in why, why
    # Nobody at a site chooses segments.
    assert ping(net.client, sid(1, "46"), count=2)["received"] == 0
    assert net.gwa.daemon.drops().get("srv6-edge") == 2, net.gwa.daemon.drops()
    # Nor anybody else, while no interface is named.
    config = net.gwb.daemon.config.read_text()
    net.gwb.daemon.write_config(config.replace('domain = ["wan"]', ""))
    assert "srv6: no interface is inside the domain" in net.gwb.daemon.culvert("check", "--config", net.gwb.daemon.config).stdout
    assert "srv6: no interface is inside the domain" in net.gwb.daemon.reload()
    assert any("srv6: no interface" in warning for warning in net.gwb.daemon.json("status")["warnings"])
    assert ping(net.client, t.SERVER4, count=2)["received"] == 0
    assert net.gwb.daemon.drops().get("srv6-edge") == 2, net.gwb.daemon.drops()
    net.gwb.daemon.write_config(config)
    net.gwb.daemon.reload()
    assert_ping(net.client, t.SERVER4, count=2)
    # What does not fit is told to its sender: 40 bytes of headers.
    answer = net.client.run("ping", "-c", "1", "-W", "2", "-M", "do", "-s", "1440", t.SERVER4, check=False)
    assert "mtu" in answer.stdout.lower() and "1460" in answer.stdout, answer.stdout
    assert net.gwa.daemon.drops().get("out-too-big"), net.gwa.daemon.drops()


@LONG
def test_segments_through_ipsec(network):
    """The policies are for segments; what goes by them is protected, and comes in no other way."""
    net = network(ts_a="2001:db8:f::1/128,fc00:1::/64", ts_b="2001:db8:f::2/128,fc00:2::/64", local_a=t.WAN_A4)
    for gw, side in ((net.gwa, 1), (net.gwb, 2)):
        gateway(gw, side, more="trust_sas = true")
    net.up()
    wire = Capture(net.mid, "west")
    both_families(net)
    seen = kinds(wire.stop())
    assert seen["esp"] >= 40 and not set(seen) - {"esp", "arp", "nd", "ike", "icmp6", "icmp"}, seen
    assert work(net, "gwb", "srv6-decapsulated") >= 20


@LONG
@pytest.mark.parametrize("crypto_cpus", ["[]", "[0, 1]"])
def test_ipsec_through_segments(network, crypto_cpus):
    """The way between the gateways is one of segments, with helpers and without."""
    net = network(local_a="192.0.2.1", remote_a="192.0.2.2")
    net.start()
    for gw, side, other in ((net.gwa, 1, 2), (net.gwb, 2, 1)):
        source = t.WAN_A6 if side == 1 else t.WAN_B6
        far = t.WAN_B6 if side == 1 else t.WAN_A6
        text = f'[srv6]\nsource = "{source}"\ndomain = ["wan"]\n\n[[sid]]\nprefix = "{sid(side, "4")}/128"\naction = "End.DT4 table 255"\n'
        text += f"\n[worker]\ncrypto_cpus = {crypto_cpus}\n"
        gw.daemon.write_config(gw.daemon.config.read_text() + "\n" + text)
        gw.daemon.reload()
        gw.host.ip("-6", "route", "add", f"fc00:{other}::/64", "via", far)
    net.gwa.swan.initiate()
    both_families(net)
    for gw, other in ((net.gwa, 2), (net.gwb, 1)):
        gw.host.ip(
            "route", "add", f"192.0.2.{other}/32", "encap", "seg6", "mode", "encap.red", "segs", sid(other, "4"), "dev", "wan"
        )  # fmt: skip
    wire = Capture(net.mid, "west", "ip6")
    both_families(net)
    frames = [f for f in wire.stop() if f.dst is not None and str(f.dst).startswith("fc00:")]
    assert len(frames) >= 40 and {f.protocol for f in frames} == {4}
    # The packet inside of the segments is ESP.
    assert {f.data[14 + 40 + 9] for f in frames if len(f.data) > 70} >= {50}
    stream = Stream(net.client, net.server, t.SERVER4, count=2000, most=100)
    stream.wait()
    assert_perfect(stream.finish())
    assert work(net, "gwa", "decrypted") >= 40


@LONG
def test_the_daemon_ends_and_linux_goes_on(network):
    """Linux has the routes with segments itself: without the fast path it follows them."""
    net = network()
    host = net.gwa.host
    net.gwb.daemon.write_config(net.gwb.daemon.config.read_text() + '\n[srv6]\ndomain = ["wan"]\n')
    host.ip("-6", "route", "add", "fc00:2::/64", "via", t.WAN_B6)
    host.ip("-6", "route", "replace", "2001:db8:2::/64", "encap", "seg6", "mode", "encap.red", "segs", "fc00:2::6", "dev", "wan")
    net.gwb.host.ip("-6", "route", "add", "fc00:2::6/128", "encap", "seg6local", "action", "End.DX6", "nh6", t.SERVER6, "dev", "lan")
    for each in (net.gwb, net.gwa):
        each.plane.start(each)
    assert_ping(net.client, t.SERVER6, count=5)
    assert work(net, "gwa", "srv6-encapsulated") >= 5
    assert work(net, "gwb", "srv6-decapsulated") >= 5
    for each in (net.gwb, net.gwa):
        each.plane.stop(each)
    assert ping(net.client, t.SERVER6, count=5)["received"] == 5
