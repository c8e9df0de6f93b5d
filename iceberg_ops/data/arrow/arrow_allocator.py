"""Chooses Arrow's memory allocator in processes of this package.

Arrow's default, mimalloc, uses huge pages, and the kernel clears each page before use: a fifth of the CPU time of a rewrite was
spent there. jemalloc, which Arrow's Linux builds also contain, uses small pages. Arrow reads the choice from the environment when
it is loaded, so the choice must be made before that, and child processes inherit it. A value that a user has set is not changed.
"""

from __future__ import annotations

import os

ALLOCATOR = "ARROW_DEFAULT_MEMORY_POOL"
"""The environment variable, see Arrow's documentation of it."""


def wanted_allocator() -> str | None:
    """The value for the variable; None if it is already set, or this system's Arrow is built without jemalloc."""
    if ALLOCATOR in os.environ or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return None
    return "jemalloc"


def choose_allocator() -> None:
    """Choose for this process, if Arrow is not loaded yet, and for its child processes."""
    if (name := wanted_allocator()) is not None:
        os.environ[ALLOCATOR] = name
