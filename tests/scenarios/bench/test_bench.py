"""`culvert-bench` as its user sees it. What it measures is not judged here."""

import json
import select
import signal
import subprocess
import time

import pytest
from lab.planes import culvert_binary

SHORT = ("--engine", "openssl", "--repeat", "1", "--millis", "1", "--frames", "256")
#: Benchmarks that would take minutes.
LONG = {
    "esp": ("--repeat", "3", "--millis", "200"),
    "scale": ("--suite", "aes128gcm16"),
    "growth": (),
    "all": (),
}


def start(*arguments):
    command = [culvert_binary().with_name("culvert-bench"), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def first_line(process, within_s):
    ready, _, _ = select.select([process.stdout], [], [], within_s)
    assert ready, f"no line within {within_s} s"
    return process.stdout.readline()


@pytest.mark.parametrize("bench", LONG)
def test_an_interrupt_ends_it_within_a_second(plane, bench):
    arguments = ("--json",) if bench == "all" else ()
    process = start(*arguments, bench, *LONG[bench])
    try:
        if bench != "all":
            assert first_line(process, 60)
        else:
            time.sleep(1)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGINT)
        interrupted = time.monotonic()
        process.wait(10)
        # A second, and what a busy machine adds.
        assert time.monotonic() - interrupted < 3
        assert process.returncode == -signal.SIGINT
    finally:
        process.kill()
        process.communicate()


def test_json_rows_come_one_by_one(plane):
    process = start("--json", "esp", "--size", "64,512", *SHORT)
    try:
        row = json.loads(first_line(process, 60))
        assert row["bench"] == "esp" and row["size_bytes"] == 64
        assert process.poll() is None, "the first row came with the last"
        rest, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert len(rest.splitlines()) == 3 * 2 * 2 - 1
        assert errors == "", "progress is for terminals"
    finally:
        process.kill()


def test_a_table_has_one_head_and_aligned_rows(plane):
    process = start("forward", "--size", "64,512,1400", *SHORT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    about, empty, head, *rows = out.splitlines()
    assert "median of 1 x 1 ms" in about and empty == ""
    assert [row.split()[0] for row in rows] == ["64", "512", "1400"]
    at = head.index("BYTES")
    assert all(row[: at + 5].strip() == row.split()[0] for row in rows)


def test_a_closed_pipe_ends_it(plane):
    # It finds out with its next row: that comes soon.
    process = start("--json", "esp", "--repeat", "1", "--millis", "10")
    try:
        assert first_line(process, 60)
        process.stdout.close()
        process.wait(60)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
