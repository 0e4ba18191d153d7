#!/usr/bin/python3
"""culvert's demo with one gateway's SAs in the gateway in hardware, simulated clock cycle by clock cycle.

    make demo DEVICE=rtl          shows everything and removes it again
    make demo DEVICE=rtl KEEP=1   leaves the network up

The hosts of `make demo`. Gateway A runs strongSwan 6, which asks for packet offload; its SAs and policies are in the
simulated hardware. Gateway B is a plain culvert. What either has counted is compared.
"""

import argparse
import sys
import time

from demo import PICTURE, command, fact, negotiate, paint, ping_row, say, section, table, what_to_try

from lab import Lab, LabError, charon6, rtl, topology as t
from lab.base import interruptible, sweep
from lab.capture import Capture, IvRecord, assert_only_protected
from lab.planes import culvert_missing
from lab.traffic import Iperf, Stream


def bring_up(keep):
    lab = Lab("demo", keep=keep)
    try:
        net = t.net4(lab, rtl.PLANE).configure(rtl.FOLDER, remote_b=t.WAN_A4)
        return lab, rtl.in_hardware(net).start()
    except BaseException:
        lab.close()
        raise


def traffic(net, seconds):
    """Pings, a UDP stream, TCP; packets lost."""
    section("Through the simulated hardware")
    rows = [
        ping_row(net.client, t.SERVER4, "ping client > server, IPv4"),
        ping_row(net.client, t.SERVER6, "ping client > server, IPv6"),
        ping_row(net.server, t.CLIENT4, "ping server > client, IPv4"),
    ]
    stream = Stream(net.client, net.server, t.SERVER4, rate=50, count=50 * seconds, most=4)
    stream.wait()
    report = stream.finish()
    lost = report["there"]["lost"] + report["back"]["lost"]
    doubled = report["there"]["duplicated"] + report["back"]["duplicated"]
    rows.append(("UDP stream there and back", report["sent"], lost, doubled, "-"))
    table(("", "sent", "lost", "doubled", "mean time"), rows)
    iperf = Iperf(net.server)
    result = iperf.run(net.client, t.SERVER4, seconds=seconds)
    iperf.stop()
    print()
    fact("TCP client > server", f"{result['bits_per_second'] / 1e3:.0f} kbit/s, {result['bytes'] >> 10} KiB arrived")
    return sum(row[2] for row in rows)


def resets(net):
    """Resets of the hardware while a stream runs; packets lost."""
    section("Five resets under traffic")
    stream = Stream(net.client, net.server, t.SERVER4, rate=50, most=4)
    for _ in range(5):
        net.gwa.daemon.culvert("device", "--reset", "rtl0")
        time.sleep(0.3)
    report = stream.finish()
    lost = report["there"]["lost"] + report["back"]["lost"]
    say("Its SAs seal nothing until their states, read before the reset, are there again.")
    fact("packets sent and answered", f"{report['sent']}, {lost} of them lost")
    return lost


def ends(net):
    """What both ends have counted; whether it is the same."""
    section("What the hardware has counted, and the peer")
    (sealed, there), (back, opened) = rtl.both_ends(net)
    table(
        ("packets", "hardware of gateway A", "SAs of gateway B"),
        [("A > B, sealed and opened", sealed, there), ("B > A, opened and sealed", opened, back)],
    )
    for args in (["device"], ["sa"]):
        command(net.gwa.daemon, *args)
    return (sealed, opened) == (there, back)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the network up")
    parser.add_argument("--seconds", type=int, default=3, help="length of each stream")
    args = parser.parse_args()
    for missing in (culvert_missing(), charon6.missing(), rtl.missing()):
        if missing:
            print(f"demo: {missing}", file=sys.stderr)
            return 1
    interruptible()
    sweep()
    lab = None
    try:
        section("Four hosts, two of them gateways; gateway A's IPsec in hardware")
        print(PICTURE.rstrip("\n"))
        lab, net = bring_up(args.keep)
        wire = Capture(net.mid, "west")
        negotiated, _ = negotiate(net)
        say("")
        fact("negotiated", f"{negotiated * 1e3:.0f} ms")
        lost = traffic(net, args.seconds)
        is_same = ends(net)
        lost += resets(net)
        section("The wire between the gateways (tcpdump)")
        frames = wire.stop()
        assert_only_protected(frames)
        IvRecord().add(frames).assert_no_repeat()
        say(paint("32", "nothing in the clear, no number twice"))
        if args.keep:
            what_to_try(lab, net)
            lab.release()
        else:
            print()
            say("Everything is removed again.")
    except KeyboardInterrupt:
        print("\n  interrupted: removing everything")
        return 130
    except (LabError, AssertionError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    finally:
        if lab is not None:
            lab.close()
    return 0 if lost == 0 and is_same else 1


if __name__ == "__main__":
    sys.exit(main())
