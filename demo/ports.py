#!/usr/bin/env python3
"""AF_XDP and packet sockets side by side: the four hosts of the demo, runs of either kind in turn, medians.

The rows are TCP one way and the other, and UDP packets of 64 bytes that arrive; the columns kinds of ports with raw
ESP and with ESP in UDP, and Linux forwarding in clear.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from lab import Lab, LabError, topology as t  # noqa: E402
from lab.base import interruptible, sweep  # noqa: E402
from lab.planes import culvert_missing  # noqa: E402
from lab.traffic import Iperf, first_answer  # noqa: E402

#: Plane, kind of the ports, encapsulation in UDP.
COLUMNS = {
    "clear": ("plain", "interface", "no"),
    "xdp": ("culvert", "interface", "no"),
    "xdp-udp": ("culvert", "interface", "yes"),
    "packet": ("culvert", "packet", "no"),
    "packet-udp": ("culvert", "packet", "yes"),
    "mixed": ("culvert", "lan=packet", "no"),
    "unprivileged": ("culvert", "unprivileged", "yes"),
}

#: A UDP datagram of so many bytes is a frame of 64.
SMALL = 22

ROWS = {
    "TCP v4 there, Gbit/s": (t.SERVER4, {}),
    "TCP v4 back, Gbit/s": (t.SERVER4, {"reverse": True}),
    "TCP v6 there, Gbit/s": (t.SERVER6, {}),
    "UDP of 64 bytes, kpps": (t.SERVER4, {"udp": "0", "length": SMALL}),
}


def measure(column, seconds):
    plane, ports, encap = COLUMNS[column]
    os.environ["CULVERT_PORTS"] = ports
    with Lab("ports") as lab:
        net = t.net4(lab, plane).configure(None, encap=encap).up()
        first_answer(net.client, t.SERVER4)
        iperf = Iperf(net.server)
        figures = {}
        for row, (to, how) in ROWS.items():
            rate = iperf.run(net.client, to, seconds=seconds, **how)["bits_per_second"]
            figures[row] = rate / (SMALL * 8e3 if "udp" in how else 1e9)
        iperf.stop()
        return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=2, help="length of each iperf3 run")
    parser.add_argument("--rounds", type=int, default=3, help="how often each column is measured")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="some of them")
    args = parser.parse_args()
    columns = args.columns.split(",")
    if not set(columns) <= set(COLUMNS):
        parser.error(f"--columns: some of {', '.join(COLUMNS)}")
    if culvert_missing():
        print(culvert_missing(), file=sys.stderr)
        return 1
    interruptible()
    sweep()
    seen = {column: {row: [] for row in ROWS} for column in columns}
    for number in range(args.rounds):
        for column in columns:
            for row, figure in measure(column, args.seconds).items():
                seen[column][row].append(figure)
                print(f"round {number + 1}  {column:12}  {row:22}  {figure:8.2f}", flush=True)
    print("\nMedians, and least and most:")
    for row in ROWS:
        for column in columns:
            values = seen[column][row]
            middle = statistics.median(values)
            print(f"{row:22}  {column:12}  {middle:8.2f}  ({min(values):.2f} to {max(values):.2f})")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(f"ports: {error}", file=sys.stderr)
        sys.exit(1)
