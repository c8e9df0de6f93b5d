"""One job per action: Spark evaluates row operations, ``iceberg_ops.actions`` runs maintenance on Spark's executors."""
