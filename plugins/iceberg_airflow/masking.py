"""Secrets that Airflow does not mask by itself: it knows a connection's password only as it is written there."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.sdk.log import mask_secret


def mask(secrets: Iterable[str]) -> None:
    """Have these texts replaced by ``***`` in the task's log from now on."""
    for secret in secrets:
        mask_secret(secret)
