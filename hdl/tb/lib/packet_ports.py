"""Sources and sinks that move whole packets: over AXI4-Stream, or as the gateway's own beats."""

import beat
from cocotb.triggers import FallingEdge
from stream import Sink, Source


class AxisSource(Source):
    """Sends packets to the AXI4-Stream port `prefix`; bytes that tkeep leaves out carry noise."""

    def __init__(self, dut, prefix, seed=1):
        port = {name: getattr(dut, f"{prefix}_t{name}_i") for name in ("data", "keep", "last")}
        super().__init__(dut.clk_i, getattr(dut, f"{prefix}_tvalid_i"),
                         getattr(dut, f"{prefix}_tready_o"), port, seed=seed)

    def put_packet(self, packet, empty_end=False):
        """Queues a packet; `empty_end`: one of full beats gets a last one that has no byte."""
        assert packet and not (empty_end and len(packet) % 16)
        chunks = [packet[i : i + 16] for i in range(0, len(packet), 16)] + [b""] * empty_end
        for number, chunk in enumerate(chunks):
            noise = chunk + self.random.randbytes(16 - len(chunk))
            self.put({"data": int.from_bytes(noise, "little"), "keep": (1 << len(chunk)) - 1,
                      "last": int(number == len(chunks) - 1)})


class AxisSink(Sink):
    """Takes packets from the AXI4-Stream port `prefix`."""

    def __init__(self, dut, prefix, seed=2):
        port = {name: getattr(dut, f"{prefix}_t{name}_o") for name in ("data", "keep", "last")}
        super().__init__(dut.clk_i, getattr(dut, f"{prefix}_tvalid_o"),
                         getattr(dut, f"{prefix}_tready_i"), port, seed=seed)
        self.part = b""

    def packets(self):
        """The whole packets that came since the last call."""
        out = []
        for item in self.items:
            count = item["keep"].bit_count()
            assert item["keep"] == (1 << count) - 1 and count and (item["last"] or count == 16)
            self.part += item["data"].to_bytes(16, "little")[:count]
            if item["last"]:
                out.append(self.part)
                self.part = b""
        self.items.clear()
        return out


class BeatSource(Source):
    """Sends packets to `in_*`."""

    def __init__(self, dut, seed=1):
        super().__init__(dut.clk_i, dut.in_valid_i, dut.in_ready_o, {"beat": dut.in_beat_i},
                         seed=seed)

    def put_packet(self, packet):
        for value in beat.beats(packet):
            self.put(value)


class BeatSink(Sink):
    """Takes packets from `out_*`."""

    def __init__(self, dut, seed=2):
        super().__init__(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o},
                         seed=seed)
        self.part = b""

    def packets(self):
        """The whole packets that came since the last call."""
        out = []
        for item in self.items:
            chunk, last = beat.unpack(item)
            self.part += chunk
            if last:
                out.append(self.part)
                self.part = b""
        self.items.clear()
        return out


async def weather(clk, rng, sources, sinks):
    """For ever: gives each port another share of idle or stalled cycles every now and then. One in
    ten of the ports stands nearly still for a while."""
    while True:
        for source in sources:
            source.idle = rng.choice([0.0, 0.0, 0.1, 0.3, 0.5, 0.5, 0.8, 0.8, 0.2, 0.98])
        for sink in sinks:
            sink.stall = rng.choice([0.0, 0.0, 0.1, 0.3, 0.5, 0.5, 0.6, 0.2, 0.2, 0.98])
        for _ in range(rng.randrange(50, 800)):
            await FallingEdge(clk)
