#!/usr/bin/python3
"""culvert's demo: four hosts, two gateways, one tunnel, and what it carries.

    make demo            shows everything and removes it again
    make demo KEEP=1     leaves the network up and says what to try
    demo/demo.py --clean removes a network that was kept

The hosts are network namespaces; nothing else on this machine is touched. For comparison the same
network is measured with plain kernel forwarding and with strongSwan's own user-space ESP.
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
from lab.base import interruptible, sweep  # noqa: E402
from lab.capture import Capture, assert_only_protected, kinds  # noqa: E402
from lab.planes import culvert_binary, culvert_missing  # noqa: E402
from lab.traffic import Iperf, first_answer, ping  # noqa: E402

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ

#: What each data plane is called in the tables.
TITLES = {
    "plain": "kernel, no IPsec", "libipsec": "strongSwan libipsec", "culvert": "culvert", "culvert-udp": "culvert, encap = yes",
}  # fmt: skip

#: Throughput rows: label, target, options for iperf3.
RUNS = [
    ("TCP v4  client > server", t.SERVER4, {}),
    ("TCP v4  server > client", t.SERVER4, {"reverse": True}),
    ("TCP v6  client > server", t.SERVER6, {}),
    ("UDP v4  client > server", t.SERVER4, {"udp": "0", "length": 1300}),
    ("UDP v4  server > client", t.SERVER4, {"udp": "0", "length": 1300, "reverse": True}),
]

PICTURE = """
   client            gateway A          the wire          gateway B            server
  10.1.0.10 ------ .1  lan | wan .1 ---- 192.0.2.0/24 ---- .2 wan | lan  .1 ------ 10.2.0.10
  2001:db8:1::10           |         2001:db8:f::/64              |        2001:db8:2::10
"""


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def section(title):
    print("\n" + paint("1;36", f"== {title} ") + paint("36", "=" * max(0, 76 - len(title))))


def say(text):
    print(f"  {text}", flush=True)


def fact(label, value):
    print(f"  {label:<34}{value}", flush=True)


def table(head, rows):
    """Prints rows in columns: the first to the left, the rest to the right."""
    cells = [[str(c) for c in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for number, row in enumerate(cells):
        line = "  " + "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print(paint("1", line) if number == 0 else line)
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


def command(daemon, *args):
    """Shows one of culvert's own commands and its output."""
    print("\n  " + paint("1", f"$ culvert {' '.join(args)}"))
    done = daemon.culvert(*args, check=False)
    for line in (done.stdout or done.stderr).rstrip().splitlines():
        print(f"    {line}")


def ping_row(host, to, label):
    result = ping(host, to, count=20, interval=0.02)
    times = result["times"]
    mean = f"{sum(times) / len(times) * 1e3:.2f} ms" if times else "-"
    lost = result["sent"] - result["received"]
    return (label, result["sent"], lost, result["duplicates"], mean)


def measure(net, seconds):
    """Runs iperf3 both ways; bits per second by row."""
    figures = {}
    iperf = Iperf(net.server)
    for label, to, how in RUNS:
        figures[label] = iperf.run(net.client, to, seconds=seconds, **how)
    iperf.stop()
    return figures


def bring_up(plane, keep=False, encap=False):
    """Makes the network, starts the gateways; (lab, network)."""
    lab = Lab("demo", keep=keep)
    try:
        is_udp = encap or plane == "culvert-udp"
        net = t.net4(lab, plane.removesuffix("-udp")).configure(None, encap="yes" if is_udp else "no").start()
        lab.network = net
        return lab, net
    except BaseException:
        lab.close()
        raise


def negotiate(net):
    """swanctl --initiate, then the first answer through the tunnel; seconds of both."""
    start = time.monotonic()
    net.gwa.swan.initiate()
    negotiated = time.monotonic() - start
    first_answer(net.client, t.SERVER4)
    return negotiated, time.monotonic() - start


def show(plane, net, seconds, figures):
    """The full tour with one data plane."""
    section(f"Tunnel: {TITLES[plane]}")
    wire = Capture(net.mid, "west", snap=128)
    negotiated, first = negotiate(net)
    figures["first"] = first
    say("gwa$ swanctl --initiate --child net")
    fact("negotiated (IKEv2, X25519, PSK)", f"{negotiated * 1e3:.0f} ms")
    fact("first packet through the tunnel", f"{first * 1e3:.0f} ms after --initiate")

    section("Pings across the tunnel")
    rows = [
        ping_row(net.client, t.SERVER4, "client > server, IPv4"),
        ping_row(net.client, t.SERVER6, "client > server, IPv6"),
        ping_row(net.server, t.CLIENT4, "server > client, IPv4"),
        ping_row(net.gwa.host, t.LAN_B4, "gateway A > gateway B's LAN"),
    ]
    table(("", "sent", "lost", "doubled", "mean time"), rows)
    figures["lost"] = sum(row[2] for row in rows)

    section("The wire between the gateways (tcpdump)")
    frames = wire.stop()
    names = {
        "esp": "ESP", "esp-udp": "ESP in UDP port 4500", "ike": "IKE", "arp": "ARP",
        "nd": "IPv6 neighbour discovery", "icmp": "ICMP of the gateways",
    }  # fmt: skip
    seen = kinds(frames)
    table(("what", "frames"), [(names.get(k, k), n) for k, n in sorted(seen.items())])
    try:
        assert_only_protected(frames)
        say(paint("32", "nothing in the clear: ") + "IKE, ESP and neighbour discovery alone")
        figures["clear"] = "no"
    except AssertionError as leak:
        say(paint("1;31", f"LEAK: {leak}"))
        figures["clear"] = "YES"

    section("iperf3 through the tunnel")
    figures["runs"] = measure(net, seconds)
    table(
        ("", "Gbit/s", "lost"),
        [(label, rate(r), f"{r.get('lost_percent', 0):.1f} %" if "UDP" in label else "-")
         for label, r in figures["runs"].items()],
    )  # fmt: skip
    figures["rss"] = net.gwa.plane.rss_bytes(net.gwa)
    daemon = net.gwa.daemon
    if daemon:
        figures["ports"] = by_what(daemon)
        section("What culvert says (gateway A)")
        for args in (["status"], ["port"], ["sa"], ["policy"], ["stats"], ["drops"]):
            command(daemon, *args)
        print()
        say("The same SAs, for `ip xfrm state` and `swanctl --list-sas`:")
        child = net.gwa.swan.children("net")[0]
        fact("swanctl: packets out / in", f"{child['packets-out']} / {child['packets-in']}")
        figures["balance"] = daemon.stats()["balance"]


def by_what(daemon):
    """What the ports work by, and why, where culvert has chosen that: as `culvert port` ends."""
    ports = [port for port in daemon.json("port") if port["kind"] in ("af-xdp", "packet")]
    names = {"af-xdp": "AF_XDP", "packet": "packet sockets"}
    how = {f"{names[port['kind']]} ({port.get('chosen', 'as asked for')})" for port in ports}
    return "; ".join(sorted(how)) or "no ports"


def rate(result):
    return f"{result['bits_per_second'] / 1e9:.2f}"


def summary(results):
    section("Summary: one run, the same four hosts")
    planes = list(results)
    head = ["", *(TITLES[p] for p in planes)]
    both = "culvert" in results and "libipsec" in results
    if both:
        head.append("culvert / libipsec")
    rows = []
    for label, _, _ in RUNS:
        row = [f"{label}, Gbit/s", *(rate(results[p]["runs"][label]) for p in planes)]
        if both:
            ours = results["culvert"]["runs"][label]["bits_per_second"]
            theirs = results["libipsec"]["runs"][label]["bits_per_second"]
            row.append(f"{ours / theirs:.1f} x" if theirs else "-")
        rows.append(row)

    def other(label, key, form):
        row = [label, *(form(results[p][key]) if results[p].get(key) is not None else "-"
                        for p in planes)]  # fmt: skip
        rows.append(row + [""] if both else row)

    other("--initiate to the first packet", "first", lambda s: f"{s * 1e3:.0f} ms")
    other("memory of the data path (RSS)", "rss", lambda b: f"{b / 2**20:.0f} MiB" if b else "-")
    other("pings lost", "lost", str)
    other("cleartext seen on the wire", "clear", str)
    table(head, rows)
    cores = len(os.sched_getaffinity(0))
    print()
    say(f"All hosts, both gateways and iperf3 share {cores} cores: compare columns, not machines.")
    if "culvert" in results and "ports" in results["culvert"]:
        say(f"culvert's ports: {results['culvert']['ports']}.")
    if "culvert" in results and "culvert-udp" in results:
        gain = [results["culvert-udp"]["runs"][label]["bits_per_second"] / results["culvert"]["runs"][label]["bits_per_second"]
                for label, _, _ in RUNS if label.startswith("TCP")]  # fmt: skip
        say(f"encap = yes in swanctl.conf of one end (ESP in UDP, as behind a NAT) brings {statistics.median(gain):.1f} x for TCP here.")
    if "culvert" in results and results["culvert"].get("balance") == 0:
        say("Packets received by gateway A equal the sum of their outcomes.")


def what_to_try(lab, net):
    section("Left up for you")
    say("Run as root. Each host is a network namespace:")
    for host in lab.hosts.values():
        fact(f"  {host.name}", f"ip netns exec {host.ns} bash")
    daemon = net.gwa.daemon
    swanctl = f"ip netns exec {net.gwa.host.ns} swanctl"
    uri = f"--uri unix://{net.gwa.swan.vici}"
    print()
    say("Things to try:")
    lines = [
        f"ip netns exec {net.client.ns} ping {t.SERVER4}",
        f"{swanctl} --list-sas {uri}",
        f"{swanctl} --rekey --child net {uri}",
        f"ip netns exec {net.mid.ns} tcpdump -n -i west",
    ]
    if daemon:
        prefix = f"ip netns exec {net.gwa.host.ns} {culvert_binary()} --name {daemon.name}"
        lines += [
            f"{prefix} sa",
            f"{prefix} drops",
            f"{prefix} exec -- ip -s xfrm state",
            f"kill -9 {daemon.process.pid}    # and watch the wire: nothing in clear",
        ]
    for line in lines:
        say(f"  {line}")
    print()
    say(f"Remove it all: {paint('1', 'python3 demo/demo.py --clean')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the network up")
    parser.add_argument("--clean", action="store_true", help="remove a network that was kept")
    parser.add_argument("--seconds", type=int, default=2, help="length of each iperf3 run")
    parser.add_argument(
        "--planes", help="data planes, the first is shown in full; some of culvert, culvert-udp (with encap = yes), plain, libipsec (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--ports", default=os.environ.get("CULVERT_PORTS", "auto"),
        help="culvert's ports: auto, xdp, packet, or such as lan=packet; unprivileged: none, and ESP in UDP (default: auto)",
    )  # fmt: skip
    parser.add_argument("--encap", action="store_true", help="ESP in UDP, as behind a NAT")
    args = parser.parse_args()
    os.environ["CULVERT_PORTS"] = args.ports
    args.encap |= args.ports == "unprivileged"
    if args.clean:
        print(f"removed {sweep(kept=True)} namespaces")
        return 0
    every = ["culvert", *([] if args.encap else ["culvert-udp"]), "plain", "libipsec"]
    planes = args.planes.split(",") if args.planes else every
    if not set(planes) <= set(TITLES) or not planes or planes[0] == "plain":
        parser.error(f"--planes: some of {', '.join(TITLES)}; the first with IPsec")
    if {"culvert", "culvert-udp"} & set(planes) and culvert_missing():
        print(f"demo: {culvert_missing()}", file=sys.stderr)
        return 1
    interruptible()
    sweep()

    results = {plane: {} for plane in planes}
    lab = None
    try:
        section("Four hosts, two of them gateways")
        print(PICTURE.rstrip("\n"))
        first = planes[0]
        say("")
        say(f"Data plane of both gateways: {TITLES[first]}. IKE: the distribution's strongSwan.")
        lab, net = bring_up(first, keep=args.keep, encap=args.encap)
        show(first, net, args.seconds, results[first])
        if not args.keep:
            lab.close()
        for plane in planes[1:]:
            section(f"For comparison: {TITLES[plane]}")
            with bring_up(plane, encap=args.encap)[0] as other:
                other_net = other.network
                if other_net.gwa.swan:
                    results[plane]["first"] = negotiate(other_net)[1]
                results[plane]["runs"] = measure(other_net, args.seconds)
                results[plane]["rss"] = other_net.gwa.plane.rss_bytes(other_net.gwa)
            for label, result in results[plane]["runs"].items():
                fact(label, f"{rate(result)} Gbit/s")
        summary(results)
        if args.keep:
            what_to_try(lab, net)
            lab.release()
        else:
            print()
            say("Everything is removed again.")
    except KeyboardInterrupt:
        print("\n  interrupted: removing everything")
        return 130
    except LabError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    finally:
        if lab is not None:
            lab.close()
    good = results[first]
    return 0 if good["lost"] == 0 and good["clear"] == "no" else 1


if __name__ == "__main__":
    sys.exit(main())
