"""What is to come out of a gateway, and what has."""

from collections import Counter, defaultdict, deque


class Expected:
    """Packets that are to come out, each of a flow; those of a flow in the order in which they went in.

    `modules`: of each kind, on a packet's way. With one, a flow's packets leave in their order; with
    several they may overtake one another, but by less than a receiver's window of 128 bears.
    """

    def __init__(self, modules, window=128):
        self.slack = 0 if modules == 1 else window
        self.places, self.reached = Counter(), Counter()  # of each flow: packets that came in, and out
        self.open = defaultdict(deque)  # what may come: (flow, place)
        self.must, self.came = Counter(), Counter()

    def add(self, packet, flow, sure=True):
        """A packet that may come out; `sure`: its flow gives one packet more."""
        self.places[flow] += 1
        self.open[packet].append((flow, self.places[flow]))
        self.must[flow] += sure

    def take(self, packet):
        """A packet came out: returns its flow. It is an error if none like this was to come."""
        assert self.open.get(packet), f"no packet like this may come out: {packet.hex()}"
        flow, place = self.open[packet].popleft()
        assert place > self.reached[flow] - self.slack, \
            f"{flow}: packet {place} behind packet {self.reached[flow]}"
        self.reached[flow] = max(self.reached[flow], place)
        self.came[flow] += 1
        assert self.came[flow] <= self.must[flow], f"{flow}: a packet more than may pass"
        return flow

    def missing(self):
        """How many packets of each flow have yet to come."""
        return self.must - self.came
