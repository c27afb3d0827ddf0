# Needs Python 3.11 to 3.15, pip and make: .ci/bootstrap installs everything else into $(VENV).
#
#   make demo [URL=https://...]   summarise a web page and let a person decide, then Studio with samples
#   make test                     lint, types, and the tests of every rule, in some ten minutes on two cores
#   make test-long                the other tests: the same rules at ever more places; CI runs both
#   make pytest [ARGS=...]        all tests, or those that ARGS names
#   make cover [ARGS=...]         all tests, and which branches they take: a third slower
#   make simulation [SEEDS=...]   whatever goes wrong: 10,000 seeds (FIRST=... begins elsewhere)
#   make fuzz [EXAMPLES=...]      the HTTP API tried by its own description: 300 requests for each operation (SEED=... chooses others)
#   make kill [ARGS=...]          kill -9 of a worker before and after each entry of its journals, not one or the other
#   make soak [STORE=postgres]     ten minutes of kills and a full disk, hostile tenants beside innocent ones (SECONDS=..., SEED=...)
#   make explore [ARGS=...]       the tests of properties, with other examples each time
#   make bench                    the benchmarks
#   make pictures                 the pictures of Studio in README, taken anew
#   make vulnerabilities          known vulnerabilities of the locked packages, of Python and of npm: needs a network
#   make blocking-client           write signoff/client/blocking.py anew, from the async client
#   make lint | make format
#
# PYTHON=/path/to/python chooses the interpreter, VENV=folder where its packages go. On a Debian machine without a Python
# 3.14 or 3.15, root can make one: make pytest PYTHON=$$(.ci/debian-python 3.14) VENV=.venv-3.14
# SIGNOFF_PICTURES=1 has the tests of Studio keep pictures of its pages in .artifacts/studio.
# SIGNOFF_TEST_POSTGRES=postgresql://... names a server for the tests, which otherwise start one that a package carries.

VENV ?= .venv
PYTHON ?=
BIN = $(VENV)/bin

# Pyright runs on the Node that its package brings, whatever else is installed.
export PYRIGHT_PYTHON_GLOBAL_NODE = 0
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1

# Without it each of the hundreds of processes that the tests start would compile our sources anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-quick test-long pytest cover simulation fuzz kill soak explore bench pictures lint format vulnerabilities blocking-client ready

demo: ready
	@$(BIN)/python -m examples.website_summary.demo $(if $(URL),'$(URL)')

# Pyright uses one core: the tests begin beside it.
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
