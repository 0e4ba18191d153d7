"""The command line: runs the scripts and says what each case came to."""

import argparse
import fnmatch
import json
import os
import sys
import time
import tomllib
from pathlib import Path

from lab import Lab, LabError
from lab.base import interruptible, sh, sweep
from lab.planes import ROOT, culvert_binary, culvert_missing
from lab.traffic import PYTHON

from .gateway import Gateway
from .secgw import Config, ConfigError

SUITE = ROOT / "build" / "dpdk-suite"
EXCUSES = Path(__file__).resolve().parents[1] / "dpdk-suite.toml"
RESULT = ROOT / "target" / "dpdk-suite.json"

#: The suite's own list of packet tests (`PKT_TESTS` in run_test.sh).
SCRIPTS = ("trs_ipv6opts", "tun_null_header_reconstruct")
PLAY = Path(__file__).with_name("play.py")
#: A script takes seconds; each packet that does not come costs it half of one.
SCRIPT_S = 300


def arguments():
    parser = argparse.ArgumentParser(prog="dpdk", description=__doc__)
    parser.add_argument("only", nargs="*", default=SCRIPTS, help=f"scripts: {', '.join(SCRIPTS)}")
    parser.add_argument("--json", type=Path, default=RESULT, help=f"the result ({RESULT.name})")
    parser.add_argument("--logs", action="store_true", help="also show what scripts and culvert print")
    return parser.parse_args()


def judge(result, excuses):
    """Adds the verdict. An excuse holds only for a failure of the kind that it names."""
    seen = " ".join([result["why"], *(f"drop {reason}" for reason in result["drops"])])
    excuse = next((e for e in excuses if fnmatch.fnmatch(result["name"], e["name"])), None)
    result["verdict"], result["reason"] = result["outcome"], ""
    if excuse and result["outcome"] == "passed":
        result["reason"] = f"excuse no longer needed: {excuse['reason']}"
    elif excuse and excuse["seen"] in seen:
        result["verdict"], result["reason"] = "skipped", excuse["reason"]
    return result


def line(result):
    """What is printed of a case."""
    text = f"  {result['verdict']:7} {result['name']}"
    if result["reason"]:
        text += f"\n          {result['reason']}"
    if result["verdict"] == "failed":
        drops = ", ".join(f"{reason} {count}" for reason, count in result["drops"].items())
        text += f"\n          {result['why']}\n          culvert dropped: {drops or 'nothing'}"
    return text


def run_script(name, show):
    """Runs a script in hosts of its own; returns its cases."""
    script = SUITE / f"{name}.py"
    config = Config(sh(PYTHON, script, "config").stdout)
    with Lab("dpdk") as lab:
        gateway = Gateway(lab, config)
        gateway.start()
        output = lab.tmp / "cases"
        output.touch()
        done = gateway.tester.run(
            PYTHON, PLAY, script, output, culvert_binary(), gateway.daemon.name,
            check=False, timeout=SCRIPT_S,
        )  # fmt: skip
        if show:
            print(done.stdout + done.stderr + gateway.daemon.log())
        cases = [json.loads(text) for text in output.read_text().splitlines()]
        if not cases:
            raise LabError(f"{name} ran no case:\n{done.stdout}{done.stderr}")
    return [{"name": f"{name}.{case['case']}", **case} for case in cases]


def run(args):
    excuses = tomllib.loads(EXCUSES.read_text()).get("case", [])
    results, started = [], time.monotonic()
    for name in args.only:
        print(f"{name}", flush=True)
        for last in (False, True):
            found = [judge(result, excuses) for result in run_script(name, args.logs)]
            failed = sum(result["verdict"] == "failed" for result in found)
            if not failed:
                break
            if not last:
                # The scripts wait half a second for a packet, and machines are busy.
                print(f"  {failed} failed; once more", flush=True)
        for result in found:
            print(line(result), flush=True)
        results += found
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"results": results}, indent=1) + "\n")
    print(f"\n{round(time.monotonic() - started)} s; the result in {args.json}")
    total = {v: sum(r["verdict"] == v for r in results) for v in ("passed", "failed", "skipped")}
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


def main():
    args = arguments()
    missing = culvert_missing() or (os.geteuid() and "it makes network namespaces: run it as root")
    if not missing and not (SUITE / "pkttest.py").exists():
        missing = f"{SUITE} is missing (scripts/fetch-dpdk-suite)"
    if missing:
        print(f"dpdk-suite: {missing}", file=sys.stderr)
        return 2
    interruptible()
    sweep()
    try:
        return run(args)
    except (LabError, ConfigError) as error:
        print(f"dpdk-suite: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dpdk-suite: interrupted; all hosts are removed", file=sys.stderr)
        return 130
