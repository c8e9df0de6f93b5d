# One image for Airflow and for Spark's master and workers, so that Python, Spark and our code can not drift apart.
ARG AIRFLOW_VERSION=3.3.2
ARG PYTHON_VERSION=3.11
FROM apache/airflow:${AIRFLOW_VERSION}-python${PYTHON_VERSION}

USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /opt/java \
    && install --directory --owner=airflow --group=root --mode=0775 /opt/iceberg-ops /data /data/jobs
ENV JAVA_HOME=/opt/java

USER airflow
WORKDIR /opt/iceberg-ops
COPY --chown=airflow:root constraints.txt pyproject.toml README.md LICENSE ./
COPY --chown=airflow:root iceberg_ops ./iceberg_ops
COPY --chown=airflow:root spark_jobs ./spark_jobs
COPY --chown=airflow:root plugins ./plugins
COPY --chown=airflow:root dags ./dags
RUN pip install --no-cache-dir --constraint constraints.txt ".[spark,airflow,postgres,stores]"
COPY --chown=airflow:root docker/spark-defaults.conf ./spark/spark-defaults.conf
ENV SPARK_CONF_DIR=/opt/iceberg-ops/spark \
    PYSPARK_PYTHON=python3 \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/iceberg-ops/dags
