"""Which allocator Arrow uses in processes that are ours alone.

Arrow's own choice, mimalloc, takes huge pages, and the kernel clears each before it hands it out: a fifth of the CPU time of a
rewrite went there. jemalloc, which is in Arrow's Linux builds too, takes small ones. Arrow reads the choice from the environment
when it is loaded, so it has to be made before, and child processes inherit it. Who set the variable before is not overruled.
"""

from __future__ import annotations

import os

ALLOCATOR = "ARROW_DEFAULT_MEMORY_POOL"
"""The environment variable, see Arrow's documentation of it."""


def wanted_allocator() -> str | None:
    """What to set the variable to; None where it is set already, or this system's Arrow is built without jemalloc."""
    if ALLOCATOR in os.environ or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return None
    return "jemalloc"


def choose_allocator() -> None:
    """Choose for this process, where Arrow is not loaded yet, and for those it starts."""
    if (wanted := wanted_allocator()) is not None:
        os.environ[ALLOCATOR] = wanted
