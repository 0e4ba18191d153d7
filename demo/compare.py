#!/usr/bin/python3
"""One table: TCP, small UDP packets and round trips through two gateways, with culvert, without IPsec, and with others.

    make compare                         release build, every column, about six minutes; as root
    demo/compare.py --columns clear,xdp  some of them, with the binary that is there or $CULVERT
    demo/compare.py --json               every figure of every round

The hosts are network namespaces on one machine, and share its processors. All columns are up at the same time and are
measured in turns, round by round, so that a machine that slows down slows them all. The columns guest-* run in a guest,
whose kernel has ESP (make kernel VERSION=7.2): they compare with each other, not with the rest.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.dont_write_bytecode = True

from figures import ROWS, Figures, cycles, number, quantile  # noqa: E402
from lab import Lab, LabError, processor, topology as t, wireguard  # noqa: E402
from lab.base import ROOT, interruptible, sweep  # noqa: E402
from lab.guest import GUEST_MARK, Guest, culvert_guest_missing, kernel_image, kernel_missing  # noqa: E402
from lab.planes import culvert_binary, culvert_missing  # noqa: E402
from lab.traffic import PYTHON, Iperf, first_answer, ping  # noqa: E402


@dataclass(frozen=True)
class Column:
    """Who carries the packets: the plane, culvert's ports, and whether ESP goes in UDP."""

    title: str
    plane: str
    ports: str = "xdp"
    encap: str = "no"


COLUMNS = {
    "clear": Column("kernel, no IPsec", "plain"),
    "default": Column("culvert, default", "culvert", "auto"),
    "default-udp": Column("culvert, encap = yes", "culvert", "auto", "yes"),
    "xdp": Column("culvert, AF_XDP", "culvert"),
    "unprivileged": Column("culvert, unprivileged", "culvert", "unprivileged", "yes"),
    "libipsec": Column("strongSwan libipsec", "libipsec", encap="yes"),
    "wireguard-go": Column("wireguard-go", "wireguard-go"),
    "guest-clear": Column("guest: kernel, no IPsec", "plain"),
    "guest-kernel": Column("guest: kernel's ESP", "kernel"),
    "guest-xdp": Column("guest: culvert, AF_XDP", "culvert"),
}

#: Those that are measured when they are asked for.
MORE = {
    "xdp-udp": Column("culvert, AF_XDP, ESP in UDP", "culvert", encap="yes"),
    "packet": Column("culvert, packet sockets, raw ESP", "culvert", "packet"),
    "packet-udp": Column("culvert, packet sockets, ESP in UDP", "culvert", "packet", "yes"),
    "mixed": Column("culvert, packet socket on the LAN", "culvert", "lan=packet"),
    "mixed-udp": Column("culvert, packet socket on the LAN, ESP in UDP", "culvert", "lan=packet", "yes"),
    "guest-packet-udp": Column("guest: culvert, packet sockets", "culvert", "packet", "yes"),
    "guest-kernel-udp": Column("guest: kernel's ESP in UDP", "kernel", encap="yes"),
}
ALL = {**COLUMNS, **MORE}

#: From one ping to the next, in seconds: each is answered before, so that none waits for another.
PING_S = 0.002

#: The longest that the guest may take beyond its runs, in seconds.
GUEST_PATIENCE_S = 300


def in_guest(column):
    return column.startswith("guest-")


def missing(column):
    """Why a column cannot be measured here; an empty text when it can."""
    plane = ALL[column].plane
    if plane == "culvert" and culvert_missing():
        return culvert_missing()
    if plane == "wireguard-go":
        return wireguard.missing()
    if plane == "libipsec" and not list(Path("/usr/lib/ipsec/plugins").glob("*kernel-libipsec.so")):
        return "no plugin kernel-libipsec (package libcharon-extra-plugins)"
    return ""


class Bench:
    """The network of one column, up and ready."""

    def __init__(self, column, stack):
        self.column = column
        how = ALL[column]
        os.environ["CULVERT_PORTS"] = how.ports
        lab = stack.enter_context(Lab("compare"))
        self.net = t.net4(lab, how.plane).configure(None, encap=how.encap).up()
        first_answer(self.net.client, t.SERVER4)
        first_answer(self.net.client, t.SERVER6)
        swan = self.net.gwa.swan
        if swan and not int(swan.children("net")[0].get("packets-out", 0)):
            raise LabError("what was sent did not go through the SA")
        self.iperf = Iperf(self.net.server)

    def run(self, name, seconds):
        """One measurement, as an event."""
        row = ROWS[name]
        to = t.SERVER6 if row.family == 6 else t.SERVER4
        if row.quantile:
            times = ping(self.net.client, to, count=int(seconds / PING_S), interval=PING_S)["times"]
            if not times:
                raise LabError("no ping was answered")
            return {"column": self.column, "row": name, "rate": quantile(times, row.quantile) / row.scale, "cycles": None}
        before = processor.busy_s()
        rate = self.iperf.run(self.net.client, to, seconds=seconds, **row.how)["bits_per_second"]
        spent = processor.busy_s() - before
        # A guest's clock of its processors is not the machine's.
        clock = None if in_guest(self.column) else processor.clock_hz()
        cost = cycles(row, rate, seconds, spent, clock)
        return {"column": self.column, "row": name, "rate": rate / row.scale, "cycles": cost}


def measure(columns, rounds, seconds):
    """Brings up every column, measures them in turns, and yields what is found. One that fails is out."""
    with contextlib.ExitStack() as stack:
        benches = {}
        for column in columns:
            own = stack.enter_context(contextlib.ExitStack())
            try:
                if why := missing(column):
                    raise LabError(why)
                benches[column] = Bench(column, own), own
                yield {"column": column, "up": True}
            except LabError as error:
                own.close()
                yield {"column": column, "skipped": str(error)}
        for _ in range(rounds):
            for row in ROWS:
                for column, (bench, own) in list(benches.items()):
                    try:
                        yield bench.run(row, seconds)
                    except LabError as error:
                        del benches[column]
                        own.close()
                        yield {"column": column, "skipped": str(error)}


def measure_in_guest(columns, rounds, seconds):
    """The same in a guest, by this program in there."""
    prefer = ROOT / "build/kernel/linux-7.2"
    if prefer.exists():
        os.environ.setdefault("CULVERT_KERNEL", str(prefer))
    if kernel_missing():
        yield from ({"column": column, "skipped": f"no guest: {kernel_missing()}"} for column in columns)
        return
    here = []
    for column in columns:
        if why := missing(column) or (ALL[column].plane == "culvert" and culvert_guest_missing()):
            yield {"column": column, "skipped": why}
        else:
            here.append(column)
    if not here:
        return
    try:
        with Lab("compare") as lab:
            # Kernels before 6.19 have one processor there.
            several = kernel_image().name == "linux-7.2" and len(os.sched_getaffinity(0)) > 1
            guest = Guest(lab, "machine", memory_mb=2048, processors=2 if several else 1).start()
            yield {"guest": guest.run("uname", "-r").stdout.strip()}
            process = guest.spawn(
                "env", f"{GUEST_MARK}=1", f"CULVERT={culvert_binary().resolve()}", PYTHON, "-B", Path(__file__).resolve(),
                "--columns", ",".join(here), "--rounds", rounds, "--seconds", seconds,
            )  # fmt: skip
            end = time.monotonic() + GUEST_PATIENCE_S + 2 * rounds * seconds * len(ROWS) * len(here)
            read = 0
            alive = True
            while alive and time.monotonic() < end:
                alive = process.alive()
                lines = process.output().split("\n")
                for line in lines[read:-1]:
                    if line.startswith("{"):
                        yield json.loads(line)
                read = len(lines) - 1
                time.sleep(0.2)
            if alive or process.wait(5):
                raise LabError(f"the run in the guest: {process.output()[-1000:]}")
            guest.stop()
    except LabError as error:
        # What a kernel said before it died is many lines.
        why = str(error).partition("\n")[0]
        yield from ({"column": column, "skipped": why} for column in here)


def tell(event, to):
    """Progress, a line for each event."""
    column = event.get("column", "")
    if "guest" in event:
        print(f"guest with Linux {event['guest']}", file=to, flush=True)
    elif "up" in event:
        print(f"{column:18}up", file=to, flush=True)
    elif "skipped" in event:
        print(f"{column:18}left out: {event['skipped'][:300]}", file=to, flush=True)
    else:
        row = ROWS[event["row"]]
        print(f"{column:18}{row.name:22}{number(event['rate']):>7} {row.unit}", file=to, flush=True)


def facts(args, release):
    """What the figures were measured with."""

    def version(package):
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    build = "debug build" if "debug" in culvert_binary().parts else "release build"
    return {
        "date": time.strftime("%Y-%m-%d"), "processor": processor.model(), "cores": len(os.sched_getaffinity(0)),
        "clock_hz": processor.clock_hz(), "kernel": os.uname().release, "guest_kernel": release, "culvert": build,
        "strongswan": version("charon-systemd"), "wireguard_go": wireguard.version(),
        "rounds": args.rounds, "seconds": args.seconds,
    }  # fmt: skip


def summary(figures, columns, about):
    """The tables, and how they are to be read."""
    yield (
        f"{about['date']}, {about['processor']}, {about['cores']} cores, Linux {about['kernel']}, culvert {about['culvert']},"
        f" strongSwan {about['strongswan']}, wireguard-go {about['wireguard_go']}: medians of {about['rounds']} rounds of"
        f" {about['seconds']:g} s. Cycles are of the whole machine, iperf3 too: time in /proc/stat at"
        f" {(about['clock_hz'] or 0) / 1e9:.2f} GHz, by what arrived."
    )
    for guest in (False, True):
        if text := figures.table([column for column in columns if in_guest(column) == guest]):
            if guest:
                yield f"In a guest (User Mode Linux {about['guest_kernel']}): to be compared with each other alone."
            yield text
    for column, why in figures.skipped.items():
        yield f"left out: {figures.titles[column]}: {why}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2, help="length of each iperf3 run (default: 2)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--columns", default=",".join(COLUMNS), help=f"some of {', '.join(ALL)}")
    parser.add_argument("--json", action="store_true", help="every figure as JSON; progress goes to standard error")
    args = parser.parse_args()
    columns = args.columns.split(",")
    if not set(columns) <= set(ALL):
        parser.error(f"--columns: some of {', '.join(ALL)}")
    if args.rounds < 1 or args.seconds <= 0:
        parser.error("--rounds and --seconds: more than 0")
    if os.environ.get(GUEST_MARK):
        for event in measure(columns, args.rounds, args.seconds):
            print(json.dumps(event), flush=True)
        return 0
    if os.geteuid():
        print("compare: this needs root", file=sys.stderr)
        return 2
    interruptible()
    sweep()
    figures = Figures({column: ALL[column].title for column in columns})
    progress = sys.stderr if args.json else sys.stdout
    release = None
    outside = [column for column in columns if not in_guest(column)]
    inside = [column for column in columns if in_guest(column)]
    try:
        for of, how in ((outside, measure), (inside, measure_in_guest)):
            for event in how(of, args.rounds, args.seconds) if of else ():
                tell(event, progress)
                release = event.get("guest", release)
                if "row" in event or "skipped" in event:
                    figures.add(event)
    except KeyboardInterrupt:
        print("compare: interrupted, everything is removed", file=sys.stderr)
        return 130
    about = facts(args, release)
    if args.json:
        print(json.dumps({**about, "columns": figures.whole()}, indent=1))
    else:
        for text in summary(figures, columns, about):
            print(f"\n{text}")
    return 0 if any(figures.shown(columns)) else 1


if __name__ == "__main__":
    sys.exit(main())
