#!/usr/bin/python3
"""Small cells: an NR and an LTE modem behind one backhaul, in the four ways to bring their traffic to the core network.

    make demo CELL=1          one of the deployments: 1, 2, 3, 4, 4-backhaul; CELL=all: one after the other
    make demo CELL=1 KEEP=1   leaves it up and says what to try

What each is, with its configuration: docs/guides/small-cell.md. The hosts are network namespaces. Both modems have a user plane (GTP-U) and
programs for operations (TCP, DNS). The picture's numbers are packets that were captured or counted: `>` to the core network, `<` back.
"""

import argparse
import sys
import textwrap

from demo import fact, paint, say, section, table

from lab import Lab, LabError
from lab.base import interruptible, sweep
from lab.cells import deployments, picture
from lab.planes import culvert_binary, culvert_missing


def milliseconds(seconds):
    return "-" if seconds is None else f"{seconds * 1e3:.1f} ms"


def show(run):
    """What was seen; whether all that the deployment promises held."""
    print()
    for line in picture.draw(run.deployment.name, picture.Ways(run)):
        print(line)
    print()
    claims = run.claims()
    for claim in claims:
        say(f"{paint('32', 'yes') if claim.holds else paint('1;31', 'NO ')} {claim.text}")
        for line in textwrap.wrap(claim.seen, 88):
            say(f"    {line}")
    print()
    rows = [
        (name, e.lost, milliseconds(e.first_s), milliseconds(e.median_s), *told)
        for name, e, told in ((name, run.exchanges[name][2], learnt(run, name)) for name in run.exchanges)
    ]
    table(("GTP-U", "lost", "first packet", "later ones", "in culvert flows", "as"), rows)
    say("First and later: until the answer is there. `culvert flows` tells every 100 ms.")
    return all(claim.holds for claim in claims)


def learnt(run, name):
    """After how long `culvert flows` of the NR modem told a flow, and what became of it."""
    source, to, _ = run.exchanges[name]
    # A downlink is there since the uplink's answers.
    begun = min(exchange.begun for a, b, exchange in run.exchanges.values() if {a, b} == {source, to})
    found = run.flows.known(source, to, begun)
    return (milliseconds(found[0]), found[1]) if found else ("-", "not culvert's")


def deploy(name, keep):
    """Brings one up, uses it and removes it; whether all held."""
    deployment = deployments.DEPLOYMENTS[name]
    section(f"Deployment {name}: {deployment.title}")
    for line in textwrap.wrap(deployment.says, 96):
        say(line)
    lab = Lab("cells", keep=keep)
    try:
        run = deployments.bring_up(lab, name)
        print()
        for child, seconds in run.negotiated.items():
            fact(f"swanctl --initiate --child {child}", milliseconds(seconds))
        is_good = show(deployments.traffic(run))
        if keep:
            what_to_try(run)
            lab.release()
        return is_good
    finally:
        lab.close()


def what_to_try(run):
    net = run.net
    section("Left up for you")
    say("Run as root. The modems' user planes ended with the demo.")
    prefix = f"ip netns exec {net.nr.host.ns} {culvert_binary()} --name {net.nr.daemon.name}"
    for line in (
        f"{prefix} sa",
        f"{prefix} flows",
        f"{prefix} port",
        f"ip netns exec {net.nr.host.ns} swanctl --list-sas --uri unix://{net.nr.swan.vici}",
        f"ip netns exec {net.router.ns} tcpdump -n -i cell",
        f"ip netns exec {net.lte_host.ns} ping -I {run.deployment.lte_address} 10.60.2.2",
    ):
        say(f"  {line}")
    print()
    say(f"Remove it all: {paint('1', 'python3 demo/demo.py --clean')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("deployment", choices=[*deployments.DEPLOYMENTS, "all"], help="which of them")
    parser.add_argument("--keep", action="store_true", help="leave it up (the last one)")
    args = parser.parse_args()
    if culvert_missing():
        print(f"demo: {culvert_missing()}", file=sys.stderr)
        return 1
    interruptible()
    sweep()
    names = list(deployments.DEPLOYMENTS) if args.deployment == "all" else [args.deployment]
    try:
        good = [deploy(name, args.keep and name == names[-1]) for name in names]
    except KeyboardInterrupt:
        print("\n  interrupted: everything is removed")
        return 130
    except LabError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    if not args.keep:
        print()
        say("Everything is removed again.")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
