"""Registers the plugin with an Airflow whose plugins folder is this one.

If the package is installed, its entry point registers the plugin already, and this file does nothing: Airflow reports a plugin
that it finds twice as an import error.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from iceberg_airflow import plugin

if not entry_points(group="airflow.plugins", name=plugin.IcebergPlugin.name or ""):
    IcebergPlugin = plugin.IcebergPlugin
