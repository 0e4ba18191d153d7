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
