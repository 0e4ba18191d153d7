"""Frames put on the middle link, one kind after the other; each must move its own counter.

Every test sends a known number of frames and expects exactly that many more under one reason, and
nothing at all at the server.
"""

import random
import struct

import pytest
from lab import topology as t
from lab.base import LabError, wait_for
from lab.capture import Capture
from lab.inject import Injector, ether, fix_ipv4, scapy_sa, xfrm_states
from lab.traffic import assert_ping, ping

ETH, IPV4, ESP_HEADER = 14, 20, 8


class Target:
    """Gateway B under fire: captured good frames, and what became of the bad ones."""

    def __init__(self, net):
        self.net = net
        self.daemon = net.gwb.daemon
        self.injector = Injector(net.mid, "east")
        self.quiet = None

    def good(self, count=5, size=56, to=t.SERVER4):
        """Frames of ESP towards gateway B that were delivered once already."""
        wire = Capture(self.net.mid, "west", f"ip and dst {t.WAN_B4}")
        ping(self.net.client, to, count=count, size=size)
        frames = [f for f in wire.stop() if f.is_esp]
        assert len(frames) == count
        return [f.data for f in frames]

    def unseen(self, count=5):
        """Good frames that gateway B has not seen: the middle keeps them from it."""
        mid = self.net.mid
        wire = Capture(mid, "west", f"ip and dst {t.WAN_B4}")
        mid.ip("link", "set", "dev", "east", "nomaster")
        ping(self.net.client, t.SERVER4, count=count)
        frames = [f for f in wire.stop() if f.is_esp]
        mid.ip("link", "set", "dev", "east", "master", "br0")
        assert len(frames) == count
        return [f.data for f in frames]

    def expect(self, frames, **reasons):
        """Sends frames; each reason grows by its number, no other grows, nothing comes out."""
        before = self.daemon.drops()
        quiet = [
            Capture(self.net.server, "eth0", f"ip host {t.SERVER4} or ip6 host {t.SERVER6}"),
            Capture(self.net.client, "eth0", "ip or ip6"),
        ]
        answers = Capture(self.net.mid, "east", f"src {t.WAN_B4} or src {t.WAN_B6}")
        self.injector.send(*frames)

        def growth():
            now = self.daemon.drops()
            return {k: now[k] - before.get(k, 0) for k in now if now[k] != before.get(k, 0)}

        wanted = {name.replace("_", "-"): count for name, count in reasons.items()}
        try:
            wait_for("the counters", lambda: growth() == wanted)
        except LabError:
            pass
        assert growth() == wanted
        for capture in quiet:
            seen = [f for f in capture.stop() if f.kind != "nd"]
            assert not seen, "came out: " + "; ".join(map(str, seen[:5]))
        told = [f for f in answers.stop() if f.kind not in ("arp", "nd", "ike")]
        assert not told, "answered: " + "; ".join(map(str, told[:5]))


@pytest.fixture
def target(network):
    net = network().up()
    assert_ping(net.client, t.SERVER4, count=2)
    return Target(net)


def test_replay(target):
    frames = target.good(10)
    target.expect(frames * 3, in_replay_duplicate=30)


def test_replay_behind_the_window(target):
    """Packets that were held back while many others passed are too old (window: 32)."""
    late = target.unseen(5)
    ping(target.net.client, t.SERVER4, count=100, interval=0.002)
    target.expect(late, in_replay_old=5)


def test_late_inside_the_window_is_fine(target):
    late = target.unseen(5)
    ping(target.net.client, t.SERVER4, count=5)
    arrived = Capture(target.net.server, "eth0", "icmp")
    target.injector.send(*late)
    wait_for("late packets", lambda: len(arrived.frames()) >= 10)
    arrived.stop()


def test_unknown_spi(target):
    frames = []
    for frame in target.good(4):
        spi = struct.unpack_from("!I", frame, ETH + IPV4)[0]
        frames.append(
            frame[: ETH + IPV4] + struct.pack("!I", spi ^ 0x01010101) + frame[ETH + IPV4 + 4 :]
        )
    target.expect(frames, in_no_state=4)


def test_a_flipped_bit_anywhere_in_esp(target):
    """Every bit of sequence number, IV, ciphertext and ICV: nothing gets through."""
    frame = target.unseen(1)[0]
    first = ETH + IPV4 + 4
    flipped = []
    for bit in range(first * 8, len(frame) * 8):
        data = bytearray(frame)
        data[bit // 8] ^= 0x80 >> bit % 8
        flipped.append(bytes(data))
    before = target.daemon.drops()
    arrived = Capture(target.net.server, "eth0", "icmp")
    for start in range(0, len(flipped), 64):
        target.injector.send(*flipped[start : start + 64])
        wait_for(
            "the counters",
            lambda n=min(start + 64, len(flipped)): sum(target.daemon.drops().values())
            - sum(before.values()) >= n,
        )  # fmt: skip
    assert arrived.stop() == []
    now = target.daemon.drops()
    grown = {k: now[k] - before.get(k, 0) for k in now if now[k] != before.get(k, 0)}
    # A flip of the sequence number can also make it too old, a duplicate, or zero.
    allowed = {"in-integrity", "in-replay-old", "in-replay-duplicate", "in-sequence-zero"}
    assert set(grown) <= allowed, grown
    assert sum(grown.values()) == len(flipped), grown
    assert grown["in-integrity"] >= len(flipped) - 32, grown
    # The window did not move: the frame itself is still good.
    arrived = Capture(target.net.server, "eth0", "icmp")
    target.injector.send(frame)
    wait_for("the good frame", lambda: len(arrived.frames()) == 2)
    arrived.stop()


def test_a_flipped_bit_in_the_ip_header(target):
    """The header checksum catches it, or Linux, whose packet it is then."""
    frame = target.unseen(1)[0]
    flipped = []
    for bit in range(ETH * 8, (ETH + IPV4) * 8):
        data = bytearray(frame)
        data[bit // 8] ^= 0x80 >> bit % 8
        flipped.append(bytes(data))
    arrived = Capture(target.net.server, "eth0", "icmp")
    answers = Capture(target.net.mid, "east", f"ip and src {t.WAN_B4}")
    target.injector.send(*flipped)
    assert_ping(target.net.client, t.SERVER6, count=3)
    assert arrived.stop() == []
    told = [f for f in answers.stop() if not f.is_esp and f.kind != "ike"]
    assert not told, "; ".join(map(str, told))


def test_sequence_number_zero(target):
    frames = []
    for frame in target.good(3):
        frames.append(frame[: ETH + IPV4 + 4] + b"\0\0\0\0" + frame[ETH + IPV4 + 8 :])
    target.expect(frames, in_sequence_zero=3)


def test_truncated_at_every_length(target):
    """With the IP length made right, and with the IP header still telling the old length."""
    frame = target.unseen(1)[0]
    before = target.daemon.drops()
    arrived = Capture(target.net.server, "eth0", "icmp")
    answers = Capture(target.net.mid, "east", f"ip and src {t.WAN_B4}")
    cut = [frame[:length] for length in range(ETH + IPV4, len(frame))]
    told_right = [fix_ipv4(f) for f in cut]
    for start in range(0, len(cut), 32):
        target.injector.send(*told_right[start : start + 32], *cut[start : start + 32])
    assert_ping(target.net.client, t.SERVER6, count=3)
    assert arrived.stop() == []
    told = [f for f in answers.stop() if not f.is_esp and f.kind not in ("ike",)]
    assert not told, "; ".join(map(str, told))
    now = target.daemon.drops()
    grown = {k: now[k] - before.get(k, 0) for k in now if now[k] != before.get(k, 0)}
    assert set(grown) <= {"malformed-esp", "malformed-ip", "in-integrity", "in-no-state"}, grown
    # From the ESP header on, culvert sees them all: short ones are malformed, the rest fails.
    assert grown.get("malformed-esp", 0) > 0 and grown.get("in-integrity", 0) > 0, grown


def test_esp_fragments(target):
    """Fragments of ESP are put together: what is in them is accepted, and not twice."""
    frame = target.unseen(1)[0]
    packet = frame[ETH:]
    head, body = packet[:IPV4], packet[IPV4:]
    half = len(body) // 16 * 8
    first = bytearray(head)
    struct.pack_into("!H", first, 6, 0x2000)
    second = bytearray(head)
    struct.pack_into("!H", second, 6, half // 8)
    frames = [
        fix_ipv4(frame[:ETH] + bytes(first) + body[:half]),
        fix_ipv4(frame[:ETH] + bytes(second) + body[half:]),
    ]
    arrived = Capture(target.net.server, "eth0", "icmp")
    # The later one first.
    target.injector.send(*reversed(frames))
    # The request, and the answer.
    wait_for("what is in them", lambda: len(arrived.frames()) >= 2)
    arrived.stop()
    target.expect(frames, in_replay_duplicate=1)


def test_cleartext_for_a_protected_prefix(target):
    """What must come protected and does not is dropped, for the server and for the gateway."""
    from scapy.layers.inet import ICMP, IP, UDP
    from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6

    macs = (target.net.gwa.host.mac("wan"), target.net.gwb.host.mac("wan"))
    packets = [
        IP(src=t.CLIENT4, dst=t.SERVER4) / ICMP(),
        IP(src=t.CLIENT4, dst=t.SERVER4) / UDP(sport=1, dport=7000) / b"x",
        IPv6(src=t.CLIENT6, dst=t.SERVER6) / ICMPv6EchoRequest(),
        IP(src=t.CLIENT4, dst=t.LAN_B4) / ICMP(),
    ]
    target.expect([ether(*macs, p) for p in packets], in_cleartext=4)


def forged(target, inner, sequence=5000):
    """A frame with valid ESP of the inbound SA around any content."""
    states = xfrm_states(target.daemon.exec("ip", "xfrm", "state").stdout)
    state = next(s for s in states if s.dst == t.WAN_B4)
    outer = scapy_sa(state).encrypt(inner, seq_num=sequence)
    return ether(target.net.gwa.host.mac("wan"), target.net.gwb.host.mac("wan"), outer)


def test_esp_with_content_that_its_policy_does_not_allow(target):
    from scapy.layers.inet import ICMP, IP

    frames = [
        forged(target, IP(src="10.9.0.1", dst=t.SERVER4) / ICMP(), 5000),
        forged(target, IP(src=t.CLIENT4, dst="10.9.0.1") / ICMP(), 5001),
        forged(target, IP(src=t.SERVER4, dst=t.CLIENT4) / ICMP(), 5002),
    ]
    before = target.daemon.drops()
    arrived = Capture(target.net.server, "eth0", "ip")
    target.injector.send(*frames)

    def grown():
        now = target.daemon.drops()
        return {k: now[k] - before.get(k, 0) for k in now if now[k] != before.get(k, 0)}

    wait_for("the counters", lambda: sum(grown().values()) == 3)
    # The SA's own selector or the policy refuses it, whichever is asked first.
    assert set(grown()) <= {"in-policy", "in-selector"}, grown()
    assert arrived.stop() == []


def test_esp_with_allowed_content_arrives(target):
    """The forger is able: the same frame with allowed content is delivered."""
    from scapy.layers.inet import ICMP, IP

    arrived = Capture(target.net.server, "eth0", f"icmp and src {t.CLIENT4}")
    target.injector.send(forged(target, IP(src=t.CLIENT4, dst=t.SERVER4, ttl=9) / ICMP(), 6000))
    wait_for("the forged packet", lambda: len(arrived.frames()) == 1)
    frame = arrived.stop()[0]
    assert frame.data[ETH + 8] == 8, "TTL is decremented once"


@pytest.mark.parametrize("encap", ["yes"])
def test_encapsulation_must_match(network, encap):
    """An SA with UDP encapsulation takes no plain ESP."""
    net = network(encap=encap).up()
    target = Target(net)
    frames = []
    for frame in target.unseen(3):
        data = bytearray(frame[: ETH + IPV4] + frame[ETH + IPV4 + 8 :])
        data[ETH + 9] = 50
        frames.append(fix_ipv4(bytes(data)))
    target.expect(frames, in_encap_mismatch=3)


def test_noise(target):
    """Random bytes after good headers, of all lengths: the daemon stays, nothing comes out."""
    rng = random.Random(4303)
    frame = target.good(1)[0]
    arrived = Capture(target.net.server, "eth0", "icmp or udp")
    for _ in range(500):
        noise = rng.randbytes(rng.randrange(0, 1400))
        start = rng.choice((ETH, ETH + IPV4, ETH + IPV4 + 4, ETH + IPV4 + 8))
        data = frame[:start] + noise
        if start > ETH and rng.random() < 0.9:
            data = fix_ipv4(data)
        target.injector.send(data)
    assert arrived.stop() == []
    assert target.daemon.alive()
    assert_ping(target.net.client, t.SERVER4, count=5)
