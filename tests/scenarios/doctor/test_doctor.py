"""`culvert doctor` on a machine that is spoilt, and what `--fix` makes of it."""

import json
import os
import pty
import signal
import subprocess

from lab import topology as t
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


def bad(gateway, *checks):
    """What is not well of some checks."""
    found = json.loads(doctor(gateway, "--json").stdout)
    return [f for f in found if f["check"] in checks and f["result"] != "ok"]


def test_what_is_wrong_with_sas_and_policies(network):
    """Nothing is said of a tunnel as strongSwan makes it; each fault is told, with what mends it, and no longer once it is."""
    net = network().up()
    gateway = net.gwa
    checks = ("path", "lifetimes", "policy")
    assert not bad(gateway, *checks)

    # Packets of 1280 bytes do not fit, and IPv6 is protected.
    gateway.host.ip("route", "add", t.WAN_B4, "dev", "wan", "mtu", "1300")
    [found] = bad(gateway, "path")
    assert t.WAN_B4 in found["seen"] and "fragments" in found["why"] and "ip route get" in found["next"], found
    gateway.host.ip("route", "del", t.WAN_B4)
    assert not bad(gateway, "path")

    # Eight SAs that are due at once, and a ninth that is not: one program makes them, within a second of each other.
    key = f"aead rfc4106(gcm(aes)) 0x{'11' * 20} 128"
    lines = [
        f"xfrm state add src {t.WAN_A4} dst 192.0.2.77 proto esp spi {0x8000 + n:#x} mode tunnel reqid {80 + n} {key} "
        f"limit time-soft {100 if n < 8 else 500} limit time-hard 1000"
        for n in range(9)
    ]
    batch = net.lab.tmp / "sas.xfrm"
    batch.write_text("\n".join(lines) + "\n")
    gateway.daemon.exec("ip", "-batch", batch)
    [found] = bad(gateway, "lifetimes")
    assert "192.0.2.77: 8 of 9 SAs" in found["seen"] and "rand_time" in found["next"], found

    # A policy behind a wider one.
    for src, dst, *rest in (
        ("10.1.0.0/16", "10.8.0.0/16", "priority", "10"),
        ("10.1.0.0/24", "10.8.1.0/24", "priority", "20", "action", "block"),
    ):
        gateway.daemon.exec("ip", "xfrm", "policy", "add", "src", src, "dst", dst, "dir", "out", *rest)
    [found] = bad(gateway, "policy")
    assert "never reached" in found["seen"] and "10.1.0.0/24 > 10.8.1.0/24" in found["seen"], found
    index = found["next"].partition("delete ")[2]
    gateway.daemon.exec("ip", "xfrm", "policy", "delete", *index.split())
    assert not bad(gateway, "policy")


def test_packets_that_ask_for_an_sa_in_vain(network):
    """A policy for whose template no SA comes is told only while packets ask for it."""
    net = network().start()
    gateway = net.gwa
    gateway.daemon.exec(
        "ip", "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", "10.9.0.0/24", "dir", "out",
        "tmpl", "src", t.WAN_A4, "dst", "192.0.2.99", "proto", "esp", "mode", "tunnel", "reqid", "99",
    )  # fmt: skip
    assert not bad(gateway, "policy")
    asking = net.client.spawn("ping", "-i", "0.5", "10.9.0.1")
    try:
        net.client.run("ping", "-c", "1", "-W", "1", "10.9.0.1", check=False)
        [found] = bad(gateway, "policy")
        assert "10.9.0.0/24" in found["seen"] and "no SA has come" in found["seen"], found
        assert "swanctl --initiate" in found["next"], found
    finally:
        asking.kill(signal.SIGKILL)
