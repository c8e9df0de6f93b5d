"""Credentials of AWS, for every service that requests are signed for: S3, Glue, REST catalogs, and STS itself.

- ``keys``: keys that expire, and a source that renews them before.
- ``key_selection``: selects the source from a catalog's properties, the environment and the machine. The entry point.
- ``profiles``: the files in ``~/.aws``.
- ``sources``: keys from roles, identities, single sign-on, programs, containers and instances.
- ``asking``: requests to the services that issue them; ``signature``: Signature Version 4.
"""
