"""Where work is done: the protocol of runners, and this machine's.

``runner`` is the protocol of what runs stages of work (Spark's is in ``spark_jobs``). ``local_runner`` runs them in this process
or, with ``worker_processes``, in several, each of which is a ``worker_main``; ``worker_frames`` is how they talk. ``progress``
counts what is done, ``listing`` lists a store's folders with a runner.

Not here: what the work is (``groups``, the actions).

    for done in LocalRunner(workers=2).run(stage):
        ...
"""
