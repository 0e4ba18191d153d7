"""What a firewall of the gateway's would see stays with the kernel, unless the configuration says otherwise."""

import json
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.beside import is_fast, reason, stay
from lab.xfrm import Tunnel

#: The port of a stream that the firewall drops.
DROPPED = 7300

#: Lets pass what travels in the tunnel but for that port, and drops everything else.
STRICT = f"""
table inet fw {{
  chain passing {{
    type filter hook forward priority filter; policy drop;
    udp dport {DROPPED} drop
    ip saddr {{ 10.1.0.0/24, 10.2.0.0/24 }} ip daddr {{ 10.1.0.0/24, 10.2.0.0/24 }} accept
    ip6 saddr {{ 2001:db8:1::/64, 2001:db8:2::/64 }} accept
  }}
}}
"""

#: One rule, for one family.
ONE = f"""
table ip one {{
  chain passing {{
    type filter hook forward priority filter; policy accept;
    udp dport {DROPPED} drop
  }}
}}
"""

#: Such as an updown script adds, and chains that packets between two interfaces do not meet.
HARMLESS = """
table inet up {
  chain passing {
    type filter hook forward priority filter; policy accept;
    ip saddr 10.2.0.0/24 iifname "wan" counter accept
    rt ipsec exists accept
  }
  chain local { type filter hook input priority filter; policy drop; accept; }
  chain translated { type nat hook postrouting priority srcnat; policy accept; }
}
table netdev else { chain arriving { type filter hook ingress device "lo" priority 0; policy accept; udp dport 9 drop; }; }
"""


def load(host, rules):
    """Adds rules."""
    host.run("nft", "-f", "-", stdin=rules)


def doctor(gateway):
    """What `culvert doctor` finds. It ends with 1 if there is a problem."""
    daemon = gateway.daemon
    return json.loads(daemon.culvert("doctor", "--json", "--config", daemon.config, check=False).stdout)


def received(bed):
    """How many packets of the dropped stream arrive at the server, of 100."""
    stream = bed.stream(port=DROPPED, rate=300, count=100)
    stream.wait()
    return stream.finish()["there"]["received"]


@pytest.mark.sample
def test_a_firewall_is_respected(bed):
    """With a chain that drops by default the SAs stay with the kernel and say why, what it lets pass flows, and what it
    drops is dropped with culvert and without."""
    net = bed.up()
    load(net.gwa.host, STRICT)
    stream = bed.stream()
    for act in (lambda: None, lambda: bed.start(taken=False), bed.stop):
        act()
        for gateway in [g for g in bed.beside() if g.daemon.alive()]:
            stay(gateway, "inet fw passing", 'firewall = "bypass"')
            assert "inet fw passing" in " ".join(gateway.daemon.json("status")["warnings"])
            said = doctor(gateway)
            assert any("inet fw passing" in f["seen"] for f in said if f["check"] == "firewall"), said
            kept = [f for f in said if f["check"] == "beside" and f["result"] == "warning"]
            assert any('firewall = "bypass"' in f["next"] for f in kept), kept
            assert any("left to Linux" in f["seen"] for f in kept), kept
        before = bed.transmitted()
        bed.pings(count=3)
        assert received(bed) == 0
        assert bed.transmitted() == before
    bed.perfect(stream)
    bed.assert_counted()


def test_a_firewall_is_passed_by(bed):
    """With firewall = "bypass" everything is taken, and `culvert status` warns."""
    net = bed.up()
    load(net.gwa.host, STRICT)
    assert received(bed) == 0
    for gateway in bed.beside():
        gateway.daemon.settings = '[kernel]\nfirewall = "bypass"\n'
        gateway.daemon.write_config()
    bed.start()
    for gateway in bed.beside():
        assert received(bed) == 100
        assert any("are in the fast path" in f["seen"] for f in doctor(gateway)), doctor(gateway)
        assert "bypass" in " ".join(gateway.daemon.json("status")["warnings"])
    bed.stop()
    assert received(bed) == 0


def test_rules_come_and_go(bed):
    """A rule that is added hands the SAs back within a second, one that is flushed has them taken again, and nothing is
    lost; what the rule drops is dropped a second later."""
    net = bed.up()
    bed.start()
    stream, other = bed.stream(), bed.stream(t.CLIENT6, rate=100, port=7100)
    for _ in range(2):
        assert received(bed) == 100
        bed.note("rules")
        load(net.gwa.host, STRICT)
        for gateway in bed.beside():
            stay(gateway, "inet fw passing")
        assert received(bed) == 0
        bed.note("flush")
        net.gwa.host.run("nft", "flush", "ruleset")
        bed.wait_taken()
        time.sleep(0.3)
    # One rule in a chain that was there.
    load(net.gwa.host, "table ip late { chain passing { type filter hook forward priority 0; policy accept; }; }")
    bed.settle()
    bed.wait_taken()
    bed.note("one rule")
    net.gwa.host.run("nft", "add", "rule", "ip", "late", "passing", "udp", "dport", DROPPED, "drop")
    for gateway in bed.beside():
        stay(gateway, "ip late passing")
    assert received(bed) == 0
    bed.note("flush chain")
    net.gwa.host.run("nft", "flush", "chain", "ip", "late", "passing")
    bed.wait_taken()
    bed.perfect(stream, other)
    # Six crossings under traffic: what the kernel counts between two of its answers may be missing.
    bed.assert_counted(missing=6 * 5)


def test_by_family(bed):
    """A rule for IPv4 keeps IPv4 alone in the kernel; rules that only let pass, and chains that packets between ports
    do not meet, keep nothing."""
    net = bed.make()
    four, six = Tunnel(spi=0x1000), Tunnel(spi=0x2000, reqid=2, inner=6)
    four.install(net)
    six.install(net)
    load(net.gwa.host, HARMLESS)
    bed.start()
    load(net.gwa.host, ONE)
    bed.settle()
    for gateway in bed.beside():
        for tunnel, is_taken in ((four, False), (six, True)):
            for spi in (tunnel.spi, tunnel.spi + 1):
                sa = wait_for(f"{spi:#x}", lambda s=spi, i=is_taken: (
                    found if is_fast(found := bed.placement(gateway, s)) is i else None
                ))  # fmt: skip
                assert is_taken or "ip one passing" in reason(sa), sa
    assert received(bed) == 0
    bed.pings(count=3)
    bed.assert_counted()
