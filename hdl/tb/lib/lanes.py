"""Packed arrays of ports, seen as one port per lane.

The simulator sees a packed array of ports as one wide value; a lane writes and reads its own bits.
"""


class Lanes:
    """`count` lanes of `width` bits in one signal."""

    def __init__(self, signal, width, count, drive=True):
        self.signal, self.width, self.values = signal, width, [0] * count
        if drive:
            self.flush()

    def flush(self):
        total = 0
        for index, value in enumerate(self.values):
            total |= value << (self.width * index)
        self.signal.value = total

    def lane(self, index):
        return Lane(self, index)


class Lane:
    """One lane; looks like a signal."""

    def __init__(self, lanes, index):
        self.lanes, self.index = lanes, index

    @property
    def value(self):
        whole = int(self.lanes.signal.value)
        return whole >> (self.lanes.width * self.index) & ((1 << self.lanes.width) - 1)

    @value.setter
    def value(self, new):
        self.lanes.values[self.index] = int(new)
        self.lanes.flush()


def watch(signal, width, index):
    """A lane of an output: read only."""
    return Lane(Lanes(signal, width, index + 1, drive=False), index)
