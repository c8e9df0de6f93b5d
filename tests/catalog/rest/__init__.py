"""The REST catalog: against a server in this process (``fake_server``) for odd answers, and against Iceberg's own adapter."""
