"""``python -m demo run|up|down``: the program behind ``make demo``, ``make up`` and ``make down``."""

from __future__ import annotations

import argparse
import signal
import sys
from datetime import timedelta
from types import FrameType

from rich.console import Console

from demo.places import Places
from demo.printing import Printer
from demo.processes import DemoError, running, stop_all
from demo.settings import USER, airflow_environment, password
from demo.story import FIRST_DAY, Story, start_components

MOST_DAYS = 28
_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Exit code 0, 1 for a failed step, 130 when interrupted."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="the whole demo, from scratch")
    run.add_argument("--days", type=int, default=5, help=f"how many days of flights, 2 to {MOST_DAYS}")
    commands.add_parser("up", help="start Airflow on what the demo left")
    commands.add_parser("down", help="stop what runs")
    chosen = parser.parse_args(arguments)
    if chosen.command == "run" and not 2 <= chosen.days <= MOST_DAYS:
        parser.error(f"--days {chosen.days} must be 2 to {MOST_DAYS}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    places = Places.of()
    printer = Printer()
    try:
        if chosen.command == "run":
            return _run(places, printer, chosen.days)
        return _up(places, printer) if chosen.command == "up" else _down(places, printer.console)
    except DemoError as e:
        printer.failure(e)
        return 1
    except KeyboardInterrupt:
        stop_all(places)
        printer.console.print("interrupted; Airflow is stopped")
        return _INTERRUPTED


def _run(places: Places, printer: Printer, days: int) -> int:
    Story(places, printer, [FIRST_DAY + timedelta(days=i) for i in range(days)]).tell()
    return 0


def _up(places: Places, printer: Printer) -> int:
    if not places.password_file.is_file():
        raise DemoError(f"there is nothing in {places.root} yet", next_step="run make demo first")
    with printer.step("start Airflow"):
        if not running(places):
            places.choose_port_again()
        start_components(places, airflow_environment(places))
    url = f"http://127.0.0.1:{places.api_port()}"
    printer.console.print(f"Airflow is at [bold]{url}[/], user {USER}, password {password(places)}", highlight=False)
    printer.console.print("try: DAG iceberg_maintenance, Trigger, choose a table and an action. make down stops it.")
    return 0


def _down(places: Places, console: Console) -> int:
    stopped = stop_all(places)
    console.print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
