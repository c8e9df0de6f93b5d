"""Masks secrets that Airflow does not mask itself: it knows a connection's password only as it is written there."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.sdk.log import mask_secret


def mask(secrets: Iterable[str]) -> None:
    """After this, these texts are replaced by ``***`` in the task's log."""
    for secret in secrets:
        mask_secret(secret)
