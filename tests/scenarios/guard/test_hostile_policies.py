"""Policies that barriers are hard to make of: with the daemon dead nothing leaves that a policy protects."""

import json
import os
import random
import re
import socket
from dataclasses import asdict
from pathlib import Path

import pytest
from lab import hostile_policies, topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.hostile_policies import FWD, IN, OUT, Policy
from lab.traffic import PYTHON, ping

SITES = {4: ("10.1.0.0", "10.2.0.0", 24), 6: ("2001:db8:1::", "2001:db8:2::", 64)}
UDP = 17
SO_MARK = 36

#: What comes from the site has mark 15.
RULES = """
table inet t {
  chain c {
    type filter hook prerouting priority mangle; policy accept;
    iifname "lan" meta mark set 15
  }
}
"""

#: Rounds of the fuzz: policies come and go, the daemon is killed, and everything is tried.
ROUNDS = 12


@pytest.fixture
def net(network):
    """Gateway A alone has a daemon, and no prefix in its configuration: what is blocked is by its policies."""
    net = network()
    net.gwa.daemon.write_config()
    net.gwa.daemon.start()
    return net


def steps(net, *pairs):
    """Carries out steps under `culvert exec`; their errnos."""
    file = net.gwa.host.lab.tmp / "steps.json"
    file.write_text(json.dumps([(verb, asdict(policy)) for verb, policy in pairs]))
    done = net.gwa.daemon.exec(PYTHON, Path(hostile_policies.__file__), file)
    return json.loads(done.stdout)


def site(family, **more):
    """A policy for what goes from A's site to B's."""
    src, dst, length = SITES[family]
    return Policy(**{"src": src, "src_len": length, "dst": dst, "dst_len": length, "what": "protect", **more})


def in_clear(net, *tries, count=3):
    """How many of the pings that a function sends leave in clear."""
    wire = Capture(net.mid, "west", "icmp or icmp6")
    for host, to, options in tries:
        host.run("ping", "-n", "-c", str(count), "-i", "0.2", "-W", "0.3", *options, to, check=False)
    data = [frame for frame in wire.stop() if str(frame.dst) in (t.SERVER4, t.SERVER6)]
    return len(data)


def warnings(net):
    return "\n".join(net.gwa.daemon.json("status")["warnings"])


def test_a_mark_with_bits_outside_its_mask_protects(net):
    """`mark 0xff mask 0x0f`, as strongSwan's `mark_out = 0xff/0x0f` makes it: for a packet with mark 15."""
    gwa = net.gwa
    gwa.host.run("nft", "-f", "-", stdin=RULES)
    marked = [(gwa.host, to, ("-m", "15", "-I", source)) for to, source in ((t.SERVER4, t.LAN_A4), (t.SERVER6, t.LAN_A6))]
    forwarded = [(net.client, to, ()) for to in (t.SERVER4, t.SERVER6)]
    # Without the policies all of it leaves: what follows is not true by accident.
    assert in_clear(net, *marked, *forwarded) == 12
    policies = [site(family, mark=(0xFF, 0x0F)) for family in (4, 6)]
    policies += [site(family, mark=(0xFF, 0x0F), direction=FWD) for family in (4, 6)]
    assert steps(net, *[("put", policy) for policy in policies]) == [0] * 4
    assert in_clear(net, *marked, *forwarded) == 0
    told = gwa.daemon.culvert("why", "--from", t.LAN_A6, "--to", t.SERVER6, "--mark", "15", check=False).stdout
    assert "in clear" not in told, told
    # Another mark is another packet.
    unmarked = [(gwa.host, to, ("-m", "14", "-I", source)) for to, source in ((t.SERVER4, t.LAN_A4), (t.SERVER6, t.LAN_A6))]
    assert in_clear(net, *unmarked) == 6
    gwa.daemon.kill9()
    assert in_clear(net, *marked, *forwarded) == 0
    assert in_clear(net, *unmarked) == 6
    # The next one takes them all up, and what is deleted by the same words leaves nothing behind.
    gwa.daemon.start()
    assert steps(net, *[("delete", policy) for policy in policies]) == [0] * 4
    assert not gwa.host.ip("xfrm", "policy").stdout.strip()
    assert "culvert-guard" not in gwa.host.run("nft", "list", "ruleset").stdout
    assert in_clear(net, *marked, *forwarded) == 12


def test_a_policy_that_nft_refuses_takes_nothing_away(net):
    """A policy for interface -1, which no rule can name, beside those of two sites."""
    gwa = net.gwa
    tries = [(net.client, t.SERVER6, ()), (gwa.host, t.SERVER6, ("-I", t.LAN_A6)), (net.client, t.SERVER4, ())]
    assert in_clear(net, *tries) == 9
    hostile = Policy(src="2001:db8:77::", src_len=48, ifindex=-1, proto=UDP, priority=5)
    odd = Policy(src="2001:db8:78::", src_len=48, proto=58, sport=(300, 0xFFFF), priority=6)
    good = [site(family, direction=d) for family in (4, 6) for d in (OUT, FWD)]
    assert steps(net, ("put", hostile), ("put", odd), *[("put", policy) for policy in good]) == [0] * 6
    told = warnings(net)
    assert "src 2001:db8:77::/48" in told and "no interface can have the index -1" in told, told
    assert "src 2001:db8:78::/48" in told and "stands in its place" in told and "install" not in told, told
    assert "policy changes it" in told or "blocks more" in told, told
    for _ in range(2):
        gwa.daemon.kill9()
        assert in_clear(net, *tries) == 0
        gwa.daemon.start()
    # In its place more is blocked, and nothing else: another site passes.
    rules = gwa.host.run("nft", "list", "ruleset").stdout
    assert "2001:db8:77::" in rules and "2001:db8:78::" in rules, rules
    assert "2001:db8:77::" in gwa.daemon.culvert("guard", "show").stdout
    # With the policies their warnings go.
    assert steps(net, ("delete", hostile), ("delete", odd)) == [0, 0]
    assert "guard: barrier" not in warnings(net)
    assert "2001:db8:77::" not in gwa.host.run("nft", "list", "ruleset").stdout
    gwa.daemon.kill9()
    assert in_clear(net, *tries) == 0


def test_stale_barriers_are_removed_and_others_stay(net):
    """Barriers that no list names, as after the loss of the list; a stranger's policies are left alone."""
    gwa = net.gwa
    kept, stale = site(4, direction=FWD), Policy(src="10.77.0.0", src_len=16, dst="0.0.0.0", dst_len=0)
    assert steps(net, ("put", kept), ("put", stale)) == [0, 0]
    stranger = "src 10.88.0.0/16 dst 0.0.0.0/0 dir out priority 9 action block"
    gwa.host.ip("xfrm", "policy", "add", *stranger.split())
    gwa.daemon.kill9()
    # The next one knows neither of the policy, nor of its barrier.
    runtime = Path("/run/culvert") / gwa.daemon.name
    listed = (runtime / "guard.json").read_text().splitlines(keepends=True)
    (runtime / "guard.json").write_text("".join(line for line in listed if "10.77.0.0" not in line))
    for file in sorted((runtime / "vault").iterdir()):
        if file.is_file():
            file.unlink()
    gwa.daemon.start()
    wait_for("the stale barriers to go", lambda: "10.77.0.0/16" not in gwa.host.ip("xfrm", "policy").stdout)
    assert "10.88.0.0/16" in gwa.host.ip("xfrm", "policy").stdout
    assert "stale barriers of this instance stood in the kernel" in gwa.daemon.log()


def test_without_nft_ipv6_is_blocked(net):
    """Where `nft` cannot be used, kernel policies guard IPv6; neighbours are found all the same."""
    gwa = net.gwa
    gwa.daemon.stop()
    tools = gwa.host.lab.tmp / "no-nft"
    tools.mkdir()
    for folder in map(Path, os.environ["PATH"].split(":")):
        for program in folder.iterdir() if folder.is_dir() else ():
            if program.name != "nft" and not (tools / program.name).is_symlink():
                (tools / program.name).symlink_to(program)
    gwa.daemon.environment["PATH"] = str(tools)
    gwa.daemon.start()
    assert steps(net, ("put", site(6, direction=FWD)), ("put", site(6))) == [0, 0]
    told = warnings(net)
    assert "nft cannot be started" in told and "install the package nftables" in told, told
    gwa.daemon.kill9()
    tries = [(net.client, t.SERVER6, ()), (gwa.host, t.SERVER6, ("-I", t.LAN_A6))]
    assert in_clear(net, *tries) == 0
    gwa.host.ip("neigh", "flush", "dev", "wan")
    assert ping(gwa.host, t.WAN_B6, count=2)["received"] == 2
    # Once it can be, rules stand, and the policies are gone.
    del gwa.daemon.environment["PATH"]
    gwa.daemon.start()
    assert "culvert-guard" in gwa.host.run("nft", "list", "ruleset").stdout
    assert not gwa.host.ip("xfrm", "policy").stdout.strip()
    assert "nft cannot" not in warnings(net)
    gwa.daemon.kill9()
    assert in_clear(net, *tries) == 0


def any_policy(dice, wan):
    """One of anything, of some places that packets of the test go to and some that they do not."""
    family = dice.choice((4, 6))
    src, dst, length = SITES[family]
    any_address, most = ("0.0.0.0", 32) if family == 4 else ("::", 128)
    hosts = (src[:-1] + "10", dst[:-1] + "10") if family == 4 else (src + "10", dst + "10")

    def end(own, host):
        return dice.choice([(own, length), (host, length), (host, most), (any_address, 0), (host, length - 3), (host, 200)])

    one, other = end(src, hosts[0]), end(dst, hosts[1])
    port = lambda: dice.choice([(0, 0)] * 4 + [(7, 0xFFFF), (0x107, 0xFF), (0x100, 0xFF00), (300, 0xFFFF), (9, 0)])  # noqa: E731
    return Policy(
        src=one[0], src_len=one[1], dst=other[0], dst_len=other[1], proto=dice.choice((0, 0, 0, UDP, UDP, 6, 58, 50)),
        sport=port(), dport=port(), ifindex=dice.choice([0] * 6 + [-1, -(2**31), 2**31 - 1, 77, wan]),
        mark=dice.choice([(0, 0)] * 3 + [(15, 15), (0xFF, 0x0F), (0xF0, 0x0F), (0, 1), (5, 0), (2**32 - 1, 2**32 - 1)]),
        if_id=dice.choice([0] * 8 + [7]), direction=dice.choice((IN, OUT, OUT, FWD, FWD)),
        priority=dice.choice((0, 1, 5, 1000, 2**31, 2**32 - 1)), what=dice.choice(("block", "protect", "protect", "pass")),
    )  # fmt: skip


def decides(policies, *packet):
    """What the first policy in order says, or None: nothing, or two of one priority that differ."""
    met = [policy for policy in policies if policy.meets(*packet)]
    first = [policy.what for policy in met if policy.priority == min(p.priority for p in met)]
    return first[0] if len({what == "pass" for what in first}) == 1 else None


def test_fuzz(net):
    """Random policies: after each round, with the daemon dead, every packet that a policy protects is tried."""
    gwa, dice = net.gwa, random.Random(43)
    wan = int(re.match(r"(\d+):", gwa.host.ip("-o", "link", "show", "wan").stdout)[1])
    policies, tag, blocked, passed = {}, 0, 0, 0
    for round_number in range(ROUNDS):
        chosen = []
        for _ in range(12):
            if policies and dice.random() < 0.25:
                chosen.append(("delete", policies.pop(dice.choice(list(policies)))))
            else:
                policy = any_policy(dice, wan)
                chosen.append(("put", policy))
                policies[policy.identity()] = policy
        for (verb, policy), errno in zip(chosen, steps(net, *chosen)):
            is_wrong = max(policy.src_len, policy.dst_len) > (128 if ":" in policy.src else 32)
            assert errno == 0 or is_wrong or verb == "delete", (policy, errno)
            if is_wrong and verb == "put":
                assert errno, policy
                policies.pop(policy.identity(), None)
        gwa.daemon.kill9()
        wire = Capture(net.mid, "west", "udp")
        sent = {}
        for family, ends in ((socket.AF_INET, (t.CLIENT4, t.LAN_A4, t.SERVER4)), (socket.AF_INET6, (t.CLIENT6, t.LAN_A6, t.SERVER6))):
            for sport, dport in ((7, 7), (7, 44), (1111, 7), (1111, 44)):
                for host, src, mark in ((net.client, ends[0], 0), (gwa.host, ends[1], 0), (gwa.host, ends[1], 15), (gwa.host, ends[1], 0x2F)):
                    tag += 1
                    body = b"FUZZ%06d" % tag
                    sock = host.socket(family, socket.SOCK_DGRAM)
                    if mark:
                        sock.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
                    sock.bind((src, sport))
                    try:
                        sock.sendto(body, (ends[2], dport))
                    except OSError:
                        pass
                    sock.close()
                    packet = (src, ends[2], UDP, sport, dport, mark)
                    says = [decides(policies.values(), OUT, *packet, wan)]
                    if host is net.client:
                        says.append(decides(policies.values(), FWD, *packet, None))
                    sent[body] = (packet, any(what in ("block", "protect") for what in says))
        frames = b"".join(frame.data for frame in wire.stop())
        leaked = [packet for body, (packet, is_protected) in sent.items() if is_protected and body in frames]
        assert not leaked, (round_number, leaked, list(policies.values()))
        blocked += sum(is_protected for _, is_protected in sent.values())
        passed += sum(body in frames for body in sent)
        gwa.daemon.start()
    assert blocked > 100 and passed > 50, (blocked, passed)
