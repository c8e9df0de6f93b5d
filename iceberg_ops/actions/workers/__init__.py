"""Where work runs: the protocol of runners, and this machine's runner.

``runner`` is the protocol of runners, which run stages of work (Spark's is in ``spark_jobs``). ``local_runner`` runs them in this
process or, with ``worker_processes``, in several, each of which is a ``worker_main``; ``worker_frames`` is their protocol.
``progress`` counts finished work, ``listing`` lists a store's folders with a runner.

Elsewhere: the work itself (``groups``, the actions).

    for done in LocalRunner(workers=2).run(stage):
        ...
"""
