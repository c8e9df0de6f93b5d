"""A torture test of real Airflow: ``python -m tests.scheduler_torture`` (part of ``make torture``).

Api-server, scheduler and dag-processor run as in the demo, on loopback and sqlite. Tasks, their engines and the scheduler are
killed; runs are cleared after other runs, after their list of files changed, and under unusual ids; policies contain the mistakes
that people make. Afterwards every table has each row once, every state that Airflow shows is true, and no process, file with
secrets or secret is left.
"""
