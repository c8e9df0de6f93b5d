"""The user documentation agrees with the code: options, error codes, commands, job specs, policies and links."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from iceberg_ops.catalog.configuration import CatalogFile
from iceberg_ops.cli.main import COMMANDS, cli
from iceberg_ops.cli.target import parse_options
from iceberg_ops.config.actions import ACTIONS, MAINTENANCE_ACTIONS, ROW_OPERATIONS, TABLE_ACTIONS, check_options
from iceberg_ops.config.document import from_json, from_yaml
from iceberg_ops.config.job_spec import JobSpec, check_fields
from iceberg_ops.config.policy import MaintenanceStep, Settings
from iceberg_ops.config.policy_lint import load_policy
from iceberg_ops.errors import ERROR_KINDS, ErrorKind
from iceberg_ops.expressions.scalars.functions import evaluated
from tests.docs.markdown import PAGES, ROOT, Command, anchors, blocks, commands, headings, links, rows, section

DOCS = ROOT / "docs"
OPERATIONS, RUNBOOKS, CLI, POLICIES = (DOCS / f"{name}.md" for name in ("operations", "runbooks", "cli", "policies"))
NOW_MS = 1_800_000_000_000
CODES = [kind.code for kind in ERROR_KINDS]


def option_rows(text: str) -> dict[str, tuple[str, str]]:
    """Option -> (default, meaning) of the tables headed option, default, meaning."""
    found = {}
    for table in re.findall(r"^\| option \| default \| meaning \|\n(?:\|.*\n)+", text, re.MULTILINE):
        for cells in rows(table):
            if cells[0].startswith("`"):
                found[cells[0].strip("`")] = (cells[1], cells[2])
    return found


# operations.md


@pytest.mark.parametrize("action", TABLE_ACTIONS)
def test_every_option_of_an_action_is_documented_with_its_default(action: str) -> None:
    documented = option_rows(section(OPERATIONS, action))
    assert {name: default for name, (default, _) in documented.items()} == {o.name: o.default for o in ACTIONS[action].options}


@pytest.mark.parametrize("action", TABLE_ACTIONS)
def test_an_option_without_effect_is_said_to_have_none(action: str) -> None:
    documented = option_rows(section(OPERATIONS, action))
    accepted = {o.name for o in ACTIONS[action].options if o.meaning.startswith("accepted")}
    assert {name for name, (_, meaning) in documented.items() if meaning.startswith("**No effect**")} == accepted


def test_every_option_of_row_operations_is_documented() -> None:
    known = {name for operation in ROW_OPERATIONS for name in ACTIONS[operation].option_names}
    assert set(option_rows(section(OPERATIONS, "Row operations"))) == known


@pytest.mark.parametrize("action", [*MAINTENANCE_ACTIONS, "add_files"])
def test_the_table_of_jobs_says_what_the_registry_says(action: str) -> None:
    assert f"| [{action}](#{action}) | {ACTIONS[action].purpose} |" in section(OPERATIONS, "Operations")


def test_every_job_has_a_section() -> None:
    assert {*TABLE_ACTIONS, *ROW_OPERATIONS} <= set(headings(OPERATIONS))


@pytest.mark.parametrize("action", MAINTENANCE_ACTIONS)
def test_every_count_of_a_report_is_explained(action: str) -> None:
    shared = {
        "rewrite_data_files": ["data_file_groups", "group_record"],
        "rewrite_position_delete_files": ["delete_groups"],
        "convert_equality_deletes": ["delete_groups"],
    }
    modules = [action, *shared.get(action, [])]
    source = "".join(next((ROOT / "iceberg_ops" / "actions").rglob(f"{module}.py")).read_text() for module in modules)
    counts = set(re.findall(r'"([a-z-]+-(?:count|bytes|applied))"', source))
    assert counts
    assert {name for name in counts if f"`{name}`" not in section(OPERATIONS, action)} == set()


# runbooks.md


def test_every_error_code_has_a_run_book_and_every_run_book_a_code() -> None:
    entries = {heading for heading in headings(RUNBOOKS) if re.fullmatch(r"[A-Z_]+", heading)}
    assert entries == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_a_run_book_says_what_it_means_and_whether_anything_is_changed(code: str) -> None:
    entry = section(RUNBOOKS, code)
    assert "**Means**" in entry or "Treat it as" in entry
    assert "**Changed:**" in entry or "Treat it as" in entry
    assert f"(#{code.lower()})" in section(RUNBOOKS, "Run books").partition("\n## ")[0]


@pytest.mark.parametrize("kind", ERROR_KINDS, ids=lambda kind: kind.code)
def test_the_table_of_codes_says_which_errors_airflow_tries_again(kind: ErrorKind) -> None:
    overview = section(RUNBOOKS, "Run books").partition("\n## ")[0]
    (row,) = (line for line in overview.splitlines() if line.startswith("|") and f"({kind.run_book})" in line)
    told = row.split("|")[3].strip()
    if kind.retry is None:
        assert told == "-"
    elif kind.retry.after_s is None:
        assert told == "no"
    else:
        minutes, seconds = divmod(kind.retry.after_s, 60)
        assert told == f"yes, after {f'{minutes} min' if minutes else f'{seconds} s'}"


def test_codes_that_docs_mention_exist() -> None:
    for page in PAGES:
        mentioned = set(re.findall(r"error: ([A-Z_]+):", page.read_text())) - {"CODE"}
        assert mentioned <= set(CODES), page.name


# cli.md


def _leaves(group: click.Group, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _leaves(command, (*prefix, name))
        else:
            yield " ".join((*prefix, name)), command


@pytest.mark.parametrize("name", [name for name, _ in _leaves(cli)])
def test_every_command_is_documented(name: str) -> None:
    assert f"`{name}`" in section(CLI, "The command line")
    assert any(command.whole and " ".join(command.arguments).startswith(name) for command in commands() if command.page == CLI.name)


@pytest.mark.parametrize(("name", "command"), list(_leaves(cli)), ids=str)
def test_every_option_of_a_command_is_documented_and_has_help(name: str, command: click.Command) -> None:
    text = CLI.read_text()
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts[0]} has no help"
            assert parameter.opts[0] in text, f"{name} {parameter.opts[0]} is not in cli.md"
    assert command.help, f"{name} has no help"


def test_the_table_of_commands_is_complete() -> None:
    assert set(COMMANDS) == {name.split()[0] for name, _ in _leaves(cli)}


@pytest.mark.parametrize("command", list(commands()), ids=lambda c: f"{c.page}: {c.text[:70]}")
def test_a_command_line_in_the_docs_parses(command: Command) -> None:
    words = [word for word in command.arguments if word != "..."]
    if words[0] == "COMMAND" or words[:2] == ["--debug", "COMMAND"]:
        return
    if words[-1] == "--help":
        assert words[0] in {"--help", *COMMANDS}
        return
    context = cli.make_context("iceberg-ops", list(words), resilient_parsing=not command.whole)
    group: click.Group = cli
    rest = [*context._protected_args, *context.args]
    while True:
        name, found, rest = group.resolve_command(context, rest)
        assert found is not None, f"no command {name!r}"
        context = found.make_context(name, list(rest), parent=context, resilient_parsing=not command.whole)
        if not isinstance(found, click.Group):
            break
        group, rest = found, [*context._protected_args, *context.args]
        if not rest:
            return
    action, options = context.params.get("action"), context.params.get("options")
    if action in ROW_OPERATIONS:
        ACTIONS[action].check_option_names(parse_options(options or ()))
    elif name in ("plan", "run") and action and action != "ACTION" and not command.refused:
        check_options(action, parse_options(options or ()), now_ms=NOW_MS)


# job specs, policies, catalogs


def _json_jobs() -> list[tuple[str, str]]:
    return [(page.name, body) for page in PAGES for body in blocks(page, "json") if '"job"' in body]


@pytest.mark.parametrize(("page", "body"), _json_jobs())
def test_a_job_spec_in_the_docs_parses(page: str, body: str) -> None:
    job = from_json(body, JobSpec, page)
    check_options(job.job, job.options, now_ms=NOW_MS)
    if job.job in ROW_OPERATIONS:
        check_fields(job)


def test_every_row_operation_has_an_example_that_can_be_run() -> None:
    assert {json.loads(body)["job"] for _, body in _json_jobs()} >= set(ROW_OPERATIONS)


@pytest.mark.parametrize(("page", "body"), [(page.name, body) for page in PAGES for body in blocks(page, "yaml")])
def test_yaml_in_the_docs_is_a_policy_that_lints_or_a_catalogs_file(page: str, body: str) -> None:
    if body.startswith("catalogs:"):
        assert from_yaml(body, CatalogFile, page).catalogs
    else:
        load_policy(body, page)


def test_every_setting_of_a_policy_is_documented() -> None:
    text = section(POLICIES, "The document")
    documented = {cells[0].strip("`") for cells in rows(text)}
    assert {*Settings.__struct_fields__, *MaintenanceStep.__struct_fields__} <= documented


# links


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_relative_links_resolve(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {target}"


def test_the_readme_leads_to_every_page() -> None:
    readable = {target.partition("#")[0] for page in PAGES for target in links(page)}
    assert {f"docs/{p.name}" for p in DOCS.glob("*.md")} <= {t if t.startswith("docs/") else f"docs/{t}" for t in readable}


def test_every_function_that_is_evaluated_without_spark_is_documented() -> None:
    names = evaluated().partition("||, and ")[2].split(", ")
    assert len(names) > 50
    assert [name for name in names if f"`{name}`" not in (DOCS / "cli.md").read_text()] == []
