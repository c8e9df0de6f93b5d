"""Avro for manifests: containers, schemas, records; decoded as columns if the schema allows it.

container = read_container(data, name)
"""
