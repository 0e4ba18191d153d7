"""Random packets for the protected side."""

import esp
from clear_traffic import EXPERIMENT, Clear
from records import MAX_BYTES
from site_plan import SAME_BYTES, SPECS, SPECS_OUT


class OutboundTraffic:
    """Packets of the flows that are loaded, and of none."""

    def __init__(self, rng):
        self.rng, self.clear = rng, Clear(rng, inbound=False)
        self.specs = SPECS + SPECS_OUT
        self.flows = []

    def add(self, flow):
        self.flows.append(flow)

    def version(self, flow):
        spec = self.specs[flow]
        return bool(self.rng.randrange(2)) if spec.tunnel else spec.v6

    def next(self):
        rng = self.rng
        flow = rng.choice(self.flows)
        if self.specs[flow].same:
            return self.clear.packet(self.specs[flow].v6, flow, rng.randbytes(SAME_BYTES),
                                     proto=EXPERIMENT)
        # Transport mode: sometimes the version that the SA does not carry.
        v6 = self.version(flow) ^ (rng.random() < 0.03)
        kind = rng.random()
        if kind < 0.65:
            return self.clear.packet(v6, flow)
        if kind < 0.75:
            return self.clear.dressed(v6, flow)
        if kind < 0.85:
            return self.clear.by_port(v6, flow)
        return self.clear.broken(self.clear.packet(v6, flow))

    def extremes(self):
        """The shortest packets, and of AES flows the longest ones: that just fit and that do not."""
        def sized(flow, whole):
            v6 = self.version(flow)
            header = 40 if v6 else 20
            return self.clear.packet(v6, flow, self.rng.randbytes(whole - header), proto=EXPERIMENT)

        for v6 in (False, True):
            yield self.clear.packet(v6, 0, b"", proto=EXPERIMENT)
        for flow in (0, 2, 3, 5):
            yield sized(flow, 9000)
        for flow, whole in ((0, MAX_BYTES), (2, MAX_BYTES - 40), (3, MAX_BYTES + 1), (0, MAX_BYTES + 700)):
            yield sized(flow, whole)


def opened_by_scapy(packet):
    """Whether scapy leaves what is in the packet as it is."""
    return (packet[6] if packet[0] >> 4 == 6 else packet[9]) == EXPERIMENT and \
        esp.header_bytes(packet) == (40 if packet[0] >> 4 == 6 else 20)
