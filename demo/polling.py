#!/usr/bin/python3
"""What the worker's polling costs and gives: processor time and latency by packet rate.

    demo/polling.py                  adaptive (the default) beside `culvert run --poll`
    demo/polling.py --modes adaptive one of them

The network is the demo's: four hosts in namespaces, two of them gateways, one tunnel. What is shown is
gateway A's worker, which has the machine's last core to itself; all else shares the others, with
gateway B as it is by default. Needs root, and two cores.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.dont_write_bytecode = True

from lab import Lab, LabError, topology as t  # noqa: E402
from lab.base import sweep  # noqa: E402
from lab.planes import culvert_missing  # noqa: E402
from lab.traffic import Iperf, first_answer, ping  # noqa: E402

#: Arguments of `culvert run`, by mode.
MODES = {"adaptive": [], "always": ["--poll"]}

#: Payload of a datagram, in bytes.
SIZE = 64

#: Offered packets a second; None is as fast as the sender can.
RATES = [("1 kpps", 1_000), ("10 kpps", 10_000), ("100 kpps", 100_000), ("flat out", None)]


class Meter:
    """Processor time, sleeps and packets of a gateway's worker over a time."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.start = self._read()

    def _read(self):
        stats = self.daemon.stats()
        return time.monotonic(), self.daemon.worker_cpu_s(), stats["work"]["sleeps"], stats["received"]

    def read(self):
        """(share of a core, sleeps a second, packets a second)"""
        now = self._read()
        seconds, cpu, sleeps, packets = (b - a for a, b in zip(self.start, now, strict=True))
        return cpu / seconds, sleeps / seconds, packets / seconds


def latency(net):
    """Round trips at 50 a second, one after the other: median and 99th percentile, in us."""
    times = ping(net.client, t.SERVER4, count=150, interval=0.02)["times"]
    if len(times) < 100:
        raise LabError("pings were lost")
    times = sorted(1e6 * time_s for time_s in times)
    return statistics.median(times), times[int(len(times) * 0.99)]


def measure(mode, seconds, core):
    """Rows of one mode: (label, packets a second, share of a core, sleeps a second)."""
    with Lab("polling") as lab:
        net = t.net4(lab, "culvert").configure(None)
        daemon = net.gwa.daemon
        daemon.arguments = MODES[mode]
        daemon.write_config(daemon.config.read_text() + f"[worker]\ncpu = {core}\n")
        net.up()
        first_answer(net.client, t.SERVER4)
        rows = []
        time.sleep(0.5)
        meter = Meter(net.gwa.daemon)
        time.sleep(seconds)
        rows.append(("idle", *meter.read()))
        round_trips = latency(net)
        iperf = Iperf(net.server)
        for label, rate in RATES:
            bits = str(rate * SIZE * 8) if rate else "0"
            run = iperf.start(net.client, t.SERVER4, seconds=seconds + 1, udp=bits, length=SIZE)
            # Past the connection and the first packets.
            time.sleep(0.5)
            meter = Meter(net.gwa.daemon)
            time.sleep(seconds - 0.5)
            rows.append((label, *meter.read()))
            iperf.result(run)
        iperf.stop()
        return rows, round_trips


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modes", default=",".join(MODES), help="adaptive, always")
    parser.add_argument("--seconds", type=float, default=3, help="length of each measurement")
    args = parser.parse_args()
    modes = args.modes.split(",")
    if not modes or not set(modes) <= set(MODES):
        parser.error(f"--modes: some of {', '.join(MODES)}")
    if culvert_missing():
        print(f"polling: {culvert_missing()}", file=sys.stderr)
        return 1
    *others, core = sorted(os.sched_getaffinity(0))
    if not others:
        print("polling: needs two cores", file=sys.stderr)
        return 1
    os.sched_setaffinity(0, others)
    sweep()
    for mode in modes:
        try:
            rows, (median, late) = measure(mode, args.seconds, core)
        except LabError as error:
            print(f"polling: {error}", file=sys.stderr)
            return 1
        print(f"\n{mode}: round trip {median:.0f} us, 99th percentile {late:.0f} us")
        print(f"  {'offered':<10}{'received/s':>12}{'of a core':>11}{'sleeps/s':>10}")
        for label, cpu, sleeps, packets in rows:
            print(f"  {label:<10}{packets:>12.0f}{cpu:>10.1%}{sleeps:>10.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
