"""Runs many scenarios, several at a time, each in a process of its own.

An interrupt goes on to the processes; each removes its hosts before it ends.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

from lab.base import INTERRUPTS, interruptible

from .job import Job


#: linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def _end_with(parent):
    """Has the calling process asked to end when its parent dies without a word."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise KeyboardInterrupt


class Runner:
    """`jobs`: how many at a time. `results`: the folder for logs, by scenario."""

    def __init__(self, common, results, jobs):
        self.common, self.results, self.jobs = common, Path(results), jobs
        self.running = {}

    def run(self, scenarios, done):
        """Runs scenarios in the order given, and calls `done(result)` for each as it ends."""
        waiting = list(scenarios)
        try:
            while waiting or self.running:
                while waiting and len(self.running) < self.jobs:
                    self._start(waiting.pop(0))
                pid, status = os.wait()
                scenario = self.running.pop(pid, None)
                if scenario:
                    done(self._result(scenario, status))
        except KeyboardInterrupt:
            self._interrupt()
            raise

    def _folder(self, scenario):
        return self.results / scenario.name

    def _start(self, scenario):
        folder = self._folder(scenario)
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self.running[pid] = scenario
            return
        status = 1
        try:
            # A group of its own: a terminal's interrupt comes once, from the parent.
            os.setpgid(0, 0)
            interruptible()
            _end_with(parent)
            result = Job(scenario, self.common, folder).run()
            (folder / "result.json").write_text(json.dumps(result))
            status = 0
        except KeyboardInterrupt:
            pass
        except BaseException:  # noqa: BLE001 - it must not run on as a second parent
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)

    def _result(self, scenario, status):
        file = self._folder(scenario) / "result.json"
        if status == 0 and file.exists():
            return json.loads(file.read_text())
        return {
            "name": scenario.name, "seconds": 0.0, "passed": False, "failures": [],
            "error": f"its process ended with status {status}", "drops": {}, "refused": [],
            "filtered": {},
        }  # fmt: skip

    def _interrupt(self):
        """Asks all to end, and waits: they have hosts to remove."""
        for number in INTERRUPTS:
            signal.signal(number, signal.SIG_IGN)
        for pid in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + 60
        while self.running and time.monotonic() < end:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid:
                self.running.pop(pid, None)
            else:
                time.sleep(0.05)
