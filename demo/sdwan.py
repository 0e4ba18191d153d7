#!/usr/bin/python3
"""SD-WAN: a branch with three uplinks and a data centre, whose uplinks become bad by script.

    make demo SDWAN=1            shows everything and removes it again
    make demo SDWAN=1 KEEP=1     leaves the network up and says what to try

The hosts are network namespaces; a program on the wire delays, loses and cuts what goes by an uplink. Ten calls of 50 packets a second go
through each event twice: with `[[steer]]`, and as the routes lead; one of them is looked at. Its score is that of the E-model (ITU-T G.107): 4.4
is best, below 3.1 hardly anybody is satisfied.
"""

import argparse
import sys
import time

from demo import command, fact, paint, say, section, table

from lab import Lab, LabError, topology as t
from lab.base import interruptible, sweep, wait_for
from lab.branch import UPLINKS, branch, impaired
from lab.emodel import mos
from lab.planes import culvert_binary, culvert_missing
from lab.traffic import Stream

PICTURE = """
   client            branch                                  data centre          server
  10.1.0.10 ------ .1  lan | wan ===[ mpls     198.51.100.0/24 ]=== wan | lan  .1 ------ 10.2.0.10
                           |     ===[ internet 203.0.113.0/24  ]===     |
                           |     ===[ lte      198.18.3.0/24   ]===     |
"""

#: A dead path is seen in 200 to 250 ms, and by the packets of ten calls loss of 5 % within a second.
PROBES = "interval_ms = 50\nmisses = 4\nwindow = 40\ntimeout_ms = 500\nhold_s = 1\ncount_traffic = true"

RULES = """
[[steer]]
name = "voice"
paths = ["mpls", "internet", "lte"]
max_delay_ms = 150
max_jitter_ms = 40
max_loss_percent = 2
return_after_s = 3
"""

#: What each uplink is like by itself.
USUAL = {"mpls": {"delay_ms": 8}, "internet": {"delay_ms": 15}, "lte": {"delay_ms": 30, "jitter_ms": 5}}

#: What happens: in words, and what it does to uplinks.
EVENTS = (
    ("mpls goes dead", {"mpls": {"cut": True}}),
    ("mpls is back", {}),
    ("mpls loses 10 %", {"mpls": {"delay_ms": 8, "loss": 0.1}}),
    ("mpls is well again", {}),
    ("mpls loses 5 %", {"mpls": {"delay_ms": 8, "loss": 0.05}}),
    ("mpls is well again", {}),
    ("mpls takes 200 ms", {"mpls": {"delay_ms": 200}}),
    ("mpls is well again", {}),
    ("mpls and internet go dead", {"mpls": {"cut": True}, "internet": {"cut": True}}),
)

#: How long each event lasts, in seconds: a path that is well again has its flows back within it.
LASTS_S = 10

#: Packets of a call a second, and what its ends add to the delay: 20 ms of speech a packet, 40 ms of buffer.
RATE, ENDS_MS = 50, 60

#: Calls at a time, of which one is looked at.
CALLS = 10


def taken(net):
    """The path that voice takes from the branch; the first without rules."""
    rules = net.gwa.daemon.json("steer")
    if not rules:
        return UPLINKS[0].name
    return next((path["name"] for path in rules[0]["paths"] if path["weight"]), None)


def delay_ms(name, rules):
    """One way by an uplink."""
    return {**USUAL, **rules}[name].get("delay_ms", 0)


def happen(net, wire, rules):
    """One event under a call: where voice goes after it, after how long, and what of it was lost."""
    before = taken(net)
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE)
    time.sleep(0.5)
    begun = time.monotonic()
    wire.set(*impaired(**{**USUAL, **rules}))
    moved = None
    while time.monotonic() < begun + LASTS_S:
        now = taken(net)
        if moved is None and now != before:
            moved = time.monotonic() - begun
        time.sleep(0.02)
    report = stream.finish()
    lost = report["there"]["lost"]
    percent = 100 * lost / report["sent"]
    score = mos(ENDS_MS + delay_ms(taken(net), rules), percent)
    return {
        "path": taken(net), "moved": moved, "sent": report["sent"], "lost": lost,
        "doubled": report["there"]["duplicated"], "score": score,
    }  # fmt: skip


def story(rules, keep=False):
    """All events in a network with these rules; what each did, and the network's lab."""
    lab = Lab("sdwan", keep=keep)
    try:
        net = t.net4(lab, "culvert").configure(None)
        wire = branch(net, path=PROBES, config=rules)
        lab.network = net
        wire.set(*impaired(**USUAL))
        for gateway in net.gateways():
            paths = lambda gateway=gateway: {path["state"] for path in gateway.daemon.json("path")["paths"]}  # noqa: E731
            wait_for("measured paths", lambda paths=paths: paths() == {"good"})
        wait_for("voice by the preferred path", lambda: taken(net) == UPLINKS[0].name)
        others = Stream(net.client, net.server, t.SERVER4, rate=(CALLS - 1) * RATE, port=7010)
        seen = []
        for words, rules_of_event in EVENTS:
            seen.append(happen(net, wire, rules_of_event))
            way = f"voice by {seen[-1]['path']}, {seen[-1]['lost']} of {seen[-1]['sent']} packets lost"
            fact(words, way)
        others.finish()
        return seen, lab
    except BaseException:
        lab.close()
        raise


def row(words, steered, led):
    moved = "-" if steered["moved"] is None else f"{steered['moved']:.2f} s"
    return (
        words, steered["path"], moved, f"{steered['lost']} of {steered['sent']}", steered["doubled"],
        f"{steered['score']:.1f}", f"{led['lost']} of {led['sent']}", f"{led['score']:.1f}",
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave it up")
    args = parser.parse_args()
    if culvert_missing():
        print(f"demo: {culvert_missing()}", file=sys.stderr)
        return 1
    interruptible()
    sweep()
    lab = None
    try:
        section("A branch with three uplinks")
        print(PICTURE)
        section("As the routes lead: everything by mpls")
        led, lab = story("")
        lab.close()
        section("With path selection")
        steered, lab = story(RULES, keep=args.keep)
        command(lab.network.gwa.daemon, "path")
        command(lab.network.gwa.daemon, "steer")
        section("What a call went through")
        print()
        table(
            ("", "goes by", "after", "lost", "doubled", "score", "lost without", "score without"),
            [row(words, *both) for (words, _), *both in zip(EVENTS, steered, led, strict=True)],
        )
        print()
        say("After: until `culvert steer` shows the other path, by a look each 20 ms. Score: E-model of the whole event.")
        if args.keep:
            what_to_try(lab.network)
            lab.release()
        else:
            lab.close()
            print()
            say("Everything is removed again.")
        return 0
    except KeyboardInterrupt:
        print("\n  interrupted: everything is removed")
        return 130
    except LabError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    finally:
        if lab and not args.keep:
            lab.close()


def what_to_try(net):
    section("Left up for you")
    prefix = f"ip netns exec {net.gwa.host.ns} {culvert_binary()} --name {net.gwa.daemon.name}"
    for line in (
        f"watch -n 0.5 {prefix} path", f"watch -n 0.5 {prefix} steer", f"{prefix} events",
        f"ip netns exec {net.client.ns} ping {t.SERVER4}",
        f"ip netns exec {net.gwa.host.ns} ip link set mpls down",
    ):  # fmt: skip
        say(f"  {line}")
    print()
    say(f"Remove it all: {paint('1', 'python3 demo/demo.py --clean')}")


if __name__ == "__main__":
    sys.exit(main())
