"""Random packets for the unprotected side.

What a packet's fate is must not hang on how fast others go through the gateway: a packet is sent again
while its number is still well inside the window, or long after; what is forged has a number of its own.
"""

from clear_traffic import EXPERIMENT, Clear
from open_model import ESP, esp_packet, ip_header
from records import MAX_BYTES, WINDOW
from site_plan import BYPASS_PORT, NOBODY, SAME_BYTES, SPECS

RECENT = 40  # numbers that a replay may be behind


class InboundTraffic:
    """Packets of the flows that are loaded, and of none."""

    def __init__(self, rng, model):
        self.rng, self.model, self.clear = rng, model, Clear(rng, inbound=True)
        self.flows, self.next_number, self.skipped, self.sent = [], {}, {}, {}

    def add(self, flow):
        self.flows.append(flow)
        self.next_number[flow] = SPECS[flow].top + 1
        self.skipped[flow], self.sent[flow] = [], []

    def number(self, flow):
        """Mostly the next one; sometimes one that was left out a short while ago."""
        rng, skipped = self.rng, self.skipped[flow]
        while skipped and skipped[0] < self.next_number[flow] - RECENT:
            skipped.pop(0)
        if skipped and rng.random() < 0.3:
            return skipped.pop(rng.randrange(len(skipped)))
        number = self.next_number[flow]
        if rng.random() < 0.1 and not SPECS[flow].same:
            skipped.append(number)
            number += 1
        self.next_number[flow] = number + 1
        return number

    def seal(self, flow, payload, proto, number=None, text=None, blocks=None, **more):
        """An ESP packet of a flow; remembered, so that it can come again."""
        rng, sa = self.rng, self.model.flows[flow].sa
        number = self.number(flow) if number is None else number
        blocks = rng.choice([0, 0, 0, 1, 3]) if blocks is None else blocks
        text = sa.text(payload, proto, blocks) if text is None else text
        if sa.v6:
            more.pop("options", None)
        packet = esp_packet(sa, number, text, rng.randbytes(sa.iv_bytes), **more)
        self.sent[flow].append((number, packet))
        return packet

    def inner(self, flow, inner_flow=None, **more):
        """(payload, next header) of a packet from a flow's network."""
        spec, rng = SPECS[flow], self.rng
        if not spec.tunnel:
            return rng.randbytes(rng.choice([4, 8, 40, 100, 600])), EXPERIMENT
        v6 = bool(rng.randrange(2))
        packet = self.clear.packet(v6, flow if inner_flow is None else inner_flow, **more)
        return packet, 41 if v6 else 4

    def good(self, flow, **more):
        tos = self.rng.getrandbits(8)
        options = self.rng.choice([b""] * 5 + [bytes([1]) * 4 * self.rng.randint(1, 5)])
        return self.seal(flow, *self.inner(flow, **more), tos=tos, options=options)

    def next(self):
        rng = self.rng
        flow = rng.choice(self.flows)
        if SPECS[flow].same:
            return self.seal(flow, rng.randbytes(SAME_BYTES), EXPERIMENT, blocks=0)
        kind = rng.random()
        for share, make in ((0.5, self.good), (0.08, self.again), (0.06, self.forged),
                            (0.08, self.authentic_but_wrong), (0.08, self.wrong_shape),
                            (0.12, self.in_clear)):
            kind -= share
            if kind < 0:
                return make(flow)
        return self.clear.broken(self.in_clear(flow))

    def again(self, flow):
        """A packet that was there before: a short while ago, or so long that it is late."""
        rng, near = self.rng, self.next_number[flow] - RECENT
        if rng.randrange(2) and not SPECS[flow].esn:
            late = SPECS[flow].top - WINDOW - rng.randrange(1000)
            return self.seal(flow, *self.inner(flow), number=rng.choice([0, late]))
        self.sent[flow] = [s for s in self.sent[flow] if s[0] > near]
        return rng.choice(self.sent[flow])[1] if self.sent[flow] else self.good(flow)

    def forged(self, flow):
        """One bit is wrong behind the ESP header, in the SPI, or in the number's upper bits."""
        packet, rng = bytearray(self.good(flow)), self.rng
        self.sent[flow].pop()
        esp = 40 if packet[0] >> 4 == 6 else 4 * (packet[0] & 15)
        place = rng.choice([rng.randrange(esp, esp + 6), rng.randrange(esp + 8, len(packet)),
                            rng.randrange(len(packet) - 8, len(packet))])
        packet[place] ^= 1 << rng.randrange(8)
        return bytes(packet)

    def authentic_but_wrong(self, flow):
        """What a peer with the keys may get wrong: padding, content, another flow's packets."""
        rng, sa = self.rng, self.model.flows[flow].sa
        payload, proto = self.inner(flow)
        kind = rng.randrange(7)
        if kind == 0:  # padding, or its length
            text = bytearray(sa.text(payload, proto, 1))
            place = rng.choice([-2, -3])
            text[place] ^= 1 << rng.randrange(8)
            return self.seal(flow, payload, proto, text=bytes(text))
        if kind == 1:  # a dummy packet (RFC 4303, section 2.6)
            return self.seal(flow, payload, 59)
        if kind == 2:
            return self.seal(flow, payload, rng.randrange(256))
        if kind == 3:
            return self.seal(flow, payload + bytes(rng.randint(1, 50)), proto)  # TFC padding
        if kind == 4:
            return self.seal(flow, self.clear.broken(payload), proto)
        if kind == 5:
            return self.good(flow, inner_flow=rng.choice([*self.flows, NOBODY]))
        return self.good(flow, port=BYPASS_PORT)

    def wrong_shape(self, flow):
        """Lengths that do not fit, fragments, noise behind the right header."""
        rng, sa = self.rng, self.model.flows[flow].sa
        packet = self.good(flow)
        self.sent[flow].pop()
        header = 40 if packet[0] >> 4 == 6 else 4 * (packet[0] & 15)
        body = packet[header:]
        kind = rng.randrange(5)
        if kind == 0:  # cut on the way
            return packet[: rng.randint(1, len(packet) - 1)]
        if kind == 1:
            return packet + rng.randbytes(rng.randint(1, 20))
        if kind == 2:  # cut, with an IP length that agrees
            body = body[: rng.choice([rng.randrange(len(body)), rng.randrange(60)])]
        elif kind == 3:
            body = body[:8] + rng.randbytes(rng.randint(0, 120))
        elif not sa.v6:
            return self.fragment(sa, body)
        return ip_header(sa.v6, sa.src, sa.dst, ESP, len(body)) + body

    def fragment(self, sa, body):
        """ESP in an IPv4 fragment."""
        return ip_header(False, sa.src, sa.dst, ESP, len(body), df=False,
                         fragment=self.rng.choice([0x2000, 100])) + body

    def in_clear(self, flow):
        v6, rng = bool(self.rng.randrange(2)), self.rng
        kind = rng.randrange(4)
        if kind == 0:
            return self.clear.packet(v6, flow)
        if kind == 1:
            return self.clear.dressed(v6, rng.choice([flow, NOBODY]))
        return self.clear.by_port(v6, flow)

    def extremes(self):
        """The shortest packets, and of AES flows the longest ones: that fit and that do not. Then two
        kinds that are rare among the random ones: of an SPI that is not there, and a fragment."""
        for flow in (0, 2, 3, 5):
            payload, proto = b"", EXPERIMENT
            if SPECS[flow].tunnel:
                payload, proto = self.clear.packet(False, flow, payload, proto=proto), 4
            yield self.seal(flow, payload, proto, blocks=0)
        for flow in (0, 2, 3, 5):
            size = 9000 - (60 if SPECS[flow].tunnel else 40)
            payload, proto = self.rng.randbytes(size), EXPERIMENT
            if SPECS[flow].tunnel:
                payload, proto = self.clear.packet(False, flow, payload, proto=EXPERIMENT), 4
            yield self.seal(flow, payload, proto, blocks=0)
        yield self.seal(0, bytes(MAX_BYTES), 4, blocks=0)
        self.sent[0].pop()
        yield self.clear.packet(False, 0, bytes(MAX_BYTES - 24), port=BYPASS_PORT)
        sa = self.model.flows[0].sa
        body = bytes([sa.spi >> 24 ^ 0x80]) + self.rng.randbytes(99)
        yield ip_header(False, sa.src, sa.dst, ESP, len(body)) + body
        yield self.fragment(sa, body)
