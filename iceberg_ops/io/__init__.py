"""Bytes at locations."""
