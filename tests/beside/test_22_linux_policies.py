"""The cases of Linux's own selftest `xfrm_policy.sh`: which of many policies a packet meets. Each runs with the kernel
alone and with culvert beside it, in one test and with `--without-culvert` too."""

import random
from dataclasses import dataclass

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import leaks
from lab.traffic import ping
from lab.xfrm import A, B, algorithms, batch

SPI = {4: 0x1000, 6: 0x2000}

#: Hosts of a site, by the last word of their addresses: by the tunnel; by it, for a policy of its own; past it.
USUAL, DIRECT, PAST = {4: "10", 6: "10"}, {4: "253", 6: "fd"}, {4: "254", 6: "f0::1"}

#: What an exception lets pass; of IPv4 what has a policy of its own lies inside.
EXCEPTIONS = {4: ("10.1.0.240/28", "10.2.0.240/28"), 6: ("2001:db8:1:0:f0::/96", "2001:db8:2:0:f0::/96")}


def address(side, word, family):
    if family == 4:
        return f"10.{1 if side is A else 2}.0.{word[4]}"
    return f"2001:db8:{1 if side is A else 2}:0:{'' if ':' in word[6] else ':'}{word[6]}"


def tunnel(side, family):
    """The lines that make one end of a tunnel whose SAs have selectors, and no reqid."""
    other = B if side is A else A
    ways = [(A, B), (B, A)]
    for number, (src, dst) in enumerate(ways):
        spi = SPI[family] + number
        yield (
            f"xfrm state add src {src.outer[family]} dst {dst.outer[family]} proto esp spi {spi:#x} mode tunnel "
            f"replay-window 32 {algorithms('cbc-sha256', spi)} sel src {src.inner[family]} dst {dst.inner[family]}"
        )
    for direction, src, dst in (("out", side, other), ("fwd", other, side)):
        yield (
            f"xfrm policy add src {src.inner[family]} dst {dst.inner[family]} dir {direction} "
            f"{template(src, dst, family)} priority 100 action allow"
        )


def template(src, dst, family):
    return f"tmpl src {src.outer[family]} dst {dst.outer[family]} proto esp mode tunnel"


def exceptions(side, family):
    """The lines that let some addresses of the other site pass in clear, and protect one by a policy of its own."""
    other = B if side is A else A
    past = EXCEPTIONS[family][other is B]
    yield f"xfrm policy add dst {past} dir out priority 10 action allow"
    direct = f"{address(other, DIRECT, family)}/{32 if family == 4 else 128}"
    yield f"xfrm policy add dst {direct} dir out {template(side, other, family)} priority 1 action allow"


def strangers(family):
    """Hundreds of policies that no packet of the test meets: of prefixes one inside the other, and of any."""
    for i in range(10, 17):
        if family == 4:
            yield f"xfrm policy add src 0.0.0.0/0 dst 10.{i}.99.0/30 dir out action block"
            yield f"xfrm policy add src 10.{i}.99.0/30 dst 0.0.0.0/0 dir out action block"
        for j in range(32, 65, 3):
            if family == 6:
                yield f"xfrm policy add src fd00:{i}::/64 dst fd00:{i}:{j}::/64 dir out action block"
                yield f"xfrm policy add src fd00:{i}:{j}::/64 dst fd00:{i}::/24 dir fwd action block"
                continue
            for length in (30, 29, 24):
                yield f"xfrm policy add src 10.{i}.1.0/{length} dst 10.{i}.{j}.0/{length} dir out action block"
            yield f"xfrm policy add src 10.{i}.{j}.0/24 dst 10.{i}.1.0/24 dir fwd action block"


def overlapping():
    """Policies whose prefixes lie around each other and around the tunnel's; no packet of the test meets them."""
    for src, dst in (
        ("10.101.0.0/24", "10.0.0.0/24"), ("10.102.0.0/24", "10.0.0.0/24"), ("10.102.0.0/24", "10.1.0.0/24"),
        ("10.101.0.0/24", "10.0.0.0/15"),
    ):  # fmt: skip
        yield f"xfrm policy add src {src} dst {dst} dir fwd priority 200 action block"


@dataclass(frozen=True)
class Way:
    """What became of two pings there and two back: ESP packets, those in clear, and answers, of one of the two."""

    esp: int
    clear: int
    answered: int


TUNNEL = Way(esp=4, clear=0, answered=2)
#: The other gateway takes nothing in clear that its tunnel should have brought.
CLEAR = Way(esp=0, clear=2, answered=0)


def way(bed, near, source, to, wait):
    def seen():
        frames = bed.wire.frames()
        return sum(f.is_esp for f in frames), len(leaks([f for f in frames if not f.is_esp], t.PROTECTED))

    before = seen()
    answered = ping(near, to, count=2, source=source, wait=wait)["received"]
    bed.settle()
    esp, clear = (now - was for now, was in zip(seen(), before))
    return Way(esp, clear, answered)


def check(bed, **expected):
    """Sends to each kind of host, from both sides and in both families, and compares what was on the wire."""
    kinds = {"usual": USUAL, "direct": DIRECT, "past": PAST}
    wrong = []
    for family in (4, 6):
        for side, other, near in ((B, A, bed.net.client), (A, B, bed.net.server)):
            source = address(other, USUAL, family)
            for kind, wanted in expected.items():
                to = address(side, kinds[kind], family)
                found = way(bed, near, source, to, wait=5 if wanted.answered else 0.4)
                wrong += [f"{near.name} to {to}: {found}, not {wanted}"] if found != wanted else []
    assert not wrong, "; ".join(wrong)


def with_and_without(bed, **expected):
    """The same with the kernel alone, and with culvert."""
    check(bed, **expected)
    bed.start()
    check(bed, **expected)


def policies_of(daemon):
    return len(daemon.json("policy"))


def settle(bed):
    """Waits until culvert knows all policies, and has taken all SAs."""
    for gateway in bed.beside():
        listed = gateway.host.run("ip", "xfrm", "policy", "list", "nosock").stdout.split("\n")
        # But for those that let in what culvert itself has decrypted.
        own = sum("mark" in line for line in listed)
        count = sum(line.startswith("src ") for line in listed) - own
        wait_for("culvert to know the policies", lambda d=gateway.daemon, n=count: policies_of(d) == n, timeout=10)
    bed.wait_taken()
    bed.settle()


@pytest.fixture
def sites(bed):
    """Both gateways with the tunnels and hundreds of other policies."""
    net = bed.make()
    for side, host in ((A, net.client), (B, net.server)):
        for word in (DIRECT, PAST):
            host.address("eth0", f"{address(side, word, 4)}/24", f"{address(side, word, 6)}/64")
    # A's has them of IPv4, B's of IPv6.
    for gateway, side, family in ((net.gwb, B, 6), (net.gwa, A, 4)):
        batch(gateway.host, *tunnel(side, 4), *tunnel(side, 6), *strangers(family))
    # A policy that takes nothing in clear, and says so.
    bed.excused |= {"XfrmInTmplMismatch", "XfrmInNoPols"}
    bed.wire.clear = lambda frame: str(frame.dst) in {address(s, PAST, f) for s in (A, B) for f in (4, 6)}
    bed.wire.iv_len_bytes = 16
    return net


def add_exceptions(net):
    for gateway, side in ((net.gwa, A), (net.gwb, B)):
        batch(gateway.host, *exceptions(side, 4), *exceptions(side, 6))


def test_policy_before_exception(bed, sites):
    """xfrm_policy: among hundreds of policies the tunnel's are found, by `ip xfrm policy get` and by packets."""
    for gateway, side, other in ((sites.gwa, A, B), (sites.gwb, B, A)):
        for family in (4, 6):
            for direction, src, dst in (("out", side, other), ("fwd", other, side)):
                gateway.host.ip(
                    "xfrm", "policy", "get", "src", src.inner[family], "dst", dst.inner[family], "dir", direction
                )
    with_and_without(bed, usual=TUNNEL, direct=TUNNEL, past=TUNNEL)


def test_exceptions(bed, sites):
    """xfrm_policy: a prefix is let past the tunnel, and an address is protected by a policy of its own (direct policy);
    also when they come while culvert runs, and go again."""
    add_exceptions(sites)
    expected = {"usual": TUNNEL, "direct": TUNNEL, "past": CLEAR}
    with_and_without(bed, **expected)
    for gateway, side in ((sites.gwa, A), (sites.gwb, B)):
        for family in (4, 6):
            delete = [line.partition(" priority")[0].partition(" tmpl")[0] for line in exceptions(side, family)]
            batch(gateway.host, *(line.replace(" add ", " delete ") for line in delete))
    settle(bed)
    check(bed, usual=TUNNEL, direct=TUNNEL, past=TUNNEL)
    add_exceptions(sites)
    settle(bed)
    check(bed, **expected)


def test_exceptions_and_block_policies(bed, sites):
    """xfrm_policy: exceptions hold when block policies come whose prefixes are adjacent and overlap."""
    add_exceptions(sites)
    batch(sites.gwa.host, *overlapping())
    expected = {"usual": TUNNEL, "direct": TUNNEL, "past": CLEAR}
    with_and_without(bed, **expected)
    # More of them, while culvert runs.
    batch(sites.gwb.host, *overlapping())
    settle(bed)
    check(bed, **expected)


def thresholds(host, *words):
    """Which policies the kernel finds by a hash: of prefixes so long."""
    host.ip("xfrm", "policy", "set", *words)


def test_thresholds_change(bed, sites):
    """xfrm_policy: exceptions hold when the kernel is told to hash other policies (hthresh), one gateway after the
    other, and back."""
    add_exceptions(sites)
    batch(sites.gwa.host, *overlapping())
    expected = {"usual": TUNNEL, "direct": TUNNEL, "past": CLEAR}
    check(bed, **expected)
    bed.start()
    a, b = sites.gwa.host, sites.gwb.host
    for host, words in (
        (b, ("hthresh4", "28", "32", "hthresh6", "96", "128")), (a, ("hthresh4", "28", "32", "hthresh6", "96", "128")),
        (a, ("hthresh4", "32", "32", "hthresh6", "128", "128")),
    ):  # fmt: skip
        thresholds(host, *words)
        bed.settle()
        check(bed, **expected)


def test_random_order(bed, sites):
    """xfrm_policy: policies inserted, deleted and inserted again in random order are the ones that packets meet."""
    bed.start()
    a = sites.gwa.host
    a.ip("xfrm", "policy", "flush")
    lines = [*exceptions(A, 4), *exceptions(A, 6), *strangers(4), *strangers(6), *overlapping()]
    lines += [line for family in (4, 6) for line in tunnel(A, family) if "xfrm policy" in line]
    exceptions_of_b = [*exceptions(B, 4), *exceptions(B, 6)]
    batch(sites.gwb.host, *exceptions_of_b)
    for seed in range(2):
        dice = random.Random(seed)
        dice.shuffle(lines)
        batch(a, *lines)
        settle(bed)
        check(bed, usual=TUNNEL, direct=TUNNEL, past=CLEAR)
        dice.shuffle(lines)
        # One by one, in another order; what is left meets no packet of the test.
        kept = [line for line in lines if "action block" in line]
        gone = [line for line in lines if "action block" not in line]
        batch(a, *(line.replace(" add ", " delete ").partition(" priority")[0].partition(" tmpl")[0] for line in gone))
        settle_without(bed, len(kept))
        a.ip("xfrm", "policy", "flush")


def settle_without(bed, count):
    """Waits until culvert knows so many policies at A, and no more."""
    daemon = bed.beside()[0].daemon if bed.beside() else None
    if daemon:
        wait_for("culvert to know the policies", lambda: policies_of(daemon) == count, timeout=10)
