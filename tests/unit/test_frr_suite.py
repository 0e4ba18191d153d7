"""The runner of FRR's topotests: verdicts, and that nothing of a topology stays behind."""

import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from frr.boxes import Boxes
from frr.main import carried, judge
from lab.base import PATIENCE_S, LabError, wait_for

TESTS = Path(__file__).resolve().parents[1]

EXCUSE = {"name": "bfd_topo1.*.test_bfd", "seen": "no peer", "reason": "because"}


@pytest.mark.parametrize(
    ("outcome", "why", "verdict", "reason"),
    [
        ("passed", "", "passed", "excuse no longer needed: because"),
        ("failed", "there is no peer", "skipped", "because"),
        ("failed", "another fault", "failed", ""),
    ],
)
def test_an_excuse_holds_for_its_own_failure(outcome, why, verdict, reason):
    case = {"name": "bfd_topo1.odd.test_bfd", "outcome": outcome, "why": why, "reason": ""}
    assert judge(case, [EXCUSE]) | {"verdict": verdict, "reason": reason} == case
    assert judge(case | {"name": "bfd_topo2.odd.test_bfd"}, [EXCUSE])["verdict"] == outcome


def test_culverts_that_heard_nobody_carried_nothing():
    told = {"router": "r1", "stats": {"work": {"bfd-received": 3}}, "bfd": {"sessions": []}, "log": ""}
    assert carried("bfd_topo1", "odd", [told])["outcome"] == "passed"
    assert carried("bfd_topo1", "odd", [])["why"] == "no router had a culvert"
    assert "r1: no session" in carried("bfd_topo1", "odd", [told | {"stats": {}}])["why"]
    assert carried("bfd_topo1", "odd", [told | {"stats": {}}], ["r1"])["outcome"] == "passed"
    assert carried("bfd_topo1", "odd", [told | {"bfd": {"refused": {"echo": 1, "session": 2}}}])["why"] == "r1: refused {'echo': 1}"
    assert "panicked" in carried("bfd_topo1", "odd", [told | {"log": "thread main panicked"}])["why"]


#: Leaves processes in a session and in namespaces of their own, as topologies do.
_BUSY = "setsid unshare --net --mount --pid --fork sleep {0} & setsid sleep {0} & touch /run/culvert/box-{0}; wait"


def running(number):
    """Processes that sleep for a number of seconds that nothing else has."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if argv[:2] == [b"sleep", number.encode()]:
            found.append(int(file.parent.name))
    return found


@pytest.fixture(name="number")
def fixture_number():
    return str(10**8 + secrets.randbelow(10**8))


def test_nothing_stays_behind_when_boxes_are_closed(number):
    boxes, said = Boxes(), []

    def run():
        try:
            boxes.run(["sh", "-c", _BUSY.format(number)], PATIENCE_S)
        except LabError as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    wait_for("both processes", lambda: len(running(number)) == 2)
    boxes.close()
    assert not running(number)
    thread.join(PATIENCE_S)
    assert said == ["interrupted"]
    assert not Path(f"/run/culvert/box-{number}").exists()
    with pytest.raises(LabError, match="interrupted"):
        boxes.run(["true"], PATIENCE_S)


def test_nothing_stays_behind_after_a_commands_own_end_or_its_time(number):
    boxes = Boxes()
    boxes.run(["sh", "-c", f"setsid sleep {number} &"], PATIENCE_S)
    assert not running(number)
    with pytest.raises(LabError, match=r"no end after 0\.5 s"):
        boxes.run(["sh", "-c", _BUSY.format(number)], 0.5)
    assert not running(number)


def test_a_process_whose_parent_has_ended_ends_whole(tmp_path):
    """FRR's library waits until a daemon is not in /proc any more."""
    script = f"(sleep 0.2 & echo $! >{tmp_path}/pid); while test -d /proc/$(cat {tmp_path}/pid); do sleep 0.05; done"
    Boxes().run(["sh", "-c", script], PATIENCE_S)


_OWNER = """
import sys
sys.path.insert(0, {tests!r})
from frr.boxes import Boxes
Boxes().run(["sh", "-c", {busy!r}], 1000)
"""


def test_nothing_stays_behind_when_the_owner_is_killed(number):
    code = _OWNER.format(tests=str(TESTS), busy=_BUSY.format(number))
    with subprocess.Popen([sys.executable, "-c", code]) as owner:
        wait_for("both processes", lambda: len(running(number)) == 2)
        os.kill(owner.pid, signal.SIGKILL)
    wait_for("their end", lambda: not running(number))
