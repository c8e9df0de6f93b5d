"""Rules for every call of the command line: one line for an error, the exit code, a fast start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.plan_table import make_table
from iceberg_ops.cli.main import COMMANDS, run
from tests.cli.conftest import Cli

HEAVY = ("pyarrow", "polars", "sqlglot", "sqlalchemy", "fastavro", "numpy", "rich", "pyspark", "airflow")


def imported_after(statement: str) -> list[str]:
    code = f"import sys\n{statement}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_starting_imports_nothing_heavy() -> None:
    assert imported_after("import iceberg_ops.cli.main") == []


def test_no_command_imports_pandas_though_arrow_would() -> None:
    code = (
        "import sys\nfrom iceberg_ops.data.arrow.pandas_kept_out import keep_pandas_out\nkeep_pandas_out()\nimport pyarrow\n"
        "import iceberg_ops.data.reading.reader, iceberg_ops.scan.columnar_pruning\n"
        "pyarrow.array([1]).to_pylist()\nprint('pandas' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "False\n"


def test_worker_processes_import_no_pandas() -> None:
    code = (
        "from iceberg_ops.actions.workers.worker_processes import WorkerProcesses\n"
        "import pyarrow\n"
        "with WorkerProcesses(1) as workers:\n"
        "    [_ for _, answer in workers.answers(pyarrow.array, [[1]]) if answer.result()]\n"
        "    print(*(a.result() for _, a in workers.answers(eval, [\"'pandas' in __import__('sys').modules\"])))\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "False\n"


COMMANDS_ON_A_SMALL_TABLE = {
    "files": ["files", "TABLE", "--json"],
    "files by a column": ["files", "TABLE", "--where", "id >= 5", "--json"],
    "files by what is computed": ["files", "TABLE", "--where", "id >= 5 AND id % 2 = 1", "--json"],
    "plan": ["plan", "rewrite_data_files", "TABLE", "--json"],
    "inspect": ["inspect", "TABLE", "files", "--json"],
    "check": ["check", "TABLE", "--json"],
}


@pytest.mark.parametrize("name", COMMANDS_ON_A_SMALL_TABLE)
def test_a_command_on_a_small_table_needs_no_pandas(name: str, tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", 40)
    arguments = [table.metadata_location if a == "TABLE" else a for a in COMMANDS_ON_A_SMALL_TABLE[name]]
    code = f"import sys, atexit\nsys.argv[1:] = {arguments!r}\n" + (
        "heavy = {'pandas', 'polars', 'numpy', 'pyarrow'}\n"
        "atexit.register(lambda: print(*heavy & set(sys.modules), file=sys.stderr))\n"
        "from iceberg_ops.cli.main import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = done.stderr.splitlines()[-1].split()
    assert not {"pandas", "polars"} & set(loaded)
    if name.startswith("files"):
        assert loaded == []
        assert len(json.loads(done.stdout)) == 40


def test_help_imports_no_command() -> None:
    assert imported_after("from iceberg_ops.cli.main import cli\ncli.get_help(__import__('click').Context(cli))") == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_registered_command_explains_itself(name: str, cli: Cli) -> None:
    shown = cli(name, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert "Usage: iceberg-ops" in shown.out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nope"], "error: USAGE: no command 'nope'"),
        (["scan"], "error: USAGE: Missing argument 'TABLE'."),
        (["scan", "/no/such/table"], "error: NO_SUCH_TABLE: "),
        (["scan", "table"], "error: NO_SUCH_TABLE: no table 'table': must be catalog.namespace.name or an existing path"),
        (["scan", "other.ns.t"], "error: BAD_OPTION: catalog 'other' is not configured: known are lake"),
        (["scan", "lake.ns.t"], "error: NO_SUCH_TABLE: "),
        (["files", "/x", "--map-location", "a"], "error: BAD_OPTION: --map-location 'a': must be FROM=TO"),
        (["scan", "/x", "--as-of", "noon"], "error: "),
        (["scan", "/x", "--columns", "a,,b"], "error: BAD_OPTION: --columns 'a,,b'"),
        (["scan", "/x", "--json", "--format", "csv"], "error: BAD_OPTION: --json and --format csv were given"),
        (["inspect", "/x", "nothing"], "error: USAGE: no topic 'nothing': the topics are snapshots, "),
        (["evolve", "/x", "DROP COLUMN a"], "error: BAD_OPTION: /x: a table given by its path is only read"),
    ],
)
def test_an_error_is_one_line_and_exit_code_1(cli: Cli, arguments: list[str], line: str) -> None:
    done = cli(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(line)
    assert done.err.count("\n") == 1


def test_a_bad_row_in_an_error_does_not_steer_the_terminal(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n\x9b2J\x08x\n")
    assert cli("create", "lake.ns.t", "id int").code == 0
    failed = cli("append", "lake.ns.t", "--from", str(tmp_path / "a.csv"))
    assert (failed.code, failed.err.count("\\x9b2J\\x08x"), "\x9b" in failed.err) == (1, 2, False)


def test_an_unexpected_error_is_one_line_too_and_debug_shows_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("iceberg_ops.cli.files.open_table", broken)
    assert run(["files", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "error: INTERNAL: ZeroDivisionError: a b (--debug shows where)\n"
    assert run(["files", str(tmp_path), "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_has_enough_is_no_error() -> None:
    code = "import sys; from iceberg_ops.cli.main import main; sys.argv[1:] = ['--help']; main()"
    shell = f'{sys.executable} -c "{code}" | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_warnings_of_libraries_do_not_stand_beside_the_line_of_an_error() -> None:
    """SQLAlchemy's did, so that a script read the wrong line."""
    code = (
        "import sys, warnings, iceberg_ops.cli.main as m\n"
        "def run(arguments):\n    warnings.warn('a library says'); print('error: IO: x', file=sys.stderr); return 1\n"
        "m.run = run; m.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: IO: x\n")
    done = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=False)
    assert "a library says" in done.stderr
