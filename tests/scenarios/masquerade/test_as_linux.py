"""What the fast path makes of a packet is what Linux makes of it, byte for byte: the same frames by both, one after the
other, on the same connections. Scapy builds them; neither side judges itself."""

import os
import random
import socket
import struct
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.inject import Injector
from lab.masquerade import build, known, work

pytestmark = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=masquerade"
)

#: Of each direction of each connection, beside the special ones.
FRAMES = 24

PING_ID = 0x4242


class Talk:
    """A connection through the gateway: a host inside, one outside, and both tuples."""

    def __init__(self, net, version, protocol, port):
        self.version, self.protocol, self.port = version, protocol, port
        wait_for(f"protocol {protocol} of {port}", lambda: known(net, port, protocol))
        told = [one for one in known(net, port, protocol) if (":" in one["original"]["src"]) == (version == 6)]
        assert len(told) == 1, told
        before, after = told[0]["original"], told[0]["translated"]
        #: As (source, its port, destination, its port), as the frame is before the gateway and behind it.
        ends = lambda e: (e["src"], e["src_port"], e["dst"], e["dst_port"])  # noqa: E731
        back = lambda e: (e["dst"], e["dst_port"], e["src"], e["src_port"])  # noqa: E731
        there, answer = (ends(before), ends(after)), (back(after), back(before))
        self.is_from_inside = before["src"] in (t.CLIENT4, t.CLIENT6)
        #: Those from inside, then those from outside.
        self.ways = (there, answer) if self.is_from_inside else (answer, there)

    def packet(self, ends, header, payload, is_answer):
        """An IP packet between these ends."""
        from scapy.layers.inet import ICMP, IP, TCP, UDP
        from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, IPv6
        from scapy.packet import Raw

        src, sport, dst, dport = ends
        ip, upper = header
        if self.version == 4:
            outer = IP(src=src, dst=dst, **ip)
        else:
            outer = IPv6(src=src, dst=dst, tc=ip["tos"], hlim=ip["ttl"], fl=ip["id"])
        if self.protocol == 17:
            return outer / UDP(sport=sport, dport=dport) / Raw(payload)
        if self.protocol == 6:
            return outer / TCP(sport=sport, dport=dport, **upper) / Raw(payload)
        # Of a query one port is its identifier, the other one nothing.
        ident = sport or dport
        if self.version == 4:
            return outer / ICMP(type=0 if is_answer else 8, id=ident, seq=ip["id"]) / Raw(payload)
        kind = ICMPv6EchoReply if is_answer else ICMPv6EchoRequest
        return outer / kind(id=ident, seq=ip["id"], data=payload)

    def checksum(self, packet):
        at = (20 if self.version == 4 else 40) + {17: 6, 6: 16}.get(self.protocol, 2)
        return struct.unpack_from("!H", bytes(packet), at)[0]


def frames(talk, way, rng, marks):
    """Packets of one direction, each with a mark of its own, as they are before the gateway."""
    before, behind = talk.ways[way]
    is_answer = (way == 0) != talk.is_from_inside
    for number in range(FRAMES + 4):
        mark = b"NAT" + next(marks).to_bytes(5, "big")
        payload = mark + rng.randbytes(rng.randrange(1200))
        ip = {"tos": rng.randrange(256), "ttl": rng.randrange(2, 256), "id": rng.randrange(65536), "flags": rng.choice(["", "DF"])}
        upper = {
            "seq": rng.randrange(1 << 32), "ack": rng.randrange(1 << 32), "window": rng.randrange(65536),
            "flags": rng.choice(["A", "PA", "AU", "AEC"]), "urgptr": rng.randrange(65536),
            "options": rng.choice([[], [("Timestamp", (7, 9))], [("SAck", (1, 9)), ("NOP", None), ("NOP", None)]]),
        }  # fmt: skip
        special = number - FRAMES
        if special >= 0:
            # Checksums that are, or become, nearly nothing: a word of the payload makes them so.
            ends, wanted = ((before, behind)[special % 2], (0xFFFF, 0x0001)[special // 2])
            payload = mark + bytes(2)
            sum_ = ~talk.checksum(talk.packet(ends, (ip, upper), payload, is_answer)) & 0xFFFF
            word = (~wanted & 0xFFFF) + (~sum_ & 0xFFFF)
            word = (word & 0xFFFF) + (word >> 16)
            payload = mark + word.to_bytes(2, "big")
            made = talk.checksum(talk.packet(ends, (ip, upper), payload, is_answer))
            assert made in (wanted, 0 if wanted == 0xFFFF else wanted), (hex(made), hex(wanted))
        packet = bytearray(bytes(talk.packet(before, (ip, upper), payload, is_answer)))
        if talk.protocol == 17 and talk.version == 4 and number % 8 == 7 and special < 0:
            # No checksum at all.
            packet[26:28] = bytes(2)
        yield mark, bytes(packet)


def bind(end, port):
    """Beside a socket of the other version."""
    if end.family == socket.AF_INET6:
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    end.bind(("", port))


def open_all(net):
    """Connections of each kind, with the sockets that keep them."""
    talks, keep = [], []
    for version, family, server in ((4, socket.AF_INET, t.SERVER4), (6, socket.AF_INET6, t.SERVER6)):
        for near, far, to, port in ((net.client, net.server, server, 7001), (net.server, net.client, t.WAN_A4, 8000)):
            if port == 8000 and version == 6:
                continue
            ours, theirs = near.socket(family, socket.SOCK_DGRAM), far.socket(family, socket.SOCK_DGRAM)
            bind(theirs, port)
            ours.connect((to, port))
            for _ in range(3):
                ours.send(b"to")
                theirs.settimeout(5)
                theirs.sendto(b"fro", theirs.recvfrom(100)[1])
                time.sleep(0.02)
            keep += [ours, theirs]
            talks.append(Talk(net, version, 17, port))
        listener = net.server.socket(family, socket.SOCK_STREAM)
        bind(listener, 7070)
        listener.listen()
        client = net.client.socket(family, socket.SOCK_STREAM)
        client.connect((server, 7070))
        peer, _ = listener.accept()
        for _ in range(10):
            client.sendall(b"x")
            assert peer.recv(1) == b"x"
        keep += [listener, client, peer]
        talks.append(Talk(net, version, 6, 7070))
    return talks, keep


def ping(net, injector, macs):
    """Queries with an identifier that is known; the server answers."""
    from scapy.layers.inet import ICMP, IP
    from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6

    talks = []
    for version, packet in (
        (4, IP(src=t.CLIENT4, dst=t.SERVER4) / ICMP(id=PING_ID, seq=1)),
        (6, IPv6(src=t.CLIENT6, dst=t.SERVER6) / ICMPv6EchoRequest(id=PING_ID, seq=1)),
    ):
        for _ in range(2):
            injector.send(ethernet(*macs, version, bytes(packet)))
            time.sleep(0.05)
        talks.append(Talk(net, version, 1 if version == 4 else 58, PING_ID))
    return talks


def ethernet(dst, src, version, packet):
    mac = lambda text: bytes.fromhex(text.replace(":", ""))  # noqa: E731
    return mac(dst) + mac(src) + (b"\x08\x00" if version == 4 else b"\x86\xdd") + packet


def by_mark(frames, side, marks):
    """The frames with one of these marks that leave the gateway on a side."""
    found = {}
    for frame in frames:
        at = frame.data.find(b"NAT")
        mark = frame.data[at : at + 8] if at >= 0 else b""
        if mark in marks and str(frame.src if side == 0 else frame.dst) in SIDES[side]:
            assert mark not in found, mark
            found[mark] = frame.data
    return found


#: Whom frames are from that left for outside; whom they are to that came in.
SIDES = ((t.WAN_A4, t.WAN_A6, t.CLIENT4, t.CLIENT6), (t.CLIENT4, t.CLIENT6))


def test_every_frame_is_as_linux_makes_it(network):
    rng = random.Random(7)
    marks = iter(range(1, 100_000))
    net = build(network)
    inside, outside = Injector(net.client, "eth0"), Injector(net.mid, "west")
    to_lan = (net.gwa.host.mac("lan"), net.client.mac("eth0"))
    to_wan = (net.gwa.host.mac("wan"), net.gwb.host.mac("wan"))
    talks, keep = open_all(net)
    talks += ping(net, inside, to_lan)
    sent = ([], [])
    for talk in talks:
        for way, macs in ((0, to_lan), (1, to_wan)):
            sent[way].extend((mark, ethernet(*macs, talk.version, packet)) for mark, packet in frames(talk, way, rng, marks))

    def run():
        wires = (Capture(net.mid, "west"), Capture(net.client, "eth0"))
        for way, injector in ((0, inside), (1, outside)):
            for number, (_, frame) in enumerate(sent[way]):
                injector.send(frame)
                if number % 16 == 15:
                    time.sleep(0.02)
        time.sleep(0.3)
        return [by_mark(wire.stop(), way, {mark for mark, _ in sent[way]}) for way, wire in enumerate(wires)]

    before = work(net)["translated"]
    fast = run()
    count = len(sent[0]) + len(sent[1])
    assert work(net)["translated"] - before >= count, (work(net)["translated"] - before, count)
    # Linux carries on with the connections that it has.
    net.gwa.daemon.kill9()
    linux = run()
    for way in (0, 1):
        wrong = [
            f"{mark!r}:\n  sent  {frame.hex()}\n  fast  {fast[way].get(mark, b'').hex()}\n  linux {linux[way].get(mark, b'').hex()}"
            for mark, frame in sent[way]
            if mark not in fast[way] or fast[way][mark] != linux[way].get(mark)
        ]
        assert not wrong, f"{len(wrong)} of {len(sent[way])}\n" + "\n".join(wrong[:3])
    for end in keep:
        end.close()
