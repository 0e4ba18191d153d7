"""What culvert cannot or may not do stays with the kernel, works, and is said."""

import json
from dataclasses import replace

import pytest
from lab import topology as t
from lab.beside import is_fast, reason
from lab.traffic import assert_ping
from lab.xfrm import Tunnel, states

#: By name: a tunnel that stays with the kernel.
PLAIN = Tunnel(spi=0x5000, reqid=5)
CASES = {
    "an algorithm that culvert has not": replace(PLAIN, suite="cbc-sha512-128"),
    "a weak algorithm": replace(PLAIN, suite="3des-md5"),
    "BEET": replace(PLAIN, mode="beet", state_extra="BEET"),
    "a mark": replace(PLAIN, state_extra="MARK", policy_extra="MARK"),
    "an XFRM interface whose SAs set a mark": replace(
        PLAIN, state_extra="output-mark 0x9 if_id 7", policy_extra="if_id 7"
    ),
}

#: Taken, beside it: of the other family, and of the same one.
OTHERS = [
    Tunnel(spi=0x6000, reqid=6, inner=6),
    Tunnel(spi=0x7000, reqid=7, priority=500, select="proto udp dport 7300", select_back="proto udp sport 7300"),
]


def install(net, tunnel):
    """Makes it, with what only works with more set up around it."""
    if tunnel.mode == "beet":
        # One address at either end, which the selector of the SAs has.
        from lab.xfrm import A, B, batch

        for gateway, side in ((net.gwb, B), (net.gwa, A)):
            lines = list(tunnel.states(side))
            ways = (t.CLIENT4, t.SERVER4), (t.SERVER4, t.CLIENT4)
            selectors = [f"sel src {src}/32 dst {dst}/32" for src, dst in ways]
            lines = [line.replace("BEET", sel) for line, sel in zip(lines, selectors)]
            hosts = ((A.inner[4], f"{t.CLIENT4}/32"), (B.inner[4], f"{t.SERVER4}/32"))
            policies = tunnel.policies(side)
            for prefix, host in hosts:
                policies = [line.replace(prefix, host) for line in policies]
            batch(gateway.host, *lines, *policies)
        return
    if "MARK" in tunnel.state_extra:
        tunnel = replace(tunnel, state_extra="mark 5 mask 0xff", policy_extra="mark 5 mask 0xff")
        for gateway in net.gateways():
            gateway.host.run(
                "nft", "-f", "-",
                stdin="table inet m { chain p { type filter hook prerouting priority mangle; "
                "ip protocol { icmp, esp } meta mark set 5; }; }",
            )  # fmt: skip
            if gateway.daemon:
                # The rule would keep the others in the kernel.
                gateway.daemon.settings = '[kernel]\nfirewall = "bypass"\n'
                gateway.daemon.write_config()
    if "if_id" in tunnel.state_extra:
        for gateway, there, way in ((net.gwa, "10.2.0.0/24", 4), (net.gwb, "10.1.0.0/24", 4)):
            gateway.host.ip("link", "add", "ipsec0", "type", "xfrm", "dev", "wan", "if_id", "7")
            gateway.host.ip("link", "set", "ipsec0", "up")
            gateway.host.ip("route", "replace", there, "dev", "ipsec0")
            gateway.host.sysctl("net.ipv4.conf.ipsec0.rp_filter", 0)
    tunnel.install(net)


def assert_policies_say_why(daemon, taken):
    """One outbound policy is left to the kernel, and says why, the others are not."""
    out = [policy for policy in daemon.json("policy") if policy["direction"] == "out"]
    left = [policy for policy in out if policy["action"] == "leave"]
    assert len(out) == taken + 1 and len(left) == 1, out
    assert left[0]["why"] and not any("why" in policy for policy in out if policy not in left), out
    text = daemon.culvert("policy").stdout
    below = text.partition("left to the kernel, because:\n")[2].splitlines()
    assert any(line.startswith("out 10.1.0.") and left[0]["why"] in line for line in below), text
    names = [f"policy {policy['index']} (" for policy in left] + ["SA 0x00005000 ("]
    for name in names:
        found = [f for f in doctor(daemon, "beside") if f["seen"].startswith(name)]
        assert len(found) == 1 and found[0]["result"] == "warning" and found[0]["next"], (name, found)


def doctor(daemon, check):
    """What `culvert doctor` finds of a kind. It ends with 1 if there is a problem."""
    found = json.loads(daemon.culvert("doctor", "--json", "--config", daemon.config, check=False).stdout)
    return [finding for finding in found if finding["check"] == check]


def test_doctor_names_what_is_wrong(bed):
    """`culvert doctor` names weak SAs, inbound ones without a replay window, a policy that blocks for nobody, and a rule
    before culvert's, each with what mends it, and nothing of it once it is mended."""
    net = bed.make()
    a = net.gwa.host
    bed.wire.may_be_late = True
    replace(PLAIN, suite="3des-md5").install(net)
    OTHERS[0].install(net)
    replace(OTHERS[1], window=0).install(net)
    blocks = ("xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", "10.99.0.0/24", "dir", "out", "action", "block")
    a.ip(*blocks)
    a.ip("rule", "add", "pref", "100", "to", "10.98.0.0/16", "lookup", "main")
    bed.start(taken=False)
    for gateway in (g for g in bed.beside() if g is net.gwa):
        bed.placement(gateway, OTHERS[1].spi)
        bed.settle()
        words = {
            "algorithms": ("0x00005000 3DES and MD5", "0x00005001 3DES and MD5"),
            # Outbound SAs need none.
            "replay": ("1 SA with replay window 0: 0x00007001",),
            "block": ("blocks out 10.1.0.0/24 > 10.99.0.0/24",),
            "rules": ("rule 100",),
        }
        for check, texts in words.items():
            found = [f for f in doctor(gateway.daemon, check) if f["result"] == "warning"]
            assert len(found) == 1 and all(text in found[0]["seen"] for text in texts), found
        mend = next(f["next"] for f in doctor(gateway.daemon, "block")).partition(": ")[2]
        a.run(*mend.split())
        a.ip("rule", "del", "pref", "100")
        bed.settle()
        assert not doctor(gateway.daemon, "block")
        assert all(f["result"] == "ok" for f in doctor(gateway.daemon, "rules"))
    assert_ping(net.client, t.SERVER6, count=3)


@pytest.mark.parametrize("case", CASES)
def test_stays_with_the_kernel(bed, case):
    """An SA that culvert does not take works on in the kernel beside others that it takes, and `culvert sa` says why."""
    net = bed.make()
    tunnel = CASES[case]
    if "if_id" in tunnel.state_extra:
        others = OTHERS[:1]
    else:
        others = OTHERS
    install(net, tunnel)
    for other in others:
        other.install(net)
    v4 = [(net.client, t.SERVER4), (net.server, t.CLIENT4)]
    v6 = [(net.client, t.SERVER6), (net.server, t.CLIENT6)]
    for act in (lambda: None, lambda: bed.start(taken=False), bed.stop):
        act()
        bed.settle()
        before = bed.transmitted()
        for near, to in v4 + v6:
            assert_ping(near, to, count=5, wait=3)
        if len(others) == 2:
            stream = bed.stream(port=7300, rate=300, count=100)
            stream.wait()
            bed.perfect(stream)
        running = [g for g in bed.beside() if g.daemon.alive()]
        for gateway in running:
            assert bed.transmitted() > before
            for spi in (0x5000, 0x5001):
                sa = bed.placement(gateway, spi)
                assert not is_fast(sa) and reason(sa), sa
            for other in others:
                for spi in (other.spi, other.spi + 1):
                    assert is_fast(sa := bed.placement(gateway, spi)), sa
            text = gateway.daemon.culvert("sa").stdout
            assert "kernel" in text, text
            assert_policies_say_why(gateway.daemon, taken=len(others))
    bed.assert_counted()
    assert all(sa.packets for sa in states(net.gwa.host).values())
