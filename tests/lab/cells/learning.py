"""When a flow is in the fast path: how long its first packet takes, and when `culvert flows` knows it."""

import json
import threading
import time

from ..planes import culvert_binary

#: The shortest interval of `culvert flows`.
INTERVAL_S = 0.1


class Flows:
    """Follows `culvert flows` of a daemon until `stop`: when each flow was told first."""

    def __init__(self, daemon):
        self.process = daemon.host.spawn(
            culvert_binary(), "--name", daemon.name, "flows", "--follow", "--json", "--interval", INTERVAL_S
        )
        #: (source, destination, direction): (monotonic time, what became of its last packet).
        self.first = {}
        self._ends = False
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        self.process.wait_output("{")

    def _follow(self):
        with open(self.process.log, encoding="utf-8") as log:
            rest = ""
            while not self._ends:
                text = log.read()
                if not text:
                    time.sleep(0.005)
                    continue
                now = time.monotonic()
                *lines, rest = (rest + text).split("\n")
                for line in lines:
                    if line.startswith("{"):
                        self._take(now, json.loads(line))

    def _take(self, now, told):
        for flow in told["flows"]:
            self.first.setdefault((flow["src"], flow["dst"], flow["direction"]), (now, flow["fate"]))

    def known(self, src, dst, since):
        """Seconds from a monotonic time until a flow was told, and its fate; None if it never was."""
        found = [at for (a, b, _), at in self.first.items() if (a, b) == (src, dst)]
        return min((at - since, fate) for at, fate in found) if found else None

    def stop(self):
        time.sleep(1.5 * INTERVAL_S)
        self._ends = True
        self._thread.join(2)
        self.process.stop()
        return self
