"""Avro as manifests use it: containers, schemas, records; read as columns where the schema allows it.

container = read_container(data, name)
"""
