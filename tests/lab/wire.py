"""What must hold on the wire between two gateways while encryptors take turns: no number and no IV twice, nothing in
clear, and no packet so late that the peer's window refuses it."""

import struct
from collections import defaultdict

from .capture import Capture, leaks
from .topology import PROTECTED

#: The smallest replay window in use (RFC 4303 section 3.4.3): what is later than that is lost at the peer.
WINDOW = 32

#: How many bytes of each frame are kept.
SNAP = 160

_ESP, _AH = 50, 51


def protections(frame):
    """The ESP or AH header of a frame: (protocol, SPI, sequence number, offset of what follows); None if it has none.
    Fragments have none but the first."""
    if frame.is_esp:
        return _ESP, frame.spi, frame.sequence, frame.esp + 8
    is_whole = frame.protocol == _AH and not frame.fragment and len(frame.data) >= frame.payload + 12
    if not is_whole:
        return None
    # RFC 4302 section 2: next header, length, reserved, SPI, sequence number.
    spi, sequence = struct.unpack_from("!II", frame.data, frame.payload + 4)
    return _AH, spi, sequence, frame.payload + 12


class Record:
    """The sequence numbers and IVs of each SA, in the order of the wire.

    `iv_len_bytes` of what follows the ESP header are the IV; 0: there is none to judge, as with NULL.
    """

    def __init__(self, frames, iv_len_bytes=8):
        self.numbers = defaultdict(list)
        ivs = defaultdict(list)
        for frame in frames:
            found = protections(frame)
            if found is None:
                continue
            protocol, spi, sequence, at = found
            key = (str(frame.dst), spi)
            self.numbers[key].append(sequence)
            if protocol == _ESP and iv_len_bytes:
                ivs[key].append(frame.data[at : at + iv_len_bytes])
        self.ivs = ivs

    def packets(self, spi=None):
        """How many packets, of one SPI or of all."""
        return sum(len(n) for (_, s), n in self.numbers.items() if spi in (None, s))

    def repeats(self):
        """What came twice, as text."""
        for what, table in (("sequence number", self.numbers), ("IV", self.ivs)):
            for (dst, spi), values in table.items():
                seen, twice = set(), []
                for value in values:
                    twice += [value] if value in seen else []
                    seen.add(value)
                if twice:
                    shown = [v.hex() if isinstance(v, bytes) else v for v in twice[:5]]
                    yield f"{len(twice)} times a {what} repeated under SPI {spi:#010x} to {dst}: {shown}"

    def late(self):
        """Packets that came `WINDOW` or more behind one that was sent later, as text."""
        for (dst, spi), numbers in self.numbers.items():
            highest, worst = 0, 0
            for number in numbers:
                worst = max(worst, highest - number)
                highest = max(highest, number)
            if worst >= WINDOW:
                yield f"a packet {worst} behind under SPI {spi:#010x} to {dst}"


class Wire:
    """A capture between the gateways for the whole of a test, and the judgement at its end.

    `clear(frame)` says which frames may pass in the clear though their addresses are protected.
    """

    def __init__(self, mid, dev="west", protected=PROTECTED):
        self.capture = Capture(mid, dev, snap=SNAP)
        self.protected = protected
        self.iv_len_bytes = 8
        self.clear = lambda frame: False
        #: Whether packets may come behind the peer's window: where the kernel has used an SA beside the fast path, the
        #: peer refuses what came later with lower numbers.
        self.may_be_late = False
        #: Frames that the test puts on the wire itself; the first of each is not its own.
        self.injected = set()

    def frames(self):
        """Every frame until now, less those that were injected."""
        return self._own(self.capture.frames())

    def _own(self, frames):
        cut = {data[:SNAP] for data in self.injected}
        seen, own = set(), []
        for frame in frames:
            if frame.data not in seen:
                own.append(frame)
            if frame.data in cut:
                seen.add(frame.data)
        return own

    def record(self):
        """The numbers and IVs until now."""
        return Record(self.frames(), self.iv_len_bytes)

    def check(self):
        """Ends the capture, and raises an AssertionError that says all that is wrong."""
        frames = self._own(self.capture.stop())
        record = Record(frames, self.iv_len_bytes)
        wrong = [*record.repeats(), *([] if self.may_be_late else record.late())]
        # What is protected by AH or by NULL encryption can be read, and is not in the clear.
        readable = (_AH,) if self.iv_len_bytes else (_AH, _ESP)
        bare = [f for f in frames if f.protocol not in readable and not self.clear(f)]
        in_clear = leaks(bare, self.protected)
        if in_clear:
            wrong.append(f"{len(in_clear)} in the clear: " + "; ".join(map(str, in_clear[:5])))
        assert not wrong, "; ".join(wrong)
        assert record.packets() > 0, "nothing protected was captured: nothing was tested"
