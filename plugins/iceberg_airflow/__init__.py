"""The Airflow host: catalog connections, operators, retry policy, and DAGs built from a policy.

A task writes a job spec, starts an engine on it (``spark-submit`` or ``iceberg-ops``) and reads the action report; nothing else
travels between host and engine, so the same document runs by hand.
"""
