"""A third network behind gateway A, which no policy protects, talks to a protected prefix in clear.

Culvert takes these packets to ask its policies, and leaves them to Linux. The firewall drops all that
does not come and go by the interfaces that it names.
"""

import json
import re

import pytest

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import Iperf, assert_ping, ping

THIRD4, THIRD6 = "10.5.0.10", "2001:db8:5::10"
FORGED4 = "10.77.0.1"

#: The counters' names say what they count.
RULES = """
table inet firewall {{
  counter third4_out {{ }}
  counter third6_out {{ }}
  counter third_mac {{ }}
  counter third4_back {{ }}
  counter third6_back {{ }}
  counter decrypted {{ }}
  counter to_tunnel {{ }}
  counter by_private {{ }}
  chain input {{
    type filter hook input priority 0; policy drop;
    iifname "wan" udp dport {{ 500, 4500 }} accept
    icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept
    iifname "culvert0" counter name decrypted accept
  }}
  chain forward {{
    type filter hook forward priority 0; policy drop;
    iifname "culvert0" counter name by_private {private}
    ether saddr {mac} counter name third_mac
    iifname "lan" oifname "wan" ip saddr 10.5.0.0/24 counter name third4_out accept
    iifname "lan" oifname "wan" ip6 saddr 2001:db8:5::/64 counter name third6_out accept
    iifname "wan" oifname "lan" ip daddr 10.5.0.0/24 counter name third4_back accept
    iifname "wan" oifname "lan" ip6 daddr 2001:db8:5::/64 counter name third6_back accept
  }}
  chain output {{
    type filter hook output priority 0; policy drop;
    oifname "wan" udp sport {{ 500, 4500 }} accept
    oifname "culvert0" counter name to_tunnel accept
    icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept
  }}
}}
"""


def build(network, private="drop"):
    net = network()
    a, b = net.gwa.host, net.gwb.host
    net.client.address("eth0", f"{THIRD4}/24", f"{THIRD6}/64")
    a.address("lan", "10.5.0.1/24", "2001:db8:5::1/64")
    b.route("10.5.0.0/24", "via", t.WAN_A4)
    b.route("2001:db8:5::/64", "via", t.WAN_A6)
    rules = RULES.format(mac=net.client.mac("eth0"), private=private)
    a.run("nft", "-f", "-", stdin=rules)
    return net


def counted(host, family="inet"):
    """Packets of each named counter."""
    shown = json.loads(host.run("nft", "-j", "list", "counters", "table", family, "firewall").stdout)
    counters = [row["counter"] for row in shown["nftables"] if "counter" in row]
    return {counter["name"]: counter["packets"] for counter in counters}


def reverse_path_drops(host):
    text = host.run("nstat", "-az", "TcpExtIPReversePathFilter").stdout
    return int(re.search(r"IPReversePathFilter\s+(\d+)", text).group(1))


def test_firewall_finds_the_interfaces(network):
    net = build(network)
    a = net.gwa.host
    # What follows holds without a tunnel.
    assert_ping(net.client, t.SERVER4, source=THIRD4, count=2)
    net.up()
    before = counted(a)
    assert_ping(net.client, t.SERVER4, source=THIRD4, count=20)
    assert_ping(net.client, t.SERVER6, source=THIRD6, count=20)
    # Past the firewall, through the tunnel.
    assert_ping(net.client, t.SERVER4, count=20)
    assert_ping(net.client, t.SERVER6, count=20)
    after = counted(a)
    for name in ("third4_out", "third6_out", "third4_back", "third6_back"):
        assert after[name] - before[name] == 20, (name, before, after)
    # With their own Ethernet header.
    assert after["third_mac"] - before["third_mac"] == 40, (before, after)
    # Out of the tunnel for the gateway itself, and into it.
    assert_ping(net.server, t.LAN_A4, count=10)
    assert_ping(net.server, t.LAN_A6, count=10)
    after = counted(a)
    assert after["decrypted"] == 20 and after["to_tunnel"] >= 20, after
    assert after["by_private"] == 0, after
    status = net.gwa.daemon.json("status")
    assert not [w for w in status["warnings"] if "cleartext" in w], status
    doctor = net.gwa.daemon.culvert("doctor", "--config", net.gwa.daemon.config, check=False).stdout
    assert not re.search(r"^\S* *rules .*(209|211)", doctor, re.MULTILINE), doctor


def test_full_size(network):
    net = build(network)
    net.up()
    iperf = Iperf(net.server)
    for to, source in ((t.SERVER4, THIRD4), (t.SERVER6, THIRD6)):
        for reverse in (False, True):
            process = net.client.spawn(
                "iperf3", "-c", to, "-B", source, "-J", "-n", 8_000_000, *(["-R"] if reverse else [])
            )
            process.seconds, process.udp = 5, False
            result = iperf.result(process)
            assert result["bytes"] > 4_000_000, result
    for size, to, source in ((1472, t.SERVER4, THIRD4), (1452, t.SERVER6, THIRD6)):
        assert_ping(net.client, to, source=source, size=size, count=5)
    assert counted(net.gwa.host)["by_private"] == 0


def test_reverse_path_filter_is_linuxs(network):
    net = build(network)
    a = net.gwa.host
    net.up()
    # So that neighbours are known: an ARP request is filtered too.
    assert_ping(net.client, t.SERVER4, source=THIRD4, count=2)
    a.sysctl("net.ipv4.conf.lan.rp_filter", 1)
    # The daemon reads the setting when something in Linux's tables changes.
    a.route("198.51.100.0/24", "via", t.WAN_B4)
    net.client.address("lo", f"{FORGED4}/32")
    wire = Capture(net.mid, "west")
    assert ping(net.client, t.SERVER4, source=FORGED4, count=5)["received"] == 0
    frames = wire.stop()
    assert not [f for f in frames if str(f.src) == FORGED4], frames
    assert reverse_path_drops(a) >= 5
    assert_ping(net.client, t.SERVER4, source=THIRD4, count=5)


def test_crash(network):
    net = build(network)
    net.up()
    assert_ping(net.client, t.SERVER4, count=2)
    net.gwa.daemon.kill9()
    wire = Capture(net.mid, "west")
    for to in (t.SERVER4, t.SERVER6):
        assert ping(net.client, to, count=5)["received"] == 0
    assert_only_protected(wire.stop())
    # What was never protected goes on.
    assert_ping(net.client, t.SERVER4, source=THIRD4, count=5)
    net.gwa.daemon.start()
    wait_for("the ports", lambda: net.gwa.daemon.json("status")["ports_up"] == 2)
    before = counted(net.gwa.host)
    assert_ping(net.client, t.SERVER4, source=THIRD4, count=5)
    assert counted(net.gwa.host)["third4_out"] - before["third4_out"] == 5
    assert_ping(net.client, t.SERVER4, count=2)


@pytest.mark.parametrize("what", ["rules", "marks"])
def test_meddling(network, what):
    """Rules that are flushed come back; marks that are taken away cost the interface it leaves by."""
    net = build(network, private="accept")
    a = net.gwa.host
    net.up()
    if what == "rules":
        for flag in ("-4", "-6"):
            a.ip(flag, "rule", "del", "pref", "209")
            wait_for("the rule", lambda flag=flag: "209:" in a.ip(flag, "rule").stdout)
        assert_ping(net.client, t.SERVER4, source=THIRD4, count=5)
        return
    a.run("nft", "-f", "-", stdin="""
        table inet meddler {
          chain pre { type filter hook prerouting priority mangle; meta mark set 0; }
        }
    """)  # fmt: skip
    a.run("nft", "insert", "rule", "inet", "firewall", "forward", "oifname", "culvert0", "accept")
    assert_ping(net.client, t.SERVER4, source=THIRD4, count=5)


def test_generic_mode_says_so(network):
    net = build(network, private="accept")
    net.gwa.daemon.mode = "generic"
    net.gwa.daemon.write_config()
    net.up()
    assert_ping(net.client, t.SERVER4, source=THIRD4, count=10)
    after = counted(net.gwa.host)
    assert after["by_private"] >= 10, after
    warnings = net.gwa.daemon.json("status")["warnings"]
    assert [w for w in warnings if "generic" in w and "port lan" in w], warnings
