"""Marks as `mark_in`, `mark_out` and `set_mark_in` have them in swanctl.conf."""

import pytest
from lab import topology as t
from lab.capture import Capture, assert_only_protected
from lab.traffic import Iperf, Stream, assert_perfect, assert_ping, ping

#: Gateway A's rules: what goes to a tunnel is marked by its traffic class, what comes from one is told
#: by its mark.
RULES = """
table inet marks {
  chain pre {
    type filter hook prerouting priority mangle; policy accept;
    iifname "lan" ip daddr 10.2.0.0/24 ip dscp ef meta mark set 21
    iifname "lan" ip daddr 10.2.0.0/24 ip dscp != ef meta mark set 11
    iifname "lan" ip6 daddr 2001:db8:2::/64 meta mark set 11
  }
  chain out {
    type route hook output priority mangle; policy accept;
    ip daddr 10.2.0.0/24 meta mark set 11
    ip6 daddr 2001:db8:2::/64 meta mark set 11
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    iifname "culvert0" meta mark { 10, 20 } counter accept
    iifname "culvert0" counter drop
  }
  chain input {
    type filter hook input priority filter; policy accept;
    iifname "culvert0" meta mark != { 10, 20 } counter drop
  }
}
"""


@pytest.fixture
def net(network):
    net = network(out_net=11, out_second=21, set_mark_in="set_mark_in = %same").up()
    net.gwa.swan.initiate("second")
    net.gwa.host.run("nft", "-f", "-", stdin=RULES)
    return net


def outbound(net):
    """Packets that gateway A has sent, by the child's name."""
    return {c["name"]: int(c.get("packets-out", 0)) for c in net.gwa.swan.children()}


def test_linux_s_marks_choose_the_sa(net):
    wire = Capture(net.mid, "west")
    for to in (t.SERVER4, t.SERVER6):
        assert_ping(net.client, to, count=5)
    assert_ping(net.gwa.host, t.SERVER4, count=3, source=t.LAN_A4)
    assert_ping(net.server, t.LAN_A4, count=3)
    assert outbound(net) == {"net": 16, "second": 0}
    # The same addresses, another class.
    done = net.client.run("ping", "-c", "5", "-i", "0.2", "-Q", "0xb8", t.SERVER4)
    assert " 0% packet loss" in done.stdout
    assert outbound(net) == {"net": 16, "second": 5}
    assert_only_protected(wire.stop())
    counters = net.gwa.host.run("nft", "list", "chain", "inet", "marks", "forward").stdout
    assert "packets 0 bytes 0 drop" in counters and "packets 0 bytes 0 accept" not in counters
    stream = Stream(net.client, net.server, t.SERVER4, count=500)
    stream.wait()
    assert_perfect(stream.finish())


def test_super_packets_keep_their_mark(net):
    """What Linux hands over as one long TCP segment is cut behind the mark."""
    iperf = Iperf(net.server)
    assert iperf.result(iperf.start(net.client, t.SERVER4, total="8M"))["bytes"] >= 8e6
    assert outbound(net)["net"] > 5000


def test_without_the_mark_no_policy_is_for_it(net):
    net.gwa.host.run("nft", "delete", "table", "inet", "marks")
    before = outbound(net)
    # In clear, as Linux would send it; the other gateway wants it protected, and drops it.
    wire = Capture(net.mid, "west", "icmp")
    assert ping(net.client, t.SERVER4, count=3)["received"] == 0
    assert len(wire.stop()) == 3
    assert outbound(net) == before


def test_a_killed_daemon_leaks_nothing_that_is_marked(net):
    wire = Capture(net.mid, "west")
    net.gwa.daemon.kill9()
    for to in (t.SERVER4, t.SERVER6):
        assert ping(net.client, to, count=3)["received"] == 0
    net.gwa.daemon.start()
    assert_ping(net.client, t.SERVER4, count=10)
    assert_only_protected(wire.stop())


#: What arrives at gateway A is marked by its class, in both directions.
BY_CLASS = """
[[mark]]
dscp = "EF"
mark = 20

[[mark]]
dscp = "BE"
mark = 10
"""


def test_a_rule_of_culvert_s_marks_what_arrives(network):
    """As strongSwan's net2net-psk-dscp has it: each class its SA, and from port to port."""
    net = network(out_net=10, out_second=20, set_mark_in="")
    net.gwa.daemon.write_config(net.gwa.daemon.config.read_text() + BY_CLASS)
    net.up()
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=5)
    # Gateway B, without marks, answers by its youngest SA.
    net.gwa.swan.initiate("second")
    done = net.client.run("ping", "-c", "5", "-i", "0.2", "-Q", "0xb8", t.SERVER4)
    assert " 0% packet loss" in done.stdout
    assert outbound(net) == {"net": 5, "second": 5}
    # Another class has no policy: in clear, as Linux would send it.
    assert_only_protected(wire.stop())
    wire = Capture(net.mid, "west", "icmp")
    net.client.run("ping", "-c", "3", "-i", "0.2", "-W", "1", "-Q", "0x20", t.SERVER4, check=False)
    assert len(wire.stop()) == 3
