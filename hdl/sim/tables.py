"""Measures every cell of the published tables in simulation.

    python sim/tables.py [WORD...]     all tables, or those whose heading contains a word
    python sim/tables.py --page        all tables, and doc/tables.md anew

Each cell is a stream of equal packets through a gateway that has nothing else to do: cycles from the
first beat that goes in to the last one that comes out, at the published frequency. Every packet that
comes out is decrypted and compared. Prints published rate, ours, their ratio, the model's bound for an
endless stream and the section that binds it; `<` marks a cell below its target, `-` what has no
published figure. Writes build/tables.csv. Status 1 if a target is missed.
"""

import csv
import subprocess
import sys

from build import ROOT, build_program
from published import (CONFIGURATIONS, GCM_MHZ, GCM_TARGET, PROTOTYPE_CYCLES, PROTOTYPE_MHZ, SIZES,
                       STREAMS, cost)

COLUMNS = ("table", "configuration", "cipher", "packet_bytes", "packets", "mhz", "published_mbps",
           "ours_mbps", "ratio")
BASE = {"NumAes": 0, "NumDes": 0, "NumGcm": 0, "NumSha1": 0, "NumSha256": 0, "HasInbound": "1'b0",
        "assert": 0, "optimise": 0}
# Cycles a block of SHA-1, and the rounds a cycle that give them.
HMAC_ROUNDS = {40: 2, 20: 4}


class Tables:
    def __init__(self, words):
        self.words, self.rows, self.missed = words, [], 0
        self.lines = {}  # of the page: (table, configuration, cipher, MHz, bytes): cells
        self.limits = {}  # of each line: bound and what binds

    def wanted(self, title):
        return not self.words or any(word in title for word in self.words)

    def head(self, title):
        print(f"\n{title}\n  bytes packets   published        ours  ratio       bound  binds",
              flush=True)

    def row(self, table, configuration, cipher, size, packets, mhz, published, ours, costs, target):
        ratio = ours / published if published else None
        low = target is not None and ours < target
        self.missed += low
        beside = (f"{published:.2f}", f"{ratio:.2f}") if published else ("-", "-")
        print(f"  {size:5} {packets:7} {beside[0]:>11} {ours:11.2f} "
              f"{beside[1]:>6} {costs.bound(size, mhz):11.2f}  {costs.binds}"
              f"{f'  < {target:.0f}' if low else ''}", flush=True)
        self.rows.append((table, configuration, cipher, size, packets, mhz,
                          f"{published:.2f}" if published else "", f"{ours:.2f}",
                          f"{ratio:.3f}" if published else ""))
        line = (table, configuration, cipher, mhz, size)
        self.lines.setdefault(line, []).append(
            f"{ours:.0f}" + (f" ({ratio:.2f})" if published else ""))
        self.limits[line] = f"{costs.bound(size, mhz):.0f} | {costs.binds}"

    def published_configuration(self, config, cipher, block_cycles, first):
        """One configuration with one cipher; `first`: the published one, not a further row."""
        title = f"{config.table}: {cipher} {config.name}, {config.mhz} MHz, HMAC {block_cycles} cycles"
        if not self.wanted(title):
            return
        modules = config.modules
        program = build_program(
            f"{cipher}-{config.name.replace('/', '-')}-{block_cycles}",
            BASE | {"NumPolicy": modules["policy"], "NumSad": modules["sad"],
                    "NumAes" if config.cipher == "aes" else "NumDes": modules["cipher"],
                    "NumSha1": modules["hmac"], "RoundsPerCycle": HMAC_ROUNDS[block_cycles],
                    "Ecb": "1'b1" if cipher == "des-ecb" else "1'b0"}, "measure")
        self.head(title)
        for size in SIZES:
            costs = cost(cipher, "sha1", size, modules, block_cycles)
            for index, packets in enumerate(STREAMS):
                published = config.published[size][index] if first else None
                target = None
                if first and block_cycles == 40:
                    target = config.target[size] if packets == STREAMS[-1] else published
                elif first and cost(cipher, "sha1", size, modules, 40).binds == "HMAC":
                    target = 2 * published if costs.binds == "HMAC" else published
                cycles, _ = measure(program, cipher, "sha1", size, packets)
                self.row(config.table, f"{config.name} hmac{block_cycles}", cipher, size, packets,
                         config.mhz, published, 8 * size * packets * config.mhz / cycles, costs,
                         target)

    def prototype(self, block_cycles):
        title = f"I: prototype, one packet at a time, {PROTOTYPE_MHZ} MHz, HMAC {block_cycles} cycles"
        if not self.wanted(title):
            return
        modules = dict.fromkeys(("policy", "sad", "cipher", "hmac"), 1)
        program = build_program(
            f"prototype-{block_cycles}",
            BASE | {"NumPolicy": 1, "NumSad": 1, "NumAes": 1, "NumSha1": 1, "Serial": "1'b1",
                    "RoundsPerCycle": HMAC_ROUNDS[block_cycles]}, "measure")
        self.head(title)
        for size in SIZES:
            published = 8 * size * PROTOTYPE_MHZ / PROTOTYPE_CYCLES[size]
            cycles, _ = measure(program, "aes128-cbc", "sha1", size, 1)
            self.row("I", f"prototype hmac{block_cycles}", "aes128-cbc", size, 1, PROTOTYPE_MHZ,
                     published, 8 * size * PROTOTYPE_MHZ / cycles,
                     cost("aes128-cbc", "sha1", size, modules, block_cycles), published)

    def gcm(self):
        title = f"IX: aes128-gcm, one lane, {GCM_MHZ} MHz; the last line of a size is the endless stream's rate"
        if not self.wanted(title):
            return
        modules = {"policy": 8, "sad": 4, "cipher": 1, "hmac": 0}
        program = build_program("gcm", BASE | {"NumPolicy": 8, "NumSad": 4, "NumGcm": 1}, "measure")
        self.head(title)
        for size in SIZES:
            costs = cost("aes128-gcm", "none", size, modules, 0)
            for packets in STREAMS:
                cycles, between = measure(program, "aes128-gcm", "none", size, packets)
                self.row("IX", "8/4/1", "aes128-gcm", size, packets, GCM_MHZ, None,
                         8 * size * packets * GCM_MHZ / cycles, costs, None)
            steady = 8 * size * (packets - 1) * GCM_MHZ / between
            self.row("IX", "8/4/1 endless", "aes128-gcm", size, packets, GCM_MHZ, None, steady, costs,
                     GCM_TARGET[size])


    def write_csv(self):
        with open(ROOT / "build" / "tables.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(self.rows)

    def write_page(self):
        text = [PAGE]
        for line, cells in self.lines.items():
            blanks = [""] * (len(STREAMS) - len(cells))
            cells = [*blanks, *cells] if "endless" in line[1] else [*cells, *blanks]
            text.append("| " + " | ".join([*map(str, line), *cells, self.limits[line]]) + " |\n")
        (ROOT / "doc" / "tables.md").write_text("".join(text), encoding="utf-8")


PAGE = """# Rates, measured cell by cell

Written by `sim/tables.py --page`. Mbit/s of the packets that come in, from simulated cycles (first beat
in to last beat out) at the frequency of the published table; in brackets the ratio to the published
figure. Every packet that came out was decrypted and compared with what went in. Configurations are
policy/SAD/cipher/HMAC modules; `hmac40` and `hmac20` are the cycles of a SHA-1 block. Tunnel mode, IPv4.
The published cipher of the DES rows is ECB; ours of `des-cbc` has no published figure beside it, nor has
the AES-GCM lane (`endless`: the rate between the first packet's end and the last one's). The prototype is
a stream of one packet. The bound is that of an endless stream, from the cycles that each section needs.

| table | configuration | cipher | MHz | bytes | 16 packets | 32 | 64 | 128 | bound | binds |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def measure(program, cipher, auth, size, packets):
    """Cycles of a whole stream, and from its first packet's end to its last one's."""
    result = subprocess.run([program, cipher, auth, str(size), str(packets)], check=True, text=True,
                            stdout=subprocess.PIPE)
    return tuple(map(int, result.stdout.split()))


def main():
    page = sys.argv[1:] == ["--page"]
    tables = Tables([] if page else sys.argv[1:])
    for block_cycles in HMAC_ROUNDS:
        tables.prototype(block_cycles)
    for block_cycles in HMAC_ROUNDS:
        for config in CONFIGURATIONS:
            cipher = "aes128-cbc" if config.cipher == "aes" else "des-ecb"
            tables.published_configuration(config, cipher, block_cycles, first=True)
    for config in CONFIGURATIONS:
        if config.cipher == "des":
            tables.published_configuration(config, "des-cbc", 40, first=False)
    tables.gcm()
    if not tables.words:
        tables.write_csv()
    if page:
        tables.write_page()
    print(f"\n{len(tables.rows)} cells, {tables.missed} below their targets")
    return 1 if tables.missed else 0


if __name__ == "__main__":
    sys.exit(main())
