"""``--help`` of a command that runs actions: the options of the action, with their defaults, from the registry."""

from __future__ import annotations

import click

from iceberg_ops.config.actions import ACTIONS, Action


class ActionCommand(click.Command):
    """``plan`` and ``run``: if an action is given, ``--help`` describes that action."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = next((action for word in args if (action := ACTIONS.get(word.replace("-", "_"))) is not None), None)
        if named is not None and {"-h", "--help"} & {*args}:
            formatter = ctx.make_formatter()
            formatter.write_usage(ctx.command_path, f"[OPTIONS] {named.name} TABLE")
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"{named.name}: {named.purpose}.")
            write_options(formatter, named)
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} --help shows what every action takes.")
            click.echo(formatter.getvalue(), nl=False)
            ctx.exit()
        return super().parse_args(ctx, args)


class RowCommand(click.Command):
    """A command that is itself an action: ``--help`` ends with the action's options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(formatter, ACTIONS[str(self.name)])


def write_options(formatter: click.HelpFormatter, action: Action) -> None:
    """The section of an action's options; empty for an action without options."""
    if action.options:
        with formatter.section("Options of the job, each as --option KEY=VALUE"):
            formatter.write_dl([(option.name, f"{option.meaning} [default: {option.default}]") for option in action.options])
