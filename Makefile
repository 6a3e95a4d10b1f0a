# What a developer does, by name; `make` alone lists it.
# All paths are relative, so that the checkout may lie under a path with spaces.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Another Spark, Hadoop or Python of the machine must not mix with what .venv holds.
unexport PYTHONPATH PYTHONHOME SPARK_HOME SPARK_CONF_DIR HADOOP_CONF_DIR HIVE_CONF_DIR PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON

ifdef JAVA_HOME
export PATH := $(JAVA_HOME)/bin:$(PATH)
endif

PY := .venv/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
LOCK := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --custom-compile-command "make lock"
# Much of what tests on real servers do is waiting, so three processes share two cores. A file's tests stay together, in
# the order of conftest.py: each process starts the servers that its files ask for.
IN_PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder
# The store of the tests on S3. MinIO publishes its source alone, as a Go module.
MINIO := github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
# Where it is there (Linux), setpriv ends the command when make itself is killed.
RUN := $(shell setpriv --pdeathsig TERM true 2>/dev/null && echo setpriv --pdeathsig TERM)

.PHONY: help setup java engines minio stores demo test test-all lint types layers tests integration faults kills restarts frozen bench-commit bench-appenders simulate mutants outcomes outcomes-s3 fuzz fuzz-callers siege kit matrix clients wheel lock audit sbom deploy-lint release-tools client-tools format clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

setup: .venv/.stamp  ## make .venv with everything in it; quick when nothing changed
	@:

demo: setup java  ## the main job on real servers: about two minutes, ends by itself
	$(RUN) .venv/bin/iceberg-hms demo

test: setup java lint types layers simulate  ## lint, types, layers, tests, and the main paths on a real metastore and Spark
	$(RUN) $(PY) -m pytest tests integration labs -m "not slow" $(IN_PARALLEL)

test-all: setup java engines lint types layers simulate mutants  ## the slow tests and other metastores as well, but not `make matrix`; an hour
	$(RUN) $(PY) -m pytest tests integration labs \
	  --deselect labs/matrix/test_pairs.py::test_a_pair_leaves_the_rows_of_an_order_that_its_clients_promise

# Other releases of the metastore come through Maven.
engines:
	@command -v mvn > /dev/null || { echo "error: Maven is needed. next: install it (Debian: apt install maven postgresql)" >&2; exit 1; }

minio: build/stores/minio  ## build MinIO, for tests on S3: some minutes the first time, and nothing once it is there
	@:

build/stores/minio:
	@command -v go > /dev/null || { echo "error: Go is needed. next: install it (Debian: apt install golang), or leave it: the tests take moto's server then" >&2; exit 1; }
	GOBIN="$(CURDIR)/build/stores" go install $(MINIO)

stores: setup java engines minio  ## tables on S3 and HDFS, on MinIO and Hadoop on loopback, with what is slow: STORY_SEED=7 STORY_APPENDS=50
	$(RUN) $(PY) -m pytest integration/stores

lint: setup  ## ruff: rules and format
	$(PY) -m ruff check
	$(PY) -m ruff format --check --quiet

types: setup  ## mypy, strict: all but the test files
	$(PY) -m mypy

layers: setup  ## import-linter: who may import whom
	.venv/bin/lint-imports --no-logo

tests: setup  ## the quick tests alone: no servers
	$(RUN) $(PY) -m pytest tests $(IN_PARALLEL)

integration: setup java  ## the tests on real servers alone, without the slow ones
	$(RUN) $(PY) -m pytest integration labs -m "not slow" $(IN_PARALLEL)

faults: setup java  ## lost replies, killed writers and the like on a real metastore; SEEDS=50 varies the timing 50 times
	FAULT_SEEDS=$(or $(SEEDS),1) $(RUN) $(PY) -m pytest integration/test_faults_*.py

kills: setup java  ## kill -9 of the server with 64 commits in flight: KILLS=20 SEED=7
	KILLS=$(or $(KILLS),20) KILL_SEED=$(SEED) $(RUN) $(PY) -m pytest integration/test_server_killed.py

restarts: setup java  ## how many Spark statements fail while the server restarts, in four ways: RESTARTS=10
	RESTARTS=$(or $(RESTARTS),5) $(RUN) $(PY) -m pytest integration/test_server_restarts.py --log-cli-level=INFO

frozen: setup java  ## holders of a lock that stop, vanish or sleep: how long the next commit takes; TIMES=20
	FROZEN=$(or $(TIMES),20) $(RUN) $(PY) -m pytest integration/test_frozen_holders.py -s

kit: setup java engines  ## Iceberg's REST compatibility kit on a server before two metastores: 2.3.10, and 4.1.0 on PostgreSQL
	$(RUN) $(PY) -m pytest integration/test_compatibility_kit.py -v

matrix: setup java  ## each verb of each engine beside each other, on real servers: an hour and more; MODE=plain for a third
	$(RUN) $(PY) -m pytest labs/matrix -v $(if $(MODE),-k "not under_ or under_$(MODE)")

clients: client-tools java engines  ## stock engines as clients of the server: what works and what is refused; ENGINE=trino for one
	$(RUN) $(PY) -m labs.clients $(ENGINE)

client-tools: setup
	@$(INSTALL) --no-build-isolation --editable '.[clients]'

bench-commit: setup java  ## commits of many writers beside Java's and PyIceberg's catalogs: 12 minutes; QUICK=1 for a small run
	$(RUN) $(PY) -m benchmarks commit $(if $(QUICK),--quick)

bench-appenders: setup java  ## 8 stock PyIceberg and Spark writers on one table, by what is rebased; QUICK=1 for a small run
	$(RUN) $(PY) -m benchmarks appenders $(if $(QUICK),--quick)

# Of `make simulate`: how many schedules, the seed of the first (`make outcomes`, `make outcomes-s3`, `make fuzz`,
# `make fuzz-callers` too), and how many processes share them (`make outcomes`, `make outcomes-s3`, `make mutants` too).
SCHEDULES := 2000
SEED := 1
JOBS := 2

simulate: setup  ## the commit protocol in a world that goes wrong: SCHEDULES=100000 SEED=7
	$(RUN) $(PY) -m simulation --schedules $(SCHEDULES) --seed $(SEED) --jobs $(JOBS)

mutants: setup  ## planted defects of the protocol, each of which the simulation must find
	$(RUN) $(PY) -m simulation.mutants --jobs $(JOBS)

outcomes: setup java  ## random operations on tables of all shapes, which others read as a model says: STEPS=10000 SEED=7 TRIALS=1000
	$(RUN) $(PY) -m tests.random_operations --steps $(or $(STEPS),10000) --trials $(or $(TRIALS),1000) --seed $(SEED) --jobs $(JOBS) --spark

outcomes-s3: setup minio  ## the same without Spark, all files in a bucket of MinIO: STEPS=2000 SEED=7 TRIALS=200
	$(RUN) $(PY) -m integration.stores.random_operations --steps $(or $(STEPS),2000) --trials $(or $(TRIALS),200) --seed $(SEED) --jobs $(JOBS)

fuzz: setup  ## right and mutated requests of every kind, each of which must leave the catalog in order: REQUESTS=100000 SEED=7
	$(RUN) $(PY) -m tests.security.fuzz --requests $(or $(REQUESTS),100000) --seed $(SEED)

fuzz-callers: setup java  ## two callers on a real metastore, one of whom tries to reach what is the other's: REQUESTS=50000 SEED=7 MINUTES=60
	$(RUN) $(PY) -m tests.security.two_callers --requests $(or $(REQUESTS),50000) --seed $(SEED) --minutes $(or $(MINUTES),60)

siege: setup java  ## honest clients beside all attacks on the server's resources: MINUTES=10
	$(RUN) $(PY) -m labs.siege --minutes $(or $(MINUTES),10)

wheel: setup  ## wheel and sdist in dist/, after the wheel was tried on Python 3.11, 3.12 and 3.13, all of which it needs
	$(RUN) $(PY) -m pytest integration/test_distributions.py
	rm -rf dist && $(PY) -m build

lock: release-tools  ## choose the newest allowed version of every package anew, for CI and for the server's image
	printf 'setuptools\nwheel\n' | $(LOCK) --upgrade --output-file conf/locks/build.txt -
	$(LOCK) --upgrade --extra dev --output-file conf/locks/ci.txt setup.cfg
	$(LOCK) --upgrade --extra server --extra oidc --extra zookeeper --extra s3 --extra hdfs --output-file conf/locks/server.txt setup.cfg

audit: release-tools  ## known vulnerabilities of the packages of the server's image, where their database is in reach
	.venv/bin/pip-audit --strict --require-hashes --disable-pip -r conf/locks/server.txt

sbom: release-tools  ## dist/sbom.json: the packages of the server's image, as CycloneDX
	mkdir -p dist && .venv/bin/cyclonedx-py requirements --output-reproducible --output-file dist/sbom.json conf/locks/server.txt

deploy-lint: release-tools  ## the files in conf/deploy, as far as tools can judge them without running them
	.venv/bin/hadolint conf/deploy/Dockerfile
	.venv/bin/kubernetes-validate --strict conf/deploy/kubernetes.yaml
	if command -v systemd-analyze > /dev/null; then systemd-analyze security --offline=true --threshold=20 conf/deploy/iceberg-hms.service; fi

release-tools: setup
	@$(INSTALL) --no-build-isolation --editable '.[release]'

format: setup  ## let ruff mend what it can
	$(PY) -m ruff check --fix --quiet
	$(PY) -m ruff format

clean:  ## remove .venv and everything that was built or cached
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .tox
	rm -rf metastore_db spark-warehouse derby.log
	find iceberg_hms simulation tests integration benchmarks labs -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp holds the folder it was made in: a copied or moved checkout is set up anew.
ifneq ($(shell cat .venv/.stamp 2>/dev/null),$(CURDIR))
.PHONY: .venv/.stamp
endif

.venv/.stamp: setup.cfg pyproject.toml conf/locks/build.txt conf/locks/ci.txt
	@found=; \
	for python in "$(PYTHON)" python3.11 python3.12 python3.13 python3 python; do \
	  if "$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    found=$$python; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "error: Python 3.11 or later, with venv, is needed and was not found." >&2; \
	  echo "next:  install it (Debian: apt install python3 python3-venv), or name it: make setup PYTHON=/path/to/python3.11" >&2; \
	  exit 1; \
	fi; \
	echo "Setting up .venv with $$("$$found" --version); the first time takes some minutes."; \
	rm -f .venv/.stamp; \
	if [ "$$(cat .venv/.made-in 2>/dev/null)" != "$(CURDIR)" ]; then rm -rf .venv; fi; \
	if [ ! -x $(PY) ]; then "$$found" -m venv .venv && printf '%s\n' "$(CURDIR)" > .venv/.made-in; fi; \
	{ $(INSTALL) --require-hashes -r conf/locks/build.txt \
	  && $(INSTALL) --require-hashes --no-build-isolation -r conf/locks/ci.txt \
	  && $(INSTALL) --no-deps --no-build-isolation --editable .; } \
	  || { echo "error: the packages could not be installed; is the package registry in reach? Then: make setup" >&2; exit 1; }; \
	printf '%s\n' "$(CURDIR)" > .venv/.stamp

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p'); \
	if [ -z "$$version" ]; then \
	  echo "error: Java 17 is needed, and '$$java' does not run." >&2; \
	elif [ "$$version" -lt 17 ] || [ "$$version" -gt 21 ]; then \
	  echo "error: Java 17 (up to 21) is needed; '$$java' is Java $$version." >&2; \
	else exit 0; fi; \
	echo "next:  install it (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to it." >&2; \
	exit 1
