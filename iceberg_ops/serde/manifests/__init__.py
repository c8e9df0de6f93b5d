"""Manifests and manifest lists as bytes (spec: "Manifests"): read by rows or by columns, written, rewritten, copied.

entries = read_manifest(data, manifest_file, partition_type)
"""
