"""Other tools flush what culvert needs in Linux's tables, and an operator reloads."""

import os
import signal
from pathlib import Path

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.planes import culvert_binary
from lab.traffic import assert_ping, ping


def passes(host, to):
    return lambda: ping(host, to, count=1)["received"] == 1


def test_flushed_barriers_stand_again_and_a_crash_leaks_nothing(network):
    net = network().up()
    gateway = net.gwa
    gateway.host.run("ip", "xfrm", "policy", "flush")
    gateway.host.run("nft", "flush", "ruleset")

    def guarded():
        policies = gateway.host.run("ip", "xfrm", "policy").stdout
        return "action block" in policies and (
            "culvert-guard" in gateway.host.run("nft", "list", "ruleset").stdout
        )

    wait_for("the guard to stand again", guarded)
    wire = Capture(net.mid, "west")
    gateway.daemon.kill9()
    for to in (t.SERVER4, t.SERVER6):
        assert ping(net.client, to, count=3)["received"] == 0, to
    assert_only_protected(wire.stop())
    gateway.daemon.start()
    wait_for("traffic to pass again", passes(net.client, t.SERVER4))


def test_rules_and_routes_come_back(network):
    net = network().up()
    host = net.gwa.host
    for family in ("-4", "-6"):
        host.ip(family, "rule", "del", "preference", "210")
        host.ip(family, "route", "flush", "table", "219")

    def restored():
        return all(
            "lookup 219" in host.ip(family, "rule").stdout
            and "culvert0" in host.ip(family, "route", "show", "table", "219").stdout
            for family in ("-4", "-6")
        )

    wait_for("rules and routes", restored)
    for source, to in ((t.LAN_A4, t.SERVER4), (t.LAN_A6, t.SERVER6)):
        assert_ping(host, to, count=2, source=source)


def test_no_command_takes_the_guard_from_a_daemon(network):
    net = network().up()
    name = net.gwa.daemon.name
    # Even where the control socket is not there (yet).
    socket = Path("/run/culvert") / name / "control.sock"
    hidden = socket.rename(socket.with_suffix(".hidden"))
    for command in (["clear"], ["apply", "--config", net.gwa.daemon.config]):
        run = net.gwa.host.run(culvert_binary(), "--name", name, "guard", *command, check=False)
        assert run.returncode != 0 and "runs" in run.stderr, run
    hidden.rename(socket)
    assert "action block" in net.gwa.host.run("ip", "xfrm", "policy").stdout


def test_reloads_take_the_ports_back_and_leak_no_descriptor(network):
    net = network().up()
    daemon = net.gwa.daemon
    pid = daemon.process.pid
    descriptors = lambda: len(os.listdir(f"/proc/{pid}/fd"))  # noqa: E731
    before = descriptors()
    reloads = "configuration reloaded"
    for done, mode in enumerate(("generic", "auto", "generic", "auto")):
        # Each differs from the one before: every port is closed and opened again.
        daemon.mode = mode
        daemon.write_config()
        os.kill(pid, signal.SIGHUP)
        wait_for("the reload", lambda n=done: daemon.log().count(reloads) == n + 1)
        wait_for("a ping after the reload", passes(net.client, t.SERVER4))
        # It may have some open for a moment, to a program that it runs.
        wait_for("no more descriptors than before", lambda: descriptors() <= before)
    assert_ping(net.client, t.SERVER6)


def test_without_its_interface_the_daemon_ends_and_leaks_nothing(network):
    net = network().up()
    wire = Capture(net.mid, "west")
    net.gwa.host.ip("link", "del", "culvert0")
    wait_for("the daemon to end", lambda: not net.gwa.daemon.alive())
    for host, source in ((net.client, None), (net.gwa.host, t.LAN_A4)):
        assert ping(host, t.SERVER4, count=2, source=source)["received"] == 0
    assert_only_protected(wire.stop())
    net.gwa.daemon.start()
    wait_for("traffic to pass again", passes(net.client, t.SERVER4))
