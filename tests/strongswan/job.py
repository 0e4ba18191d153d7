"""Runs one scenario and says what came of it."""

import json
import re
import selectors
import threading
import time
import traceback
from pathlib import Path

from lab import Lab, LabError

from . import dat
from .guest import Guest
from .network import Switches

#: Longest time for one scenario, in seconds; the longest takes about two minutes.
SCENARIO_S = 420


class Job:
    """One run of a scenario. `results` is where its logs go."""

    def __init__(self, scenario, common, results):
        self.scenario, self.common = scenario, common
        self.results = Path(results)
        self.console = []
        self.guests = {}
        self.captures = {}
        #: What tunnels bring, by host.
        self.arriving = {}
        self.failures = []

    def run(self):
        """Runs it all; returns the result as a dictionary that can go through JSON."""
        started = time.monotonic()
        self.results.mkdir(parents=True, exist_ok=True)
        error = ""
        try:
            with Lab(self.scenario.name) as lab:
                try:
                    self._run(lab, started + SCENARIO_S)
                finally:
                    self._collect()
        except LabError as failed:
            error = str(failed)
        except Exception:  # noqa: BLE001 - one scenario's end is not the suite's
            error = traceback.format_exc()
        (self.results / "console.log").write_text("\n".join(self.console) + "\n")
        if error:
            (self.results / "error.log").write_text(error)
        return {
            "name": self.scenario.name,
            "seconds": round(time.monotonic() - started, 1),
            "passed": not error and not self.failures,
            "failures": self.failures,
            "error": error.strip().splitlines()[-1][:500] if error else "",
            **self.evidence(),
        }

    def _run(self, lab, deadline):
        switches = Switches(lab, self.scenario.suite)
        for name in self.scenario.hosts():
            host = lab.host(name)
            cables = switches.plug(host)
            guest = Guest(host, self.scenario, self.common, lab.tmp / name)
            self.guests[name] = guest
            guest.boot(cables)
        reader = _SyslogReader(self.guests.values())
        try:
            if any("ssh" in dat.programs([command]) for command in self.scenario.commands()):
                for guest in self.guests.values():
                    guest.start_sshd()
            for name in self.scenario.ipsec_hosts:
                self.guests[name].start_culvert()
            for host, interface in self.scenario.captures:
                capture = self.guests[host].capture(switches.host, interface)
                self.captures.setdefault(host, []).append(capture)
                if host in self.scenario.ipsec_hosts and host not in self.arriving:
                    self.arriving[host] = self.guests[host].capture_arriving()
            self._actions("PRE-TEST", self.scenario.pretest, deadline)
            self._checks(deadline)
            self._counters()
            self._actions("POST-TEST", self.scenario.posttest, deadline)
            self._left_over()
        finally:
            reader.stop()

    def _guest(self, line):
        guest = self.guests.get(line.host)
        if guest is None:
            # A misspelt name: the suite's own ssh would fail, and the run would go on.
            self._say(f"{line.host}: no such host")
        return guest

    def _actions(self, title, actions, deadline):
        self._say(f"\n==== {title}")
        for action in actions:
            guest = self._guest(action)
            if guest is None:
                continue
            self._in_time(deadline)
            status, out, err = guest.run(action.script())
            self._say(f"{action.host}# {action.command}" + (f"  [status {status}]" if status else ""))
            self._say((out + err).rstrip())

    def _checks(self, deadline):
        self._say("\n==== TEST")
        for check in self.scenario.checks:
            guest = self._guest(check)
            self._in_time(deadline)
            if check.is_capture:
                out, err = self._captured(check), ""
            elif guest is None:
                out, err = "", ""
            else:
                _, out, err = guest.run(check.script())
            holds, found = check.holds(out)
            if not holds:
                self._say("~~~~ FAIL")
                self.failures.append(
                    {"line": str(check), "output": out[-1500:], "errors": err[-500:]}
                )
            self._say(f"{check.host}# {check.command} | grep '{check.pattern}'  [{check.hit}]")
            self._say("\n".join(found) if holds else (out[-4000:] + err).rstrip())

    def _captured(self, check):
        """What the host's captures have seen. A kernel with ESP shows what it has decrypted at the interface
        that the ESP came in by. Here it comes in by culvert0, so what has to be seen may be there; what must not be
        seen, or so many times, is asked of the cable alone."""
        captures = self.captures.get(check.host, [])
        if check.hit == "YES" and check.host in self.arriving:
            captures = [*captures, self.arriving[check.host]]
        for capture in captures:
            if capture.process.alive():
                capture.stop()
        return "".join(capture.text() for capture in captures)

    def _left_over(self):
        """The suite's own last check: no SA and no policy may be left."""
        for name in self.scenario.ipsec_hosts:
            guest = self.guests[name]
            _, states, _ = guest.run("ip xfrm state")
            # States that come with IPComp are left out, as the suite does.
            lines = dat.matching("proto.*spi", states)
            states_left = [line for line in lines if "proto 4" not in line]
            _, policies, _ = guest.run("ip xfrm policy")
            if states_left or policies.strip():
                self.failures.append(
                    {"line": f"{name}::ip xfrm state; ip xfrm policy::nothing left::YES",
                     "output": (states + policies)[-1500:], "errors": ""}
                )  # fmt: skip
                self._say(f"~~~~ FAIL\n{name}# left over:\n{states}{policies}")

    def _counters(self):
        """What culvert counted on each host, and its databases as they stand."""
        self.drops = {}
        for name in self.scenario.ipsec_hosts:
            guest = self.guests[name]
            _, out, _ = guest.run(f"culvert --name {name} drops --json")
            try:
                drops = {reason: n for reason, n in json.loads(out)["drops"].items() if n}
            except (ValueError, KeyError):
                drops = {"unknown": out[:200]}
            self.drops[name] = drops
            for what in ("sa", "policy", "route", "stats", "status"):
                guest.run(f"culvert --name {name} {what} >/var/log/culvert.{what} 2>&1")
            guest.run("ip xfrm state >/var/log/ip.state; ip xfrm policy >/var/log/ip.policy")
            guest.run(
                "{ ip rule; ip route; ip route show table all; ip addr; ip -6 rule; "
                "iptables-save -c; ip6tables-save -c; } >/var/log/network 2>&1"
            )

    drops = {}

    def evidence(self):
        """What helps to find the cause: drops that moved, what charon was refused, and what fell to
        the default policies of the packet filters."""
        refused = []
        for name in self.scenario.ipsec_hosts:
            log = self.results / f"{name}.daemon.log"
            if log.exists():
                for line in log.read_text(errors="replace").splitlines():
                    if any(word in line for word in _REFUSALS):
                        refused.append(f"{name}: {line.split(': ', 1)[-1]}")
        filtered = {}
        for name in self.scenario.ipsec_hosts:
            network = self.results / f"{name}.network"
            if network.exists():
                found = default_drops(network.read_text(errors="replace"))
                if found:
                    filtered[name] = found
        return {
            "drops": {host: drops for host, drops in self.drops.items() if drops},
            "refused": refused[:8],
            "filtered": filtered,
        }

    def _collect(self):
        for name, guest in self.guests.items():
            guest.close()
            for file in guest.log.iterdir():
                if file.is_file() and file.stat().st_size:
                    (self.results / f"{name}.{file.name}").write_bytes(file.read_bytes())

    def _say(self, text):
        if text:
            self.console.append(text)

    def _in_time(self, deadline):
        if time.monotonic() > deadline:
            raise LabError(f"not done within {SCENARIO_S} s")


#: What charon says when the kernel interface or a plugin has not done what it asked for.
_REFUSALS = ("[KNL] unable to", "[KNL] received netlink error", " not supported")


def default_drops(saved):
    """Packets that chains with the policy DROP have dropped by it, from `iptables-save -c`."""
    found = {}
    for chain, packets in re.findall(r"^:(\w+) DROP \[(\d+):\d+\]", saved, re.MULTILINE):
        if int(packets):
            found[chain] = found.get(chain, 0) + int(packets)
    return found


class _SyslogReader:
    """A thread that takes what guests say, so that nobody waits for a full queue."""

    def __init__(self, guests):
        self.selector = selectors.DefaultSelector()
        for guest in guests:
            self.selector.register(guest.syslog_descriptor(), selectors.EVENT_READ, guest)
        self.over = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while not self.over:
            for key, _ in self.selector.select(0.2):
                key.data.read_syslog()

    def stop(self):
        self.over = True
        self.thread.join()
        self.selector.close()
