"""Credentials of AWS, for every service that requests are signed for: S3, Glue, REST catalogs, and STS itself.

- ``keys``: keys that expire, and a source that renews them before.
- ``found_keys``: which source a catalog's properties, the environment and the machine name. The way in.
- ``profiles``: the files in ``~/.aws``.
- ``sources``: keys from roles, identities, single sign-on, programs, containers and instances.
- ``asking``: requests to the services that give them; ``signature``: Signature Version 4.
"""
