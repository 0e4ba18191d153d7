"""The command line: which scenarios, how many at a time, and what to say at the end."""

import argparse
import fnmatch
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from lab.base import STATE, LabError, interruptible, sweep
from lab.guest import GUEST_MARK
from lab.planes import ROOT, culvert_binary

from . import inside, report
from .excuses import FILE, ExcuseError, Excuses
from .local import Common, suite_folder
from .runner import Runner
from .scenario import Suite

RESULTS = ROOT / "target"


def arguments():
    parser = argparse.ArgumentParser(prog="strongswan", description=__doc__)
    parser.add_argument("only", nargs="*", help="scenarios, as GROUP/NAME, or patterns of them")
    parser.add_argument("--jobs", type=int, default=10, help="so many at a time (10)")
    parser.add_argument(
        "--retries", type=int, default=1, metavar="N",
        help="run what failed N times more, fewer at a time: some scenarios are about seconds (1)",
    )  # fmt: skip
    parser.add_argument("--sample", action="store_true", help="only the sample in " + FILE.name)
    parser.add_argument(
        "--ignore-missing", action="store_true", help="also run what lacks a plugin or a program"
    )
    parser.add_argument(
        "--open-filters", action="store_true",
        help="hosts' packet filters drop nothing by default: not the suite, but shows what else fails",
    )  # fmt: skip
    parser.add_argument(
        "--charon6", action="store_true",
        help="the scenarios of strongSwan 6, with that (make strongswan-suite6): in a guest with as many processors",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="say what would run, and why not")
    parser.add_argument("--logs", type=Path, help="the folder for the logs (target/strongswan-suite)")
    parser.add_argument("--json", type=Path, help="the result (target/strongswan-suite.json)")
    args = parser.parse_args()
    name = "strongswan-suite6" if args.charon6 else "strongswan-suite"
    args.logs = args.logs or RESULTS / name
    args.json = args.json or RESULTS / f"{name}.json"
    return args


def chosen(names, excuses, args):
    """The scenarios that were asked for."""
    if args.sample:
        return list(excuses.sample)
    if not args.only:
        return names
    found = []
    for pattern in args.only:
        matched = fnmatch.filter(names, pattern) or fnmatch.filter(names, f"{pattern}/*")
        if not matched:
            raise LabError(f"no scenario matches {pattern}")
        found += matched
    return list(dict.fromkeys(found))


def longest_first(scenarios, file):
    """Orders scenarios by the time that they took in an earlier run, the longest first."""
    try:
        earlier = {r["name"]: r["seconds"] for r in json.loads(file.read_text())["results"]}
    except (OSError, ValueError, KeyError):
        earlier = {}
    return sorted(scenarios, key=lambda s: -earlier.get(s.name, 30.0))


def remove_left_over():
    """Removes what a killed run left: namespaces, and the folder of what guests have in common."""
    sweep()
    for folder in Path(tempfile.gettempdir()).glob("cvlab-common-*"):
        owner = folder.name.split("-")[2]
        if not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def run(args):
    suite = Suite(suite_folder(args.charon6))
    names = suite.names()
    # The list is about the scenarios of strongSwan 5.
    excuses = Excuses("" if args.charon6 else FILE.read_text(), names)
    wanted = chosen(names, excuses, args)
    results, to_run, excuse_of = [], [], {}
    with tempfile.TemporaryDirectory(prefix=f"cvlab-common-{os.getpid()}-") as folder:
        common = Common(suite, folder, args.open_filters, args.charon6).make()
        for name in wanted:
            scenario = suite.scenario(name)
            excuse = excuses.of(scenario, common)
            if excuse and not excuse.runs and not args.ignore_missing:
                results.append(report.judge({**report.skipped(name, excuse), "passed": False}, excuse))
            else:
                to_run.append(scenario)
                excuse_of[name] = excuse
        if args.list:
            for scenario in to_run:
                excuse = excuse_of[scenario.name]
                print(f"{scenario.name}  {f'may fail: {excuse.reason}' if excuse else ''}".rstrip())
            for result in results:
                print(f"{result['name']}  skipped: {result['reason']}")
            return 0
        print(f"{len(to_run)} scenarios to run, {len(results)} skipped; {culvert_binary()}")
        started = time.monotonic()
        latest, again, jobs = {}, to_run, args.jobs
        for attempt in range(1 + args.retries):
            if attempt:
                again = [s for s in to_run if latest[s.name]["verdict"] == "failed"]
                jobs = max(1, args.jobs // 3)
                if again:
                    print(f"{len(again)} failed; once more, {jobs} at a time")
            finished = 0

            def done(result, total=len(again), attempt=attempt):
                nonlocal finished
                finished += 1
                result["attempt"] = attempt + 1
                latest[result["name"]] = report.judge(result, excuse_of[result["name"]])
                print(report.line(result, finished, total), flush=True)

            Runner(common, args.logs, jobs).run(longest_first(again, args.json), done)
        results += latest.values()
    seconds = round(time.monotonic() - started)
    if args.open_filters:
        print("\npacket filters were open: this is not the suite's verdict")
    report.write(results, args.json, seconds=seconds)
    print(report.summary(results))
    print(f"\n{seconds} s; logs in {args.logs}, the result in {args.json}")
    total = report.counts(results)
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


def main():
    args = arguments()
    interruptible()
    if os.geteuid() != 0:
        print("strongswan-suite: it makes network namespaces: run it as root", file=sys.stderr)
        return 2
    STATE.mkdir(mode=0o700, exist_ok=True)
    remove_left_over()
    try:
        if args.charon6 and GUEST_MARK not in os.environ:
            return inside.run(args)
        return run(args)
    except (LabError, ExcuseError) as error:
        print(f"strongswan-suite: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # Also of those that were interrupted while they were being made.
        remove_left_over()
        print("strongswan-suite: interrupted; all hosts are removed", file=sys.stderr)
        return 130
