"""The result of a committed rewrite, with the deletes that it carried over (``carry_over``). A separate module, because it does not
load Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.spec.content_files import DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOver:
    """A committed rewrite and the deletes that were carried over, in ``rounds`` rounds (0: there were no concurrent deletes).

    ``rows`` maps each new data file to the number of its rows that these delete; ``deletes`` are the files they were written to."""

    committed: Committed
    rounds: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    deletes: tuple[DataFile, ...] = ()
