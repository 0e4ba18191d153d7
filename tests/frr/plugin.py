"""A pytest plugin for FRR's topotests: at some routers `bfdd` hands its sessions to a culvert beside it.

The tests stay as they are. `$CULVERT_FRR_AT` says which routers, `$CULVERT_FRR_SEEN` names the folder for what
their culverts have seen: a test that passes proves something only where culvert had the sessions.
"""

import json
import os
import re
import secrets
import subprocess
import time
from pathlib import Path

from lab.planes import culvert_binary
from lib import topogen, topotest

#: Where bfdd listens for culvert, in the router's own namespace.
ADDRESS = "ipv4:127.0.0.1:50700"
SEEN = Path(os.environ["CULVERT_FRR_SEEN"])
START_S = 60


def has_culvert(name):
    """Whether a router has one: those with an odd number, those with an even one, all, or the one that is named."""
    at, number = os.environ["CULVERT_FRR_AT"], int(re.search(r"\d+$", name).group())
    return {"odd": number % 2 == 1, "even": number % 2 == 0, "all": True}.get(at, name == at)


class Beside:
    """The culvert of a router."""

    def __init__(self, router):
        self.router = router
        self.name = f"frr-{router.name}-{secrets.token_hex(3)}"
        self.log = Path(router.logdir) / f"{router.name}.culvert.log"
        self.config = self.log.with_suffix(".toml")
        ports = "".join(f'\n[[port]]\ninterface = "{interface}"\n' for interface in router.intfNames())
        self.config.write_text(f'name = "{self.name}"\n{ports}\n[bfd]\ndataplane = "{ADDRESS}"\n')
        self.process = None

    def start(self):
        with self.log.open("w") as log:
            self.process = self.router.popen(
                [str(culvert_binary()), "run", "--config", str(self.config)], stdout=log, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + START_S
        while "culvert: ready" not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"culvert at {self.router.name} is not ready:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    def stop(self):
        """Ends it, after it has told what it has seen."""
        told = {command: self._ask(command) for command in ("bfd", "stats", "drops")}
        told |= {"topology": topogen.get_topogen().modname, "router": self.router.name, "log": self.log.read_text()}
        (SEEN / f"{told['topology']}.{self.router.name}.json").write_text(json.dumps(told))
        self.process.terminate()
        self.process.wait(START_S)

    def _ask(self, command):
        _, text, _ = self.router.cmd_status([str(culvert_binary()), "--name", self.name, command, "--json"], warn=False)
        try:
            return json.loads(text)
        except ValueError:
            return {}


def wrap(owner, name):
    """Has a function stand around a method: it is called with the method, and then with its arguments."""

    def around(function):
        method = getattr(owner, name)
        setattr(owner, name, lambda self, *args, **named: function(method, self, *args, **named))

    return around


@wrap(topogen.TopoRouter, "load_config")
def load_config(method, self, daemon, source=None, param=None):
    if daemon == self.RD_BFD and has_culvert(self.name):
        param = f"{param or ''} --dplaneaddr {ADDRESS}"
    return method(self, daemon, source, param)


@wrap(topotest.Router, "startRouter")
def start_router(method, self, *args, **named):
    said = method(self, *args, **named)
    if not said and self.daemons["bfdd"] and has_culvert(self.name):
        self.culvert = Beside(self)
        self.culvert.start()
    return said


@wrap(topotest.Router, "stopRouter")
def stop_router(method, self, *args, **named):
    culvert = self.__dict__.pop("culvert", None)
    if culvert:
        culvert.stop()
    return method(self, *args, **named)


# They set the machine's own limits, core dumps and neighbour tables, for topologies of hundreds of routers and for good.
topotest.fix_host_limits = lambda: None

# They look for programs and kernel modules of other tests.
topogen.diagnose_env = lambda _folder: True
if not Path("/proc/modules").exists():
    topotest.module_present = lambda *_, **__: False
