"""One job per action: row operations evaluated by Spark, maintenance run by ``iceberg_ops.actions`` on Spark's executors."""
