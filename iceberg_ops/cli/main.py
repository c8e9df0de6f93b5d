"""The entry point of ``iceberg-ops``: finds the command, converts errors to one line, sets the exit code.

Each command is in its own module, which is imported only when it runs: a new command is one row of ``COMMANDS``. This module
imports nothing heavy, because every call pays for it.

Exit codes: 0 done, or nothing to do; 2 a plan found work; 1 an error, 130 a Ctrl-C, both with exactly one line ``error: CODE:
message`` on standard error. ``--debug`` adds the traceback. If standard output cannot be written, a command that changes tables
keeps its code and adds a line ``warning: ...``; one that only reads ends with 1.

Blank arguments are errors: they come from shell variables without a value.
"""

from __future__ import annotations

import importlib
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from iceberg_ops import __version__
from iceberg_ops.cli.exit_codes import STOPPED, WORK_FOUND
from iceberg_ops.cli.known_secrets import begin, known_secrets
from iceberg_ops.cli.standard_output import ReaderGone, is_only_shown, lasting_output, lost_output
from iceberg_ops.config.given_text import check_text
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.config.secrets import hide, hide_in_logs
from iceberg_ops.data.arrow.arrow_allocator import choose_allocator
from iceberg_ops.data.arrow.pandas_kept_out import keep_pandas_out
from iceberg_ops.errors import CORRECT, IcebergOpsError, next_step_after


class CommandEntry(NamedTuple):
    """The place of a command (module, attribute), its help line, and whether it changes tables, known without importing it."""

    module: str
    attribute: str
    help: str
    changes: bool = False


COMMANDS: dict[str, CommandEntry] = {
    "scan": CommandEntry("iceberg_ops.cli.scan", "scan", "Print the rows of a table."),
    "files": CommandEntry("iceberg_ops.cli.files", "files", "List the data files that a scan reads, with their delete files."),
    "inspect": CommandEntry(
        "iceberg_ops.cli.inspection", "inspect", "Show snapshots, refs, manifests, files, partitions and other metadata."
    ),
    "check": CommandEntry("iceberg_ops.cli.check", "check", "Check that all files of a table exist and agree with its metadata."),
    "ls": CommandEntry("iceberg_ops.cli.catalogs", "ls", "List catalogs, or the namespaces and tables of one."),
    "namespace": CommandEntry(
        "iceberg_ops.cli.catalogs", "namespace", "Show a namespace's properties, create it, or drop it.", changes=True
    ),
    "create": CommandEntry("iceberg_ops.cli.create", "create", "Create a table.", changes=True),
    "evolve": CommandEntry(
        "iceberg_ops.cli.evolve", "evolve", "Change schema, partitioning, sort order or properties.", changes=True
    ),
    "rename": CommandEntry("iceberg_ops.cli.catalogs", "rename", "Rename a table.", changes=True),
    "drop": CommandEntry("iceberg_ops.cli.catalogs", "drop", "Drop a table; its files stay unless --purge is given.", changes=True),
    "branch": CommandEntry("iceberg_ops.cli.refs", "branch", "Create, move or drop a branch.", changes=True),
    "tag": CommandEntry("iceberg_ops.cli.refs", "tag", "Create, move or drop a tag.", changes=True),
    "rollback": CommandEntry("iceberg_ops.cli.refs", "rollback", "Roll a branch back to an earlier snapshot.", changes=True),
    "publish": CommandEntry("iceberg_ops.cli.refs", "publish", "Publish a staged snapshot, or cherry-pick one.", changes=True),
    "append": CommandEntry("iceberg_ops.cli.rows", "append", "Append rows.", changes=True),
    "overwrite": CommandEntry("iceberg_ops.cli.rows", "overwrite", "Replace rows.", changes=True),
    "upsert": CommandEntry("iceberg_ops.cli.rows", "upsert", "Replace rows by key, without reading the table.", changes=True),
    "delete": CommandEntry("iceberg_ops.cli.rows", "delete", "Delete rows.", changes=True),
    "update": CommandEntry("iceberg_ops.cli.rows", "update", "Update rows.", changes=True),
    "merge": CommandEntry("iceberg_ops.cli.rows", "merge", "Merge rows: update, delete, insert.", changes=True),
    "plan": CommandEntry("iceberg_ops.cli.maintenance", "plan", "Show what a maintenance action would do."),
    "run": CommandEntry("iceberg_ops.cli.maintenance", "run", "Run a maintenance action, or a job spec.", changes=True),
    "import": CommandEntry(
        "iceberg_ops.cli.imports", "import_folder", "Create a table from existing Parquet files without copying them.", changes=True
    ),
    "register": CommandEntry(
        "iceberg_ops.cli.imports", "register", "Add a table to a catalog from its metadata file.", changes=True
    ),
    "health": CommandEntry("iceberg_ops.cli.health", "health", "Show which maintenance tables need, and why."),
    "catalog": CommandEntry("iceberg_ops.cli.catalog_test", "catalog", "Test a catalog and its store step by step."),
    "policy": CommandEntry("iceberg_ops.cli.policy", "policy", "Check and explain maintenance policies."),
}


_ONLY_SHOW = frozenset({"--dry-run", "--help", "-h"})
"""With these options no command changes anything."""


class _EndedWith(Exception):
    """Carries an exception of a command past click, which handles every Ctrl-C itself and treats every broken pipe as success."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (OSError, KeyboardInterrupt) as e:
            raise _EndedWith(e) from e

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}; iceberg-ops --help lists them")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="iceberg-ops")
@click.option("--debug", is_flag=True, help="Print the traceback of an error too.")
def cli(debug: bool) -> None:
    """Read, check and maintain Apache Iceberg tables.

    TABLE is catalog.namespace.name, or the path of a table folder or metadata file, which is then only read.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    begin()
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    try:
        check_arguments(arguments)
        code = cli.main(arguments, prog_name="iceberg-ops", standalone_mode=False)
        return _with_output(arguments, code if isinstance(code, int) else 0)
    except ReaderGone:
        return _with_output(arguments, 0)
    except _EndedWith as e:
        return _failed(e.error, arguments, debug)
    except (Exception, KeyboardInterrupt) as e:  # noqa: BLE001 - the last line of defence: an on-call script must see one line and exit code 1
        return _failed(e, arguments, debug)


def _with_output(arguments: Sequence[str], code: int) -> int:
    """The exit code of a command that ended with ``code``. A command that changes tables keeps it even if its output is lost,
    because the code shows the result of the work. A command that only shows something (also a dry run or help) fails if its output
    is lost."""
    name = next((a for a in arguments if not a.startswith("-")), "")
    entry = COMMANDS.get(name)
    only_shown = code == WORK_FOUND or not _ONLY_SHOW.isdisjoint(arguments) or is_only_shown()
    changes = entry is not None and entry.changes and not only_shown
    lost = lost_output(of_done_work=changes)
    if lost is None:
        return code
    if changes:
        done = f"{name} is done (exit code {code})"
        click.echo(f"warning: {done}, but standard output could not be written: {lost}", err=True)
        return code
    return _fail("IO", f"standard output could not be written: {lost}; nothing was changed", False)


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise OptionError for an argument that is blank, or not UTF-8 (Python reads it as lone surrogates)."""
    before = ""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if argument.startswith("--") and equals:
            check_text(option, value)
        else:
            check_text(before if before.startswith("-") else "an argument", argument)
        before = argument


def _failed(error: BaseException, arguments: Sequence[str], debug: bool) -> int:
    """One line for an error. An interrupt whose commit may have happened is reported as an unknown outcome."""
    if isinstance(error, IcebergOpsError):
        return _fail(error.code, str(error), debug, next_step=next_step_after(error))
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        _fail("INTERRUPTED", "stopped by the user", debug)
        return STOPPED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return 1
    if isinstance(error, click.ClickException):
        from iceberg_ops.cli.usage_hints import usage_hint

        return _fail("USAGE", error.format_message() + usage_hint(error, arguments), debug)
    if isinstance(error, OSError):
        return _fail("IO", f"{error.filename or ''}: {error.strerror or error}".removeprefix(": "), debug)
    return _fail("INTERNAL", f"{type(error).__name__}: {error} (--debug shows where)", debug)


def _fail(code: str, message: str, debug: bool, *, next_step: str = "") -> int:
    """``next_step`` is for people at a terminal: programs, and Airflow's log, read the last line as the error. Control characters,
    for example of a bad row, are escaped."""
    from iceberg_ops.cli.output import visible

    secrets = known_secrets()
    if debug:
        click.echo(hide(traceback.format_exc(), secrets), err=True, nl=False)
    click.echo(f"error: {code}: {visible(hide(' '.join(message.split()), secrets))}", err=True)
    if next_step not in ("", CORRECT) and sys.stderr is not None and sys.stderr.isatty():
        click.echo(f"next: {next_step}", err=True)
    return 1


def main() -> None:
    """The ``iceberg-ops`` script."""
    choose_allocator()
    keep_pandas_out()
    hide_in_logs(known_secrets)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings of libraries about themselves: standard error is for events of the command
    with lasting_output():
        code = run(sys.argv[1:])
    sys.exit(code)


if __name__ == "__main__":
    main()
