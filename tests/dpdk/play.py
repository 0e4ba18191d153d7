#!/usr/bin/python3
"""Runs one script and writes a line of JSON for each of its cases.

    play.py SCRIPT OUTPUT CULVERT NAME      CULVERT --name NAME: the daemon whose drops are looked at

The script runs as it is, as `__main__`. Some of what it imports is not what it thinks:

- unittest reports to us.
- An SA of scapy's has integrity where the script says nothing about it: culvert has none without.
- The IPv4 header that it makes has its checksum from when it is sent: scripts change fields after that.
- A jumbo payload option is another one of the same length, which routers skip (RFC 4727, section 3.2).
  The scripts put it into short packets, and those every node has to refuse (RFC 2675, section 3).
"""

import json
import runpy
import subprocess
import sys
import time
import traceback
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scapy.all  # noqa: E402
from dpdk.secgw import INTEGRITY, INTEGRITY_KEY  # noqa: E402
from scapy.layers import ipsec  # noqa: E402
from scapy.layers.inet import IP  # noqa: E402
from scapy.layers.inet6 import HBHOptUnknown  # noqa: E402


class SecurityAssociation(ipsec.SecurityAssociation):
    """scapy's, never without integrity; the checksum of what it makes is of what is sent."""

    def __init__(self, proto, spi, **options):
        if not options.get("auth_algo"):
            options.update(auth_algo=INTEGRITY, auth_key=INTEGRITY_KEY)
        super().__init__(proto, spi, **options)

    def encrypt(self, *arguments, **options):
        packet = super().encrypt(*arguments, **options)
        if IP in packet:
            del packet[IP].chksum
        return packet


def jumbo(jumboplen):
    """What stands for the jumbo payload option."""
    return HBHOptUnknown(otype=0x1E, optdata=jumboplen.to_bytes(4, "big"))


class Reporter(unittest.TextTestResult):
    """Writes what came of each case, with culvert's drops meanwhile."""

    script = output = command = None

    def startTest(self, test):
        super().startTest(test)
        self.before, self.outcome, self.why = self.drops(), "passed", ""

    def drops(self):
        done = subprocess.run([*self.command, "drops", "--json"], capture_output=True, check=True)
        return json.loads(done.stdout)["drops"]

    def _failed(self, error):
        # The script's own line that did not hold, and what was seen.
        lines = [f.lineno for f in traceback.extract_tb(error[2]) if f.filename == self.script]
        text = str(error[1]).partition("\n")[0]
        self.outcome = "failed"
        self.why = f"line {lines[-1] if lines else '?'}: {error[0].__name__}: {text}"

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(err)

    def addError(self, test, err):
        super().addError(test, err)
        self._failed(err)

    def stopTest(self, test):
        super().stopTest(test)
        if self.outcome == "failed":
            # Counters are published once a round of the worker.
            time.sleep(0.1)
        after = self.drops()
        drops = {k: v - self.before.get(k, 0) for k, v in after.items() if v > self.before.get(k, 0)}
        name = test.id().split(".")[-1]
        with open(self.output, "a", encoding="ascii") as file:
            line = {"case": name, "outcome": self.outcome, "why": self.why, "drops": drops}
            file.write(json.dumps(line) + "\n")


def main():
    script, output, *command = sys.argv[1:]
    Reporter.script, Reporter.output = script, output
    Reporter.command = [command[0], "--name", command[1]]
    ipsec.SecurityAssociation = scapy.all.SecurityAssociation = SecurityAssociation
    scapy.all.Jumbo = jumbo
    whole = unittest.main

    def reported(**options):
        runner = unittest.TextTestRunner(verbosity=2, resultclass=Reporter)
        return whole(**{**options, "testRunner": runner})

    unittest.main = reported
    sys.argv = [script]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")


main()
