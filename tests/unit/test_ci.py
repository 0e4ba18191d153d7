"""`.ci/run`: what its table says of jobs that fail, and of those that are slow."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "run"


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    """Runs the script in a tree of its own, where the job `audit` has a budget of one second and
    does what it is told."""
    for name in ("setup", "check-dependencies", "check-crate-graph"):
        script = tmp_path / "scripts" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    copy = tmp_path / ".ci" / "run"
    shutil.copy(SCRIPT, copy)
    copy.write_text(re.sub(r"echo [0-9]+ ;;", "echo 1 ;;", copy.read_text()))

    def run(*arguments, audit="true", **environment):
        (tmp_path / "scripts" / "check-dependencies").write_text(f"#!/bin/sh\n{audit}\n")
        return subprocess.run(
            [copy, *arguments], capture_output=True, text=True, timeout=60,
            env={**os.environ, "CULVERT_BUDGET": "", **environment},
        )  # fmt: skip

    return run


def row(result, job):
    """A job's row of the table: verdict, seconds, seconds of processor time."""
    line = next(line for line in result.stdout.splitlines() if re.match(rf"{job} +[a-zA-Z]+ ", line))
    _, verdict, wall, cpu, *_ = line.split()
    return verdict, int(wall), int(cpu)


def test_jobs_within_their_budget_pass(run):
    result = run("audit", "crate-graph")
    assert result.returncode == 0, result.stdout + result.stderr
    assert row(result, "audit")[0] == row(result, "crate-graph")[0] == "ok"
    assert "all jobs passed" in result.stdout


def test_a_job_over_its_budget_is_slow_and_fails(run):
    result = run("audit", "crate-graph", audit="sleep 3")
    assert result.returncode == 1
    verdict, wall, cpu = row(result, "audit")
    assert verdict == "SLOW" and wall >= 3 and cpu <= 1
    assert row(result, "crate-graph")[0] == "ok"
    assert "failed: audit(slow)" in result.stdout


def test_budgets_can_be_switched_off(run):
    result = run("audit", audit="sleep 3", CULVERT_BUDGET="off")
    assert result.returncode == 0
    assert row(result, "audit")[0] == "ok"


def test_a_job_that_fails_is_told_and_the_others_run(run):
    result = run("audit", "crate-graph", audit="echo 3 checked, 1 wrong; exit 1")
    assert result.returncode == 1
    assert row(result, "audit")[0] == "FAILED" and row(result, "crate-graph")[0] == "ok"
    assert re.search(r"^audit .* 3 checked, 1 wrong$", result.stdout, re.MULTILINE)


def test_processor_time_is_the_jobs_own(run):
    busy = "exec /usr/bin/python3 -c 'import time\nwhile time.process_time() < 2: pass'"
    result = run("audit", "crate-graph", audit=busy, CULVERT_BUDGET="off")
    assert row(result, "audit")[2] >= 1 and row(result, "crate-graph")[2] == 0


@pytest.fixture(name="lanes")
def fixture_lanes(run, tmp_path):
    """Runs all jobs, which are these, with `build` in a lane of its own."""

    def lanes(build, crate_graph, scenarios="true"):
        script = tmp_path / ".ci" / "run"
        text = script.read_text()
        for pattern, to in (
            (r'^jobs=".*"', 'jobs="build crate-graph scenarios"'),
            (r'^lane=".*"', 'lane="build"'),
            (r"^job_build\(\) .*", f"job_build() {{ {build}; }}"),
            (r"^job_crate_graph\(\) .*", f"job_crate_graph() {{ {crate_graph}; }}"),
            (r"^job_scenarios\(\) .*", f"job_scenarios() {{ {scenarios}; }}"),
        ):
            text, count = re.subn(pattern, lambda _, to=to: to, text, flags=re.MULTILINE)
            assert count == 1, pattern
        script.write_text(text)
        return run(CULVERT_BUDGET="off")

    return lanes


def test_the_lane_goes_beside_the_other_jobs(lanes):
    meet = "touch {}; for i in 1 2 3 4 5 6 7 8 9; do [ ! -e {} ] || exit 0; sleep 1; done; exit 1"
    result = lanes(f"({meet.format('a', 'b')})", f"({meet.format('b', 'a')})")
    assert result.returncode == 0, result.stdout + result.stderr
    assert [row(result, job)[0] for job in ("build", "crate-graph", "scenarios")] == ["ok"] * 3


def test_what_runs_the_release_build_waits_for_the_lane(lanes):
    result = lanes("sleep 2; echo made; touch made", "[ ! -e made ]", "[ -e made ]")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.index("==> build\nmade") < result.stdout.index("==> scenarios")


def test_a_job_of_the_lane_that_fails_is_told(lanes):
    result = lanes("echo 2 checked; false", "sleep 1")
    assert result.returncode == 1 and "failed: build" in result.stdout
    assert row(result, "build")[0] == "FAILED"
    assert row(result, "crate-graph")[0] == row(result, "scenarios")[0] == "ok"


def test_a_lane_that_is_ended_fails(lanes):
    result = lanes("kill -9 $$", "sleep 1")
    assert result.returncode == 1 and "failed: build(no verdict)" in result.stdout
    assert "build: no verdict; the lane ended with status 137" in result.stdout


def test_an_unknown_job_is_refused(run):
    result = run("audits")
    assert result.returncode == 2 and "no job audits" in result.stderr


def test_every_job_has_a_function_and_a_sampled_one_its_whole():
    text = SCRIPT.read_text()
    jobs = re.search(r'^jobs="(.*)"$', text, re.MULTILINE)[1].split()
    full = re.search(r'^full="(.*)"$', text, re.MULTILINE)[1].split()
    for job in (*jobs, *full):
        assert re.search(rf"^job_{job.replace('-', '_')}\(\)", text, re.MULTILINE), job
    assert {name.removesuffix("-full") for name in full} <= set(jobs)
