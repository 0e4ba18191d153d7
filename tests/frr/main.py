"""The command line: runs the topologies and says what each case came to."""

import argparse
import concurrent.futures
import contextlib
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree
from pathlib import Path

from lab.base import LabError, interruptible
from lab.frr import has
from lab.planes import ROOT, culvert_missing
from lab.traffic import PYTHON

from .boxes import Boxes

SUITE = ROOT / "build" / "frr-suite"
PLAN = Path(__file__).resolve().parents[1] / "frr-suite.toml"
RESULT = ROOT / "target" / "frr-suite.json"
LOGS = ROOT / "target" / "frr-suite"

#: Routers that have a culvert: each session has one at one end in one of these, and most at the other end in the other.
ROUNDS = ("odd", "even")
#: A topology takes up to three minutes, most of it waiting.
BOUND_S = 600


def arguments(plan):
    parser = argparse.ArgumentParser(prog="frr", description=__doc__)
    parser.add_argument("only", nargs="*", help=f"topologies: {', '.join(plan['topologies'])}")
    parser.add_argument("--at", action="append", help="routers with a culvert: odd, even, all, or a name (odd, and then even)")
    parser.add_argument("--jobs", type=int, default=4, help="so many topologies at a time (4)")
    parser.add_argument("--sample", action="store_true", help="only the sample in " + PLAN.name)
    parser.add_argument("--json", type=Path, default=RESULT, help=f"the result ({RESULT.name})")
    return parser.parse_args()


def runs(args, plan):
    """Topologies and rounds that were asked for."""
    if args.sample:
        return [tuple(run) for run in plan["sample"]]
    names = args.only or plan["topologies"]
    unknown = set(names) - set(plan["topologies"])
    if unknown:
        raise LabError(f"no topology {', '.join(sorted(unknown))}; there are {', '.join(plan['topologies'])}")
    return [(name, at) for name in names for at in args.at or plan["at"].get(name, ROUNDS)]


def run_topology(boxes, plan, name, at):
    """Runs a topology in a box of its own; returns its cases, and one of what its culverts have seen."""
    folder = LOGS / f"{name}.{at}"
    shutil.rmtree(folder, ignore_errors=True)
    seen = folder / "seen"
    seen.mkdir(parents=True)
    report = folder / "cases.xml"
    environment = {
        **os.environ, "CULVERT_FRR_AT": at, "CULVERT_FRR_SEEN": str(seen),
        "PYTHONPATH": f"{ROOT / 'tests'}:{SUITE / 'topotests'}", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    argv = [PYTHON, "-m", "pytest", "-p", "frr.plugin", "-p", "no:cacheprovider", name, "--rundir", folder / "run", "--junitxml", report]
    with (folder / "log").open("w") as log:
        try:
            boxes.run(argv, BOUND_S, cwd=SUITE / "topotests", env=environment, stdout=log, stderr=subprocess.STDOUT)
        except LabError as error:
            raise LabError(f"{name} ({at}): {error}; see {folder / 'log'}") from None
    if not report.exists():
        raise LabError(f"{name} ({at}) ran no case; see {folder / 'log'}")
    cases = [case_of(name, at, element) for element in xml.etree.ElementTree.parse(report).iter("testcase")]
    told = [json.loads(file.read_text()) for file in sorted(seen.glob("*.json"))]
    return cases + [carried(name, at, told, plan["without_sessions"].get(name, []))]


def case_of(name, at, element):
    faults = [found for kind in ("failure", "error") for found in element.iter(kind)]
    skipped = element.find("skipped")
    outcome = "failed" if faults else "skipped" if skipped is not None else "passed"
    text = faults[0].get("message", "") + (faults[0].text or "") if faults else ""
    reason = skipped.get("message", "") if outcome == "skipped" else ""
    return {"name": f"{name}.{at}.{element.get('name')}", "outcome": outcome, "why": text, "reason": reason}


#: A session that bfdd makes anew, as BGP has it do, gets packets for the old one (RFC 5880, section 6.8.6); while a link is cut, packets
#: of a neighbour take another way, and are refused as they come from further off (RFC 5881, section 5).
RIGHTLY_REFUSED = {"session", "ttl"}


def carried(name, at, seen, without_sessions=()):
    """A case of ours: each culvert with sessions has heard their peers, and dropped none of their packets."""
    faults = [] if seen else ["no router had a culvert"]
    for told in seen:
        router = told["router"]
        if router not in without_sessions and not told["stats"].get("work", {}).get("bfd-received"):
            faults.append(f"{router}: no session of culvert's has heard its peer")
        packets = {kind: count for kind, count in told["bfd"].get("refused", {}).items() if kind not in RIGHTLY_REFUSED}
        refused = {**packets, **{s["peer"]: s["refused"] for s in told["bfd"].get("sessions", []) if s["refused"]}}
        if refused:
            faults.append(f"{router}: refused {refused}")
        if "panicked" in told["log"]:
            faults.append(f"{router}: culvert has panicked")
    return {"name": f"{name}.{at}.carried_by_culvert", "outcome": "failed" if faults else "passed", "why": "; ".join(faults), "reason": ""}


def judge(case, excuses):
    """Adds the verdict. An excuse holds only for a failure of the kind that it names."""
    case["verdict"] = case["outcome"]
    excuse = next((e for e in excuses if fnmatch.fnmatch(case["name"], e["name"])), None)
    if excuse and case["outcome"] == "passed":
        case["reason"] = f"excuse no longer needed: {excuse['reason']}"
    elif excuse and case["outcome"] == "failed" and excuse["seen"] in case["why"]:
        case["verdict"], case["reason"] = "skipped", excuse["reason"]
    return case


def line(case):
    text = f"  {case['verdict']:7} {case['name']}"
    if case["reason"]:
        text += f"\n          {case['reason']}"
    if case["verdict"] == "failed":
        text += f"\n          {case['why'][:600]}"
    return text


def attempt(boxes, run, plan):
    """The cases of a topology; once more where one fails: machines are busy, and the tests wait for seconds."""
    for last in (False, True):
        begun = time.monotonic()
        cases = [judge(case, plan.get("case", [])) for case in run_topology(boxes, plan, *run)]
        if last or all(case["verdict"] != "failed" for case in cases):
            return cases, time.monotonic() - begun
    return None


@contextlib.contextmanager
def ended_by_an_error(pool, boxes):
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        boxes.close()
        raise


def run(args, plan):
    chosen, started = runs(args, plan), time.monotonic()
    results, boxes = [], Boxes()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool, ended_by_an_error(pool, boxes):
        waiting = {pool.submit(attempt, boxes, each, plan): each for each in chosen}
        for done in concurrent.futures.as_completed(waiting):
            (name, at), (cases, seconds) = waiting[done], done.result()
            print(f"{name}, culvert at {at} routers: {seconds:.0f} s", flush=True)
            print("\n".join(map(line, cases)), flush=True)
            results += cases
    for skip in plan.get("cannot", []):
        print(f"not run: {skip['name']}: {skip['reason']}")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"results": results}, indent=1) + "\n")
    print(f"\n{time.monotonic() - started:.0f} s; the result in {args.json}")
    total = {v: sum(case["verdict"] == v for case in results) for v in ("passed", "failed", "skipped")}
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


def main():
    plan = tomllib.loads(PLAN.read_text())
    args = arguments(plan)
    missing = culvert_missing() or (os.geteuid() and "it makes network namespaces: run it as root")
    if not missing and not (SUITE / "topotests" / "lib").is_dir():
        missing = f"{SUITE} is missing (scripts/fetch-frr-suite)"
    if not missing and not has("bfdd"):
        missing = "FRR is not installed (scripts/setup)"
    if missing:
        print(f"frr-suite: {missing}", file=sys.stderr)
        return 2
    interruptible()
    try:
        return run(args, plan)
    except LabError as error:
        print(f"frr-suite: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("frr-suite: interrupted", file=sys.stderr)
        return 130
