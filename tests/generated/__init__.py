"""Cases generated from a seed, judged by rules that share no code with the code under test.

``ICEBERG_OPS_CASES=n`` generates n cases of every kind instead of the few of a normal run; a failure names the seed of its case,
and ``ICEBERG_OPS_SEED=n`` generates only that case. The suite counts what it generated and prints the counts at its end.
"""
