# The single door. Needs Python 3.11 or newer, Java 17 or newer (for Spark) and make; everything else goes into .venv and build/.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := iceberg_ops spark_jobs plugins dags demo tests $(wildcard benchmarks)
ICEBERG_JAVA := org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0,org.xerial:sqlite-jdbc:3.46.1.3,org.postgresql:postgresql:42.7.4
IVY := build/ivy
REST_JARS := build/jars/rest
HDFS_JARS := build/jars/hdfs
HIVE_JARS := build/jars/hive
NESSIE_JARS := build/jars/nessie
FETCH = java -jar $(VENV)/lib/python3*/site-packages/pyspark/jars/ivy-2*.jar -cache build/jars/cache
AWS_JARS := build/jars/aws
CLASSES := build/spark-classes.jsa
ONLY ?=
DAYS ?=
STACK ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-cluster up down test torture jars servers interop lint types bench docs fmt clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

setup: $(STAMP)  ## create .venv with pinned versions (once; again when the pins change)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: no python3 on the PATH: install Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"error: Python 3.11 or newer is needed, $(PYTHON) is {v[0]}.{v[1]}")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark,airflow,hive,rest,stores,hdfs,demo,oracles,dev]'
	@touch $@

demo: $(STAMP)  ## real flights through Airflow and Spark into Iceberg tables, corrected, maintained, proven; about five minutes
	@PYTHONPATH=.:plugins $(BIN)/python -m demo run $(if $(DAYS),--days $(DAYS))

demo-cluster: $(STAMP) build/servers/.installed  ## the demo on PostgreSQL, a Spark master with two workers and an S3 store, all on loopback; about five minutes
	@PYTHONPATH=.:plugins $(BIN)/python -m demo run --stack cluster $(if $(DAYS),--days $(DAYS))

up: $(STAMP)  ## start Airflow on what the demo left, to look around in its UI (STACK=cluster: on what demo-cluster left)
	@PYTHONPATH=.:plugins $(BIN)/python -m demo up $(if $(STACK),--stack $(STACK))

down: $(STAMP)  ## stop what up (or an interrupted demo) left running, of both stacks
	@PYTHONPATH=.:plugins $(BIN)/python -m demo down

test: export PYTHONDONTWRITEBYTECODE =# programs that tests start would compile all they import
test: $(STAMP) $(CLASSES)  ## unit, property, Spark, DAG and oracle tests, in two processes
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=10

$(CLASSES): $(STAMP)
	PYTHONPATH=.:plugins $(BIN)/python -m tests.spark.archived_classes $@
	@touch $@

torture: $(STAMP)  ## 10,000 seeded interleavings, kill -9 at every I/O step, 8 processes, a Spark cluster that fails, real Airflow killed (ICEBERG_OPS_TORTURE=n, ICEBERG_OPS_SEED=n: one)
	ICEBERG_OPS_TORTURE=$${ICEBERG_OPS_TORTURE:-10000} $(BIN)/python -m pytest -n 2 $(if $(ICEBERG_OPS_SEED),tests/torture/test_interleaved_steps.py -k models_rows,tests/torture tests/spark/test_cluster_torture.py tests/interop/test_at_once.py tests/interop/test_later_hive.py tests/catalog/test_conformance.py tests/catalog/test_requirements_names_and_sizes.py tests/io)
	@test -n "$(ICEBERG_OPS_SEED)" || PYTHONPATH=.:plugins $(BIN)/python -m tests.scheduler_torture

jars: $(IVY)/.fetched $(REST_JARS)/.fetched $(HDFS_JARS)/.fetched $(HIVE_JARS)/.fetched $(NESSIE_JARS)/.fetched $(AWS_JARS)/.fetched  ## get Iceberg Java, its REST server and S3FileIO, a small HDFS, Hive's metastores and Nessie from Maven Central, for tests and benchmarks

$(IVY)/.fetched: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/spark-submit --packages $(ICEBERG_JAVA) --conf spark.jars.ivy="$(CURDIR)/$(IVY)" tests/interop/__init__.py
	@touch $@

$(REST_JARS)/.fetched: tests/servers/rest/ivy.xml $(STAMP)
	$(FETCH) -ivy $< -retrieve '$(REST_JARS)/[artifact](-[classifier])-[revision].[ext]'
	@touch $@

$(HDFS_JARS)/.fetched: tests/servers/java/hdfs-ivy.xml $(STAMP)
	$(FETCH) -ivy $< -retrieve '$(HDFS_JARS)/[artifact]-[revision].[ext]'
	@touch $@

$(HIVE_JARS)/.fetched: tests/servers/java/hive-ivy.xml $(STAMP)
	$(FETCH) -ivy $< -retrieve '$(HIVE_JARS)/[artifact](-[classifier])-[revision].[ext]'
	for archive in $(HIVE_JARS)/*.tar.gz; do tar -xzf $$archive -C $(HIVE_JARS) && rm $$archive; done
	@touch $@

$(NESSIE_JARS)/.fetched: tests/servers/nessie/ivy.xml $(STAMP)
	$(FETCH) -ivy $< -retrieve '$(NESSIE_JARS)/[artifact](-[classifier])-[revision].[ext]'
	@touch $@

$(AWS_JARS)/.fetched: benchmarks/java/aws.xml $(STAMP)
	$(FETCH) -ivy $< -retrieve '$(AWS_JARS)/[artifact](-[classifier])-[revision].[ext]'
	@touch $@

servers: build/servers/.installed  ## get the servers that tests start: versitygw and moto (S3), Azurite (needs Go and npm)

build/servers/.installed: tests/servers/install.sh
	tests/servers/install.sh build/servers $(PYTHON)
	@touch $@

interop: $(IVY)/.fetched $(REST_JARS)/.fetched $(HDFS_JARS)/.fetched $(HIVE_JARS)/.fetched $(NESSIE_JARS)/.fetched $(AWS_JARS)/.fetched  ## tables shared with Iceberg Java, both ways
	ICEBERG_OPS_REQUIRE_ORACLES=1 $(BIN)/python -m pytest tests/interop

lint: $(STAMP)  ## style, formatting, import layers
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	PYTHONPATH=.:plugins $(BIN)/lint-imports --no-cache

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

bench: $(STAMP)  ## us and a peer in one run (make bench ONLY=name)
	@test -x $(BIN)/tpchgen-cli || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks $(ONLY)

docs: $(STAMP)  ## the documentation as a site with search, in build/docs; a link that leads nowhere fails
	@test -x $(BIN)/mkdocs || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python -m tests.docs.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo 'to read it: python3 -m http.server --bind 127.0.0.1 --directory build/docs (search needs a server)'

fmt: $(STAMP)  ## format, and fix what ruff can fix
	$(BIN)/ruff check --fix --quiet $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean: ## remove what was built (.venv stays)
	@test ! -x $(BIN)/python || PYTHONPATH=.:plugins $(BIN)/python -m demo down --remove
	rm -rf build dist *.egg-info
