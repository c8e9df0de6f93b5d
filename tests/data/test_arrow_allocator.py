"""The allocator is chosen for this package's own processes and their children, before Arrow is loaded, and never overrides a user's
choice."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

from iceberg_ops.data.arrow.arrow_allocator import ALLOCATOR

CHOOSES = "from iceberg_ops.data.arrow.arrow_allocator import choose_allocator; choose_allocator(); import pyarrow as pa; "
IN_A_WORKER = (
    "import pyarrow as pa\nfrom iceberg_ops.actions.workers.worker_processes import WorkerProcesses\n"
    "with WorkerProcesses(1) as workers:\n"
    "    code = \"__import__('pyarrow').default_memory_pool().backend_name\"\n"
    "    print(*(answer.result() for _, answer in workers.answers(eval, [code])))\n"
)


def backend(code: str, **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k != ALLOCATOR}
    return subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.skipif("jemalloc" not in pa.supported_memory_backends(), reason="this Arrow is built without jemalloc")
@pytest.mark.parametrize(
    "code", [CHOOSES + "print(pa.default_memory_pool().backend_name)", IN_A_WORKER], ids=["this process", "workers"]
)
def test_jemalloc_is_chosen_where_arrow_has_it(code: str) -> None:
    assert backend(code) == "jemalloc"


def test_a_choice_that_was_made_stands() -> None:
    assert backend(CHOOSES + "print(pa.default_memory_pool().backend_name)", **{ALLOCATOR: "system"}) == "system"


def test_choosing_does_not_load_arrow() -> None:
    assert backend("import sys; " + CHOOSES.partition("import pyarrow")[0] + "print('pyarrow' in sys.modules)") == "False"
