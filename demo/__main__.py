"""``python -m demo run|up|down``: the program behind ``make demo``, ``make demo-cluster``, ``make up`` and ``make down``."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from datetime import timedelta
from types import FrameType

from rich.console import Console

from demo.cluster_stack import ClusterStack
from demo.places import PROJECT, Places
from demo.printing import Printer
from demo.processes import DemoError, running, stop_all
from demo.settings import USER, airflow_environment, password, write_catalogs_file
from demo.stack import LocalStack, Stack
from demo.story import FIRST_DAY, Story, start_components, start_servers

STACKS: dict[str, Stack] = {
    "local": LocalStack(Places.of(PROJECT / "build" / "demo")),
    "cluster": ClusterStack(Places.of(PROJECT / "build" / "demo-cluster")),
}
DAYS = {"local": 5, "cluster": 2}
"""How many days of flights by default: each is one more Spark application, which takes longer to start on a cluster."""
MOST_DAYS = 28
_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Exit code 0, 1 for a failed step, 130 when interrupted."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="the whole demo, from scratch")
    run.add_argument("--days", type=int, help=f"how many days of flights, 2 to {MOST_DAYS}")
    up = commands.add_parser("up", help="start Airflow, and the servers it needs, on what the demo left")
    for command in (run, up):
        command.add_argument("--stack", choices=list(STACKS), default="local", help="the surroundings of the demo")
    down = commands.add_parser("down", help="stop what runs, of every stack")
    down.add_argument("--remove", action="store_true", help="and remove what the demo left")
    chosen = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    printer = Printer()
    if chosen.command == "down":
        return _down(printer.console, remove=chosen.remove)
    days = DAYS[chosen.stack] if chosen.command == "up" or chosen.days is None else chosen.days
    if not 2 <= days <= MOST_DAYS:
        parser.error(f"--days {days} must be 2 to {MOST_DAYS}")
    stack = STACKS[chosen.stack]
    try:
        return _up(stack, printer) if chosen.command == "up" else _run(stack, printer, days)
    except DemoError as e:
        stop_all(stack.places)
        printer.failure(e)
        return 1
    except KeyboardInterrupt:
        stopped = stop_all(stack.places)
        printer.console.print(f"interrupted; {', '.join(stopped) or 'all servers'} stopped", highlight=False)
        return _INTERRUPTED


def _run(stack: Stack, printer: Printer, days: int) -> int:
    Story(stack, printer, [FIRST_DAY + timedelta(days=i) for i in range(days)]).tell()
    return 0


def _up(stack: Stack, printer: Printer) -> int:
    places = stack.places
    if not places.password_file.is_file():
        raise DemoError(f"there is nothing in {places.root} yet", next_step="run the demo first")
    with printer.step("start Airflow, and the servers it needs") as step:
        if not running(places):
            places.choose_ports_again()
            write_catalogs_file(stack)
        start_servers(stack, step)
        start_components(places, airflow_environment(stack))
    url = f"http://127.0.0.1:{places.api_port()}"
    printer.console.print(f"Airflow is at [bold]{url}[/], user {USER}, password {password(places)}", highlight=False)
    printer.console.print("try: DAG iceberg_maintenance, Trigger, choose a table and an action. make down stops it.")
    return 0


def _down(console: Console, *, remove: bool) -> int:
    stopped = [name for stack in STACKS.values() for name in stop_all(stack.places)]
    console.print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    for stack in STACKS.values() if remove else ():
        stack.remove()
        shutil.rmtree(stack.places.root, ignore_errors=True)
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Once: a second one must not end the stopping of servers."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
