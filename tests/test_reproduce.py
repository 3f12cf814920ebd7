"""`isrlu reproduce`: what is done stays done whatever happens, and every mishap is one clear line."""

import errno
import fcntl
import functools
import json
import os
import random
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from toy_cli import Cli, one_line

from isrlu_lab.experiments.experiment import Claim, Column, Table
from isrlu_lab.output_folder import OutputFolder

pytest.importorskip("typer")


def test_runs_all_and_writes_the_report(cli: Cli):
    process = cli.run("reproduce")
    assert process.returncode == 0, process.stderr
    assert cli.computed() == [str(part) for part in range(6)] * 2
    assert "paper" in process.stdout and "here" in process.stdout and "Parts of the toy" in process.stdout
    assert f"report: {cli.out / 'report.html'}" in process.stdout
    assert (cli.out / "report.html").stat().st_size > 10_000


def test_result_says_what_it_was_measured_on(cli: Cli):
    cli.run("reproduce", "toy")
    data = json.loads(cli.result.read_text())
    assert data["preset"] == "quick"
    environment = data["environment"]
    assert {"cpu", "simd", "threads", "versions", "date", "command", "seeds"} <= environment.keys()
    assert environment["seeds"] == [7]
    assert environment["command"].startswith("toy_experiment.py reproduce toy")


def test_done_is_not_done_again_unless_asked(cli: Cli):
    cli.run("reproduce", "toy")
    before = cli.result.read_bytes()
    cli.computed()
    process = cli.run("reproduce", "toy")
    assert process.returncode == 0 and "done toy" in process.stdout
    assert cli.computed() == [] and cli.result.read_bytes() == before
    assert cli.run("reproduce", "toy", "--again").returncode == 0
    assert len(cli.computed()) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--engine", "slurm", "unknown engine 'slurm': known are local, ray, ray:ADDRESS"),
        ("--shard", "3/2", "a shard is i/n with 1 <= i <= n, got '3/2'"),
        ("--data", "/no/such/folder", "no such data folder: /no/such/folder"),
    ],
)
def test_a_mistyped_option_is_told_before_anything_runs(cli: Cli, option: str, value: str, message: str):
    process = cli.run("reproduce", option, value)
    assert one_line(process) == f"isrlu: {message}" and process.returncode == 2
    assert cli.computed() == [] and not cli.out.exists()


def test_finished_parts_go_with_the_result(cli: Cli):
    """A later run measures anew rather than give old numbers a new date."""
    cli.run("reproduce", "toy", TOY_FAILS="1")
    assert len(cli.parts()) == 6
    cli.run("reproduce", "toy")
    assert cli.result.exists() and not cli.parts()


@pytest.mark.slow
def test_the_old_result_stays_until_there_is_a_new_one(cli: Cli):
    cli.run("reproduce", "toy")
    before = cli.result.read_bytes()
    assert cli.run("reproduce", "toy", "--again", TOY_FAILS="1").returncode == 1
    assert cli.result.read_bytes() == before and len(cli.computed()) == 12
    assert "done toy" in cli.run("reproduce", "toy").stdout


def test_full_preset_is_a_result_of_its_own(cli: Cli):
    cli.run("reproduce", "toy")
    assert cli.run("reproduce", "toy", "--full").returncode == 0
    assert len(cli.computed()) == 12
    assert json.loads((cli.out / "toy-full" / "result.json").read_text())["preset"] == "full"
    assert "full preset" in (cli.out / "report.html").read_text()


def test_list_names_each_with_its_times(cli: Cli):
    process = cli.run("reproduce", "--list")
    assert process.returncode == 0
    for word in ("toy", "other", "1 s", "2 s", "a toy"):
        assert word in process.stdout
    assert not cli.out.exists()


@pytest.mark.slow
def test_killed_at_random_moments_it_goes_on(cli: Cli):
    chance = random.Random(20171023)
    kills = 0
    for attempt in range(60):  # each with a little more time, in the end enough for a slow machine
        stored = cli.parts()
        cli.computed()
        process = cli.start("reproduce", "toy", TOY_SECONDS="0.1")
        try:
            _, stderr = process.communicate(timeout=chance.uniform(0.3, 1.3 + attempt / 10))
        except subprocess.TimeoutExpired:
            process.kill()
            _, stderr = process.communicate()
            kills += 1
        again = {f"part-{part}" for part in cli.computed()}
        assert not stored & again, "a finished part was computed again"
        assert "damaged" not in stderr and "Traceback" not in stderr
        if process.returncode == 0:
            break
    assert process.returncode == 0 and kills > 0
    assert [row[2] for row in json.loads(cli.result.read_text())["result"]["tables"][0]["rows"]] == [0, 1, 2, 3, 4, 5]
    assert not list(cli.out.rglob("*.part"))


@pytest.mark.slow
def test_interrupt_keeps_what_is_finished(cli: Cli):
    unblock = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
    process = cli.start("reproduce", TOY_SECONDS="1", preexec_fn=unblock)
    deadline = time.monotonic() + 60
    while "part-1" not in cli.parts():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.strip() == "isrlu: stopped in toy; 0 of 2 are finished: the same command resumes"
    cli.computed()
    assert cli.run("reproduce").returncode == 0
    assert "0" not in cli.computed()[:4] and cli.result.exists()


@pytest.mark.slow
def test_one_that_fails_is_told_and_the_other_runs(cli: Cli):
    cli.run("reproduce", "other")
    process = cli.run("reproduce", TOY_FAILS="1")
    assert process.returncode == 1
    lines = process.stderr.strip().splitlines()
    assert lines[0].startswith("isrlu: toy failed: RuntimeError: the toy is broken (traceback in ")
    assert lines[1] == "isrlu: 1 of 2 failed: toy" and len(lines) == 2
    assert "done other" in process.stdout
    assert "This experiment failed here: RuntimeError: the toy is broken" in (cli.out / "report.html").read_text()
    assert "and this line is for the traceback" in (cli.out / "toy-quick" / "failure.json").read_text()
    assert cli.run("reproduce").returncode == 0
    assert "This experiment failed" not in (cli.out / "report.html").read_text()


def test_unknown_name(cli: Cli):
    line = one_line(cli.run("reproduce", "tyo"))
    assert line == "isrlu: unknown experiment 'tyo' (did you mean toy?): known are toy, other"
    assert cli.run("reproduce", "tyo").returncode == 2
    assert not cli.out.exists()


def test_out_is_a_file(cli: Cli, tmp_path: Path):
    file = tmp_path / "file"
    file.touch()
    for out, message in (
        (file, "is not a folder"),
        (file / "below", "Not a directory"),
        (Path("/proc/results"), "cannot write"),
    ):
        process = cli.run("reproduce", out=out)
        assert message in one_line(process) and process.returncode == 2
    assert cli.computed() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(cli: Cli):
    cli.out.mkdir(mode=0o500)
    assert "Permission denied" in one_line(cli.run("reproduce"))


def test_full_disk_before_the_run(cli: Cli):
    limit = 64 << 10
    line = one_line(cli.run("reproduce", preexec_fn=lambda: _limit_files(limit)))
    assert "File too large" in line and cli.computed() == []


def _limit_files(size: int) -> None:
    signal.signal(
        signal.SIGXFSZ, signal.SIG_IGN
    )  # the write then fails with EFBIG, as it fails with ENOSPC on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_file_system_without_locks_is_used_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with OutputFolder(tmp_path).lock():
        pass


@pytest.mark.slow
def test_two_at_once_are_refused(cli: Cli):
    first = cli.start("reproduce", "toy", TOY_SECONDS="0.3")
    deadline = time.monotonic() + 60
    while not cli.parts():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    try:
        assert "another isrlu process is writing in" in one_line(cli.run("reproduce", "toy"))
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=60) == 0
    first.communicate()


def test_report_of_nothing(cli: Cli):
    assert "run `isrlu reproduce` first" in one_line(cli.run("report"))


def test_claims_and_tables_refuse_what_a_report_cannot_show():
    with pytest.raises(ValueError, match="needs a reason"):
        Claim("c", "s", "does not")
    with pytest.raises(ValueError, match="unknown verdict"):
        Claim("c", "s", "maybe")
    with pytest.raises(ValueError, match="a row of 1 cells under 2 columns"):
        Table("t", [Column("a"), Column("b")], [["x"]])
    with pytest.raises(ValueError, match="has no rows"):
        Table("t", [Column("a")], [])
    with pytest.raises(ValueError, match="unknown kind"):
        Column("a", "there")
