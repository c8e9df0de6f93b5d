"""Documents that people write, and documents that this product writes: properties, options, policies, job specs, reports.

- ``actions`` is the registry of actions; ``options``, ``row_options`` and ``table_options`` are their options, as text and as
  typed values.
- ``properties`` are the table properties that this package reads, ``known_properties`` checks those that people set,
  ``catalog_properties`` and ``variables`` do so for catalogs and the environment.
- ``job_spec``, ``policy`` and ``report`` are documents, ``document`` reads and writes them. ``policy_lint`` explains every problem
  of one.
- ``secrets`` decides what must not be printed.

Elsewhere: what an action does with its options (``actions``).

    spec = from_json(data, JobSpec, "job.json")
"""
