"""Each fault that was found in this package, and what of the torture fails because of it.

An example is a seed of ``test_interleaved_steps``, a case of an exhaustive test, or a scene. Here every example is played as the
package is now, where it has to pass. To see that the torture would find the fault again, ``make torture`` plays it once more in a
child process that switches off what mended it (``switched_off``): there it has to fail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.torture.playing import play
from tests.torture.scenes import SCENES
from tests.torture.staging import Case, Stage

ROOT = Path(__file__).parents[2]
SWITCH = "ICEBERG_OPS_SWITCHED_OFF"


@dataclass(frozen=True)
class Fault:
    """``example``: a seed, a case, or the name of a scene. ``switch``: ``module:function=expression``, the function's body for a
    child that is to have the fault again; empty: nothing that could be switched off by itself."""

    example: int | Case | str
    switch: str = ""

    def play(self) -> None:
        """Raises AssertionError where the fault is there."""
        if isinstance(self.example, int):
            play(self.example)
        elif isinstance(self.example, str):
            SCENES[self.example]()
        else:
            stage = Stage(self.example.shape)
            try:
                stage.check(self.example)
            finally:
                stage.close()
