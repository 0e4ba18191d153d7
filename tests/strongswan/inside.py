"""Runs the scenarios of strongSwan 6 in a guest, which has the processors that they are about.

moon has four in the suite and sun has two: `taskset` has ping run on each of moon's, and charon numbers SAs by them.
In the guest the command line is the same, and goes on in `main`.
"""

import os
import shutil
import sys
import time

from lab import Lab, LabError, charon6
from lab.guest import GUEST_MARK, Guest, culvert_guest_missing
from lab.planes import ROOT, culvert_binary
from lab.traffic import PYTHON

from .local import suite_folder

#: Of moon, which has the most.
PROCESSORS = 4

#: The longest that a run may take, in seconds.
BOUND_S = 1800


def missing():
    """Why it cannot be; an empty text when it can."""
    if not suite_folder(True).exists():
        return f"{suite_folder(True)} is missing (make strongswan-suite6)"
    return charon6.missing() or culvert_guest_missing()


def run(args):
    """Boots a guest, runs the scenarios in it, and brings their logs and the result out of it."""
    if missing():
        raise LabError(missing())
    with Lab("strongswan6") as lab:
        guest = Guest(lab, "machine", memory_mb=1536, processors=PROCESSORS).start()
        found = guest.run("nproc").stdout.strip()
        if found != str(PROCESSORS):
            raise LabError(f"{guest.kernel} has {found} processors: this needs Linux 7.2 (make kernel VERSION=7.2)")
        logs, result = lab.tmp / "logs", lab.tmp / "result.json"
        process = guest.spawn(
            "env", f"{GUEST_MARK}=1", f"CULVERT={culvert_binary().resolve()}", f"PYTHONPATH={ROOT / 'tests'}",
            PYTHON, "-B", "-u", "-m", "strongswan", "--charon6", "--jobs", 1, "--retries", args.retries,
            "--logs", logs, "--json", result, *(["--list"] if args.list else []), *args.only,
        )  # fmt: skip
        shown, end = 0, time.monotonic() + BOUND_S
        while True:
            is_alive = process.alive() and time.monotonic() < end
            text = process.output()
            sys.stdout.write(text[shown:])
            sys.stdout.flush()
            shown = len(text)
            if not is_alive:
                break
            time.sleep(0.2)
        status = process.stop() if process.alive() else process.wait()
        guest.stop()
        if args.list:
            return status
        shutil.rmtree(args.logs, ignore_errors=True)
        for source, target in ((logs, args.logs), (result, args.json)):
            os.makedirs(target.parent, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.exists():
                shutil.copy(source, target)
        print(f"brought out of the guest: {args.logs}, {args.json}")
        return status
