"""Builds simulated gateways: Verilator's C++ model of cv_gateway, and programs around it.

    python sim/build.py NAME [PROGRAM...] [PARAMETER=VALUE...]

makes build/gateway/NAME/libgateway.a (the C interface of gateway.h; link it with -lstdc++ -lpthread)
from cv_gateway with these parameters, and the programs (loop, measure) that are named. Two parameters
are not the gateway's: assertions are checked unless `assert` is 0; `optimise` is the compiler's level
for the model, at first 1, where 0 compiles in a third of the time and runs at a fraction of the speed.
"""

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SIM = Path(__file__).resolve().parent
ROOT = SIM.parent
RTL = ROOT / "rtl"
BUILD = ROOT / "build" / "gateway"
FOLDERS = ("common", "crypto", "esp", "policy", "sad", "gateway")
# What the programs share.
SUPPORT = ("keys", "records", "packet", "esp")

sys.path.insert(0, str(ROOT / "tb"))

CXX = os.environ.get("CXX", "g++")
CXXFLAGS = ["-std=c++17", "-Wall", "-Wextra", "-O2"]
MODEL_FLAGS = ["-std=c++17", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TRACE=0", "-DVM_TIMING=0"]
OURS = {"assert": 1, "optimise": 1}


def sources():
    """Packages first, folder by folder."""
    files = [file for folder in FOLDERS for file in sorted((RTL / folder).glob("*.sv"))]
    return ([f for f in files if f.stem.endswith("_pkg")] +
            [f for f in files if not f.stem.endswith("_pkg")])


def digest(parameters):
    """Changes whenever the model would."""
    state = hashlib.sha256(repr(sorted(parameters.items())).encode())
    for file in [*sources(), *sorted((RTL / "include").iterdir()), RTL / "lint.vlt",
                 SIM / "model.vlt", Path(__file__)]:
        state.update(file.read_bytes())
    return state.hexdigest()


def run(command, log):
    with open(log, "a", encoding="utf-8") as out:
        out.write(" ".join(map(str, command)) + "\n")
        out.flush()
        if subprocess.run(command, check=False, stdout=out, stderr=subprocess.STDOUT).returncode:
            raise RuntimeError(f"{command[0]} failed; see {log}")


def compile_all(files, target, flags, log):
    """Compiles C++ files into `target`, in parallel; leaves alone what is newer than its sources."""
    target.mkdir(parents=True, exist_ok=True)
    headers = max(f.stat().st_mtime for f in SIM.glob("*.h"))

    def one(file):
        out = target / f"{file.stem}.o"
        if not out.exists() or out.stat().st_mtime < max(file.stat().st_mtime, headers):
            # Several builds may share a target.
            part = out.with_suffix(f".{os.getpid()}")
            run([CXX, *flags, "-c", file, "-o", part], log)
            part.replace(out)
        return out

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, files))


def gather(files, prefix, count=6):
    """Few files that include all of `files`, of about equal sizes: the model's header is long."""
    groups = [[0, []] for _ in range(count)]
    for file in sorted(files, key=lambda f: -f.stat().st_size):
        smallest = min(groups, key=lambda group: group[0])
        smallest[0] += file.stat().st_size
        smallest[1].append(f'#include "{file.name}"\n')
    out = []
    for number, (_, lines) in enumerate(groups):
        out.append(prefix.with_name(f"{prefix.name}{number}.cpp"))
        out[-1].write_text("".join(lines), encoding="utf-8")
    return out


def build_library(name, parameters):
    """Verilates and compiles one gateway; returns the folder of libgateway.a."""
    from run import find_verilator

    verilator = find_verilator()
    home = os.environ.get("VERILATOR_ROOT") or subprocess.run(
        [verilator, "--getenv", "VERILATOR_ROOT"], check=True, text=True,
        stdout=subprocess.PIPE).stdout.strip()
    include = Path(home) / "include"
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    library, stamp, log = folder / "libgateway.a", folder / "stamp", folder / "build.log"
    model_flags = [*MODEL_FLAGS, f"-I{include}", f"-I{include / 'vltstd'}", f"-I{folder / 'model'}"]
    fast = f"-O{(OURS | parameters)['optimise']}"
    want = digest(parameters)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != want:
        stamp.unlink(missing_ok=True)
        for old in [*(folder / "model").glob("*"), *(folder / "objects").glob("V*"), log]:
            old.unlink(missing_ok=True)
        constants = {k: v for k, v in parameters.items() if k not in OURS}
        run([verilator, "--cc", "-Mdir", folder / "model", "--prefix", "Vtop", "--top-module",
             "cv_gateway", *(["--assert"] if int((OURS | parameters)["assert"]) else ["--no-assert"]),
             f"-I{RTL / 'include'}", "--timescale", "1ns/1ps", RTL / "lint.vlt", SIM / "model.vlt",
             "-O3", "--x-assign", "fast", "--output-split", "40000",
             # Wide headers: loops over their words, not a statement for each.
             "--expand-limit", "4",
             *(f"-G{key}={value}" for key, value in constants.items()), *sources()], log)
        files = sorted((folder / "model").glob("*.cpp"))
        compile_all(gather([f for f in files if "Slow" not in f.name], folder / "model" / "VFast"),
                    folder / "objects", [*model_flags, fast], log)
        # What runs once is not optimised.
        compile_all(gather([f for f in files if "Slow" in f.name], folder / "model" / "VSlow"),
                    folder / "objects", [*model_flags, "-O0"], log)
        stamp.write_text(want, encoding="utf-8")
    model = sorted((folder / "objects").glob("V*.o"))
    runtime = compile_all([include / "verilated.cpp", include / "verilated_threads.cpp"],
                          BUILD / "runtime", [*model_flags, "-O2"], log)
    ours = compile_all([SIM / "gateway.cpp"], folder / "objects", [*CXXFLAGS, *model_flags], log)
    parts = [*model, *runtime, *ours]
    if not library.exists() or library.stat().st_mtime < max(p.stat().st_mtime for p in parts):
        library.unlink(missing_ok=True)
        run(["ar", "rcs", library, *parts], log)
    return folder


def build_program(name, parameters, program):
    """Builds a gateway and a program of this folder around it; returns the program's path."""
    folder = build_library(name, parameters)
    log = folder / "build.log"
    objects = compile_all([SIM / f"{part}.cpp" for part in (*SUPPORT, program)],
                          BUILD / "support", CXXFLAGS, log)
    out = folder / program
    inputs = [*objects, folder / "libgateway.a"]
    if not out.exists() or out.stat().st_mtime < max(p.stat().st_mtime for p in inputs):
        run([CXX, "-o", out, *inputs, "-lcrypto", "-lpthread"], log)
    return out


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    name, *rest = sys.argv[1:]
    parameters = dict(a.split("=", 1) for a in rest if "=" in a)
    programs = [a for a in rest if "=" not in a]
    folder = build_library(name, parameters)
    for program in programs:
        build_program(name, parameters, program)
    print(folder / "libgateway.a")
    return 0


if __name__ == "__main__":
    sys.exit(main())
