"""Cases drawn from a seed, judged by rules that share no code with what they judge.

``ICEBERG_OPS_CASES=n`` draws n cases of every kind instead of the few of a normal run; a failure names the seed of its case, which
``ICEBERG_OPS_SEED=n`` draws alone. What was drawn is counted and printed when the suite ends.
"""
