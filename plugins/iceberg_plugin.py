"""Registers the plugin with Airflow."""
