# Needs Python 3.11 to 3.15, pip and make: .ci/bootstrap installs everything else into $(VENV).
#
#   make demo [URL=https://...]   summarise a web page and let a person decide, then Studio with samples
#   make test                     lint, types, and the tests of every rule: about ten minutes on two cores
#   make test-long                the other tests, which check the same rules at many more places; CI runs both
#   make pytest [ARGS=...]        all tests, or those that ARGS selects
#   make cover [ARGS=...]         all tests with branch coverage; takes a third longer
#   make simulation [SEEDS=...]   simulated faults: 10,000 seeds (FIRST=... sets the first one)
#   make fuzz [EXAMPLES=...]      fuzzes the HTTP API from its OpenAPI description: 300 requests per operation (SEED=... varies them)
#   make kill [ARGS=...]          kill -9 of a worker before and after each journal entry, instead of one of the two
#   make soak [STORE=postgres]    ten minutes of kills and a full disk, hostile tenants beside well-behaved ones (SECONDS=..., SEED=...);
#                                 STORE=both runs both stores at the same time
#   make explore [ARGS=...]       the property-based tests, with other examples each time
#   make bench                    the benchmarks
#   make pictures                 retake the screenshots of Studio in README
#   make vulnerabilities          known vulnerabilities of the locked Python and npm packages; needs a network
#   make blocking-client          regenerate signoff/client/blocking.py from the async client
#   make lint | make format
#
# PYTHON=/path/to/python selects the interpreter, VENV=folder its virtual environment. On a Debian machine without
# Python 3.14 or 3.15, root can install one: make pytest PYTHON=$$(.ci/debian-python 3.14) VENV=.venv-3.14
# SIGNOFF_PICTURES=1 makes the tests of Studio keep screenshots of its pages in .artifacts/studio.
# SIGNOFF_TEST_POSTGRES=postgresql://... names a server for the tests. By default they start one from a package.

VENV ?= .venv
PYTHON ?=
BIN = $(VENV)/bin

# Pyright runs on the Node of its own package, whatever else is installed.
export PYRIGHT_PYTHON_GLOBAL_NODE = 0
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1

# Otherwise each of the hundreds of processes of the tests would compile our sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-quick test-long pytest cover simulation fuzz kill soak explore bench pictures lint format vulnerabilities blocking-client ready

demo: ready
	@$(BIN)/python -m examples.website_summary.demo $(if $(URL),'$(URL)')

# Pyright uses one core, so the tests run in parallel with it.
test: ready
	$(MAKE) -j2 lint test-quick

test-quick: ready
	$(BIN)/pytest -m 'not long' $(ARGS)

test-long: ready
	$(BIN)/pytest -m long $(ARGS)

cover: ready
	$(BIN)/pytest --cov --cov-branch --cov-report=term $(ARGS)

pytest: ready
	$(BIN)/pytest $(ARGS)

simulation: ready
	SIGNOFF_SIMULATION_SEEDS=$(or $(SEEDS),10000) SIGNOFF_SIMULATION_FIRST=$(or $(FIRST),0) \
		$(BIN)/pytest tests/simulation $(ARGS)

fuzz: ready
	SIGNOFF_API_EXAMPLES=$(or $(EXAMPLES),300) SIGNOFF_API_SEED=$(or $(SEED),1) \
		$(BIN)/pytest tests/server/test_fuzzed.py $(ARGS)

kill: ready
	SIGNOFF_KILL_BOTH=1 $(BIN)/pytest tests/crash/test_kill.py $(ARGS)

soak: ready
	@$(BIN)/python -m tests.soak $(or $(STORE),sqlite) --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

explore: ready
	$(BIN)/pytest -m hypothesis --hypothesis-profile=explore $(ARGS)

bench: ready
	@$(BIN)/python -m benchmarks $(ARGS)

pictures: ready
	@$(BIN)/python -m docs.pictures.take

lint: ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python studio/check.py

vulnerabilities: ready
	@$(BIN)/python .ci/vulnerabilities

format: ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ready:
	@.ci/bootstrap '$(VENV)' $(if $(PYTHON),'$(PYTHON)')

blocking-client: ready
	$(BIN)/python -m tools.blocking_client
