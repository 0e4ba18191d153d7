"""What the outbound half of a gateway makes of packets, one after the other (RFC 4301, section 5.1).

Headers are read by `ip.parse`, policies found by `Spd.look`, packets sealed by `esp.seal`.
"""

import esp
import ip
from lifetime import Lifetime
from model import CLEAR, Model
from records import BYPASS, MAX_BYTES, PROTECT, Drop

LAST = {False: (1 << 32) - 1, True: (1 << 64) - 1}  # the last number, without and with ESN
FRAGMENT, UNSUPPORTED_HEADERS = 44, {0, 43, 60}


class Flow:
    """An SA, the number that was used last, and what must come out."""

    def __init__(self, index, sa, top, events, limits):
        self.index, self.sa, self.first, self.top = index, sa, top, top
        self.lifetime = Lifetime(index, events, limits)
        self.supported = sa.cipher == "CipherAesGcm" or sa.auth != "AuthNone"
        self.waiting = []  # (number, packet, bytes on the wire)
        self.numbers = set()

    def number_of(self, low):
        """The number whose lower half is on the wire."""
        number = self.first >> 32 << 32 | low
        return number if number > self.first else number + (1 << 32)


class Outbound(Model):
    """What comes from the protected side."""

    def __init__(self, modules):
        super().__init__(modules)
        self.by_spi = {}

    def add(self, index, sa, top=0, limits=None):
        flow = Flow(index, sa, top, self.events, limits)
        self.flows[index] = self.by_spi[sa.spi] = flow
        return flow

    def _judge(self, packet):
        _, tail, info, select, fragment, _ = ip.parse(packet)
        if tail != Drop.NONE:
            return tail
        policy = self.spd.look(select)
        if policy is None:
            return Drop.NO_POLICY
        if policy["action"] == BYPASS:
            self.expected.add(packet, CLEAR)
            return Drop.NONE
        if policy["action"] != PROTECT:
            return Drop.POLICY
        flow = self.flows.get(policy["sa"])
        return Drop.NO_SA if flow is None else self._encapsulate(flow, packet, info, fragment)

    def _encapsulate(self, flow, packet, info, fragment):
        sa = flow.sa
        reason = flow.lifetime.refusal()
        if reason == Drop.NONE and flow.top == LAST[sa.esn]:
            reason = Drop.NUMBERS
            flow.lifetime.ran_out()
        if reason != Drop.NONE:
            if not self.ordered:
                # With several modules another packet may find the door shut.
                self._expect(flow, packet, sure=False)
            return reason
        flow.top += 1
        payload = len(packet) if sa.tunnel else len(packet) - info["hdr_bytes"]
        flow.lifetime.carry(1, payload)
        reason = self._unfit(flow, packet, info, fragment)
        if reason == Drop.NONE:
            self._expect(flow, packet)
        return reason

    def _unfit(self, flow, packet, info, fragment):
        """Why a packet cannot be carried by its SA; its number is lost."""
        sa = flow.sa
        if not flow.supported:
            return Drop.UNSUPPORTED
        if not sa.tunnel:
            if info["v6"] != (len(sa.src) == 16):
                return Drop.INNER
            if info["v6"]:
                if info["proto"] == FRAGMENT:
                    return Drop.FRAGMENT
                if info["proto"] in UNSUPPORTED_HEADERS:
                    return Drop.UNSUPPORTED
            elif fragment:
                return Drop.FRAGMENT
            if not info["v6"] and info["hdr_bytes"] > 20 or len(packet) == info["hdr_bytes"]:
                return Drop.UNSUPPORTED
        sealed = esp.seal(sa, packet, 1).wire
        return Drop.TOO_LONG if len(sealed) > MAX_BYTES else Drop.NONE

    def _expect(self, flow, packet, sure=True):
        flow.waiting.append((flow.top, packet, len(esp.seal(flow.sa, packet, 1).wire)))
        self.expected.add(packet, flow.index, sure)

    def take(self, wire):
        """A packet came out: returns its flow's index and the packet inside, or CLEAR and itself."""
        self.left(wire)
        if self.expected.open.get(wire):
            # A packet that went in and comes out unchanged: only bypass is to have such.
            assert self.expected.take(wire) == CLEAR, "in clear, though policy protects it"
            return CLEAR, wire, None
        at = esp.header_bytes(wire)
        proto = wire[6] if wire[0] >> 4 == 6 else wire[9]
        flow = self.by_spi.get(int.from_bytes(wire[at : at + 4], "big")) if proto == esp.ESP else None
        assert flow, f"neither of an SA nor to be bypassed: {wire.hex()}"
        number = flow.number_of(int.from_bytes(wire[at + 4 : at + 8], "big"))
        assert flow.first < number <= flow.top and number not in flow.numbers, \
            f"SA {flow.index}: number {number}"
        flow.numbers.add(number)
        candidates = flow.waiting[:1] if self.ordered else list(flow.waiting)
        for entry in candidates:
            own, packet, size = entry
            if size == len(wire) and esp.seal(flow.sa, packet, number).wire == wire:
                assert own == number or not self.ordered, f"number {number}, not {own}"
                flow.waiting.remove(entry)
                self.expected.take(packet)
                return flow.index, packet, number
        raise AssertionError(
            f"SA {flow.index}, number {number}: {wire.hex()} is none of "
            f"{[(own, packet.hex()) for own, packet, _ in candidates]}")

    def check_state(self, index, got):
        """The SA's state at the end is the model's."""
        flow = self.flows[index]
        want = {"top": flow.top, "seen": flow.sa.iv_salt} | flow.lifetime.state()
        assert got == want, f"state of SA {index}: {got}, not {want}"
