"""What both directions' models of a gateway have."""

from collections import Counter

from expected import Expected
from records import MAX_BYTES, Drop
from spd_model import Spd

CLEAR = "in clear"


class Model:
    """`send` packets as they go in, `take` them as they come out. A direction says by `_judge` what
    becomes of a packet: why it is dropped, or NONE, with what is to come out in `expected`."""

    def __init__(self, modules):
        self.ordered = modules == 1
        self.spd, self.flows, self.events = Spd(), {}, []
        self.expected = Expected(modules)
        self.drops = Counter()
        self.packets_in = self.bytes_in = self.packets_out = self.bytes_out = 0

    def send(self, packet):
        """A packet goes in; returns why it is dropped, or NONE."""
        packet = packet[:MAX_BYTES + 1]
        self.packets_in += 1
        self.bytes_in += len(packet)
        reason = self._judge(packet)
        self.drops[reason] += reason != Drop.NONE
        return reason

    def left(self, packet):
        """Counts a packet that came out."""
        self.packets_out += 1
        self.bytes_out += len(packet)
