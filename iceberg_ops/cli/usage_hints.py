"""Hints for arguments that a command does not accept: which command does, and how they are written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import click

from iceberg_ops.config.actions import ACTIONS

_SOURCES = "--from"
_SNAPSHOT = "--snapshot-id"
_EXTRA = re.compile(r"extra arguments? \((.*)\)")


def usage_hint(error: click.ClickException, arguments: Sequence[str]) -> str:
    """The text after the message of a usage error; empty if there is no hint. ``arguments``: the
    whole command line."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is None:
        return ""
    if isinstance(error, click.NoSuchOption):
        return _of_option(error.option_name, ctx, arguments)
    named = _EXTRA.search(error.message)
    if named and _SNAPSHOT in _names(ctx) and named[1].isdigit():
        return f": a snapshot is named by {_SNAPSHOT} {named[1]}"
    if named and _SOURCES in _names(ctx):
        extra = [a for a in arguments if a in named[1].split()] or ["PATH"]
        return f": rows come from {_SOURCES}, so {' '.join(f'{_SOURCES} {shlex.quote(a)}' for a in extra)}"
    return ""


def _of_option(given: str, ctx: click.Context, arguments: Sequence[str]) -> str:
    name = given.lstrip("-").replace("_", "-")
    takes = _names(ctx)
    if "--option" in takes:
        known = {a.replace("-", "_") for a in (str(ctx.info_name), *arguments)} & ACTIONS.keys()
        if any(option.name == name for action in known for option in ACTIONS[action].options):
            return f" It is an option of the job: --option {name}=VALUE"
    if name in ("source", "path", "file", "input") and _SOURCES in takes:
        return f" Rows come from {_SOURCES} PATH."
    return ""


def _names(ctx: click.Context) -> frozenset[str]:
    """The spellings of a command's options."""
    return frozenset(name for parameter in ctx.command.params if isinstance(parameter, click.Option) for name in parameter.opts)
