"""Loads DAG files here too: Airflow's test home and connections are those of its own tests."""

from __future__ import annotations

from tests.airflow import conftest as _airflow_home

__all__ = ["_airflow_home"]
