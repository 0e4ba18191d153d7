"""`culvert doctor` on a machine that is spoilt, and what `--fix` makes of it."""

import json
import os
import pty
import subprocess

from lab.base import PATIENCE_S
from lab.planes import culvert_binary

#: As a daemon that was killed has left them, whose configuration had another interface and preference.
ORPHANS = (
    ("pref", "207", "not", "iif", "culvert7", "table", "217", "protocol", "219"),
    ("pref", "208", "nop", "ipproto", "udp", "protocol", "219"),
)
RP_FILTER = "net.ipv4.conf.wan.rp_filter"


def spoil(gateway):
    host = gateway.host
    host.sysctl(RP_FILTER, 1)
    host.sysctl("net.ipv4.ip_forward", 0)
    for family in ("-4", "-6"):
        for rule in ORPHANS:
            host.ip(family, "rule", "add", *rule)
    # Somebody else's, of which culvert only tells.
    host.ip("rule", "add", "pref", "100", "to", "10.98.0.0/16", "lookup", "main")


def read(host, key):
    with host.entered(), open("/proc/sys/" + key.replace(".", "/"), encoding="ascii") as file:
        return int(file.read())


def state(gateway):
    """What `--fix` may change, and what it may not."""
    host = gateway.host
    rules = host.ip("rule").stdout + host.ip("-6", "rule").stdout
    untouched = [
        host.ip("xfrm", "policy").stdout,
        host.run("nft", "list", "ruleset").stdout,
        gateway.daemon.exec("ip", "xfrm", "policy").stdout,
        gateway.daemon.exec("ip", "xfrm", "state").stdout,
        host.ip("route", "show", "table", "all").stdout,
        read(host, "net.ipv4.ip_forward"),
    ]
    return rules, read(host, RP_FILTER), untouched


def doctor(gateway, *args):
    return gateway.daemon.culvert("doctor", "--config", gateway.daemon.config, *args, check=False)


def on_a_terminal(gateway, answer):
    """`doctor --fix` with somebody to ask, who answers."""
    ours, its = pty.openpty()
    daemon = gateway.daemon
    argv = (culvert_binary(), "--name", daemon.name, "doctor", "--config", daemon.config, "--fix")
    os.write(ours, answer.encode())
    try:
        return subprocess.run(
            gateway.host.argv(*argv), stdin=its, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    finally:
        os.close(ours)
        os.close(its)


def test_what_is_safe_is_mended_and_nothing_else(network):
    gateway = network().up().gwa
    spoil(gateway)
    before = state(gateway)
    found = {f["fix"]: f for f in json.loads(doctor(gateway, "--json").stdout) if f["fix"]}
    assert set(found) == {
        f"sysctl -w {RP_FILTER}=2",
        *(
            f"ip {family}rule del {rule} protocol 219"
            for family in ("", "-6 ")
            for rule in ("pref 207 not iif culvert7 table 217", "pref 208 ipproto 17 nop")
        ),
    }
    # Nobody to ask; somebody who does not want it.
    done = doctor(gateway, "--fix")
    assert done.returncode == 1 and "--yes" in done.stderr, done
    assert all(command in done.stdout for command in found), done
    done = on_a_terminal(gateway, "n\n")
    assert done.returncode == 1 and "nothing was changed" in done.stderr, done
    assert state(gateway) == before

    done = doctor(gateway, "--fix", "--yes", "--json")
    report = json.loads(done.stdout)
    assert {fix["command"]: fix["result"] for fix in report["fixes"]} == dict.fromkeys(found, "mended"), done
    rules, rp_filter, untouched = state(gateway)
    assert rp_filter == 2 and untouched == before[2]
    gone = [line for line in before[0].splitlines() if "culvert7" in line or line.startswith("208:")]
    assert len(gone) == 4, before[0]
    assert rules.splitlines() == [line for line in before[0].splitlines() if line not in gone]
    # What a person has to decide is told as before.
    left = {f["check"] for f in report["findings"] if f["result"] != "ok"}
    assert {"rules", "forwarding"} <= left and "rp_filter" not in left, report
    assert "Nothing was changed" in doctor(gateway, "--fix").stdout


def test_one_who_agrees(network):
    gateway = network().start().gwa
    gateway.host.sysctl(RP_FILTER, 1)
    done = on_a_terminal(gateway, "y\n")
    assert f"mended     sysctl -w {RP_FILTER}=2" in done.stdout, done
    assert read(gateway.host, RP_FILTER) == 2
