# Two commands matter: `make test` and `make bench`. Each installs what it needs into the tree (.venv, .tools)
# on its first run and is quick after that; tools/setup is the part that installs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
# Cargo uses all cores by itself and its steps wait for one lock; in order, the output stays readable.
.NOTPARALLEL:
# Nor does `make -j` pass its job server on: doc tests could not open it, and would warn.
unexport MAKEFLAGS MFLAGS

# A target directory set in the environment would move the binaries that the targets below run.
export CARGO_TARGET_DIR := $(CURDIR)/target
export PATH := $(CURDIR)/.tools/bin:$(PATH)
# Properties are tried with the same random cases each time, so that a change is what a failure means;
# `make test-rust PROPTEST_RNG_SEED=$$RANDOM PROPTEST_CASES=100000` looks for others.
export PROPTEST_RNG_SEED ?= 2017

feedline := target/release/feedline
burn := target/peers/release/feedline-peer-burn
python_dirs := bench python examples/python
python_sources := $(shell find crates python/feedline -name '*.rs' -o -name '*.py' -o -name Cargo.toml) Cargo.lock pyproject.toml

.PHONY: help
help: ## List the targets
	awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: ## Install all tools (the other targets do this as they need it)
	tools/setup system python cargo

.PHONY: test
test: lint test-shuttle test-loom test-rust test-python ## Set up, lint, and run all tests

# Advisories are not checked here: their database is a git repository outside the package registries, and the
# rest of the build needs nothing from beyond them. `make audit` checks them.
.PHONY: lint
lint: setup package ## Formatting, clippy, rustdoc, licences and sources of dependencies, ruff, types
	echo "==> rustfmt"
	cargo fmt --all --check
	cargo fmt --check --manifest-path bench/peers/burn/Cargo.toml
	echo "==> clippy"
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	echo "==> rustdoc"
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --workspace
	echo "==> cargo deny"
	cargo deny --log-level error check licenses bans sources
	echo "==> ruff"
	.venv/bin/ruff check --quiet $(python_dirs)
	.venv/bin/ruff format --quiet --check $(python_dirs)
	echo "==> mypy, stubtest"
	.venv/bin/mypy --no-error-summary
	cd python && ../.venv/bin/python -m mypy.stubtest --concise --mypy-config-file ../pyproject.toml feedline._engine

# The documentation's examples come first, so that the last lines of a run are the summary of nextest.
.PHONY: test-rust
test-rust: setup ## Rust tests and the examples in the documentation
	echo "==> doc tests"
	cargo test --quiet --doc --workspace
	echo "==> nextest"
	cargo nextest run --cargo-quiet --workspace --profile $(if $(CI),ci,default)

.PHONY: test-python
test-python: package ## Python tests: the drop-in beside torch, the command, its report in a browser
	tools/setup browser
	echo "==> pytest"
	.venv/bin/python -m pytest --quiet

# The package is installed as editable: what changes in Python needs no build.
.PHONY: package
package: .venv/feedline-installed
.venv/feedline-installed: $(python_sources)
	tools/setup system python
	echo "==> maturin"
	log=$$(.venv/bin/maturin develop --release 2>&1) || { printf '%s\n' "$$log"; exit 1; }
	touch $@

# Under this cfg the engine's locks and threads are shuttle's, so it builds into a directory of its own.
.PHONY: test-shuttle
test-shuttle: setup ## Try the interleavings of the engine's and the groups' threads with shuttle
	echo "==> shuttle"
	RUSTFLAGS="--cfg shuttle" cargo test --quiet --release -p feedline-core -p feedline --test shuttle \
	  --target-dir target/shuttle

.PHONY: test-loom
test-loom: setup ## Try the memory orders of the one atomic that guards memory with loom
	echo "==> loom"
	RUSTFLAGS="--cfg loom" cargo test --quiet --release -p feedline-core --lib taken::model \
	  --target-dir target/loom

.PHONY: audit
audit: setup ## Check dependencies against the RustSec advisories (needs the network)
	cargo deny check advisories

.PHONY: release
release:
	tools/setup system
	echo "==> release build"
	cargo build --quiet --release -p feedline-cli

.PHONY: bench
bench: package ## The main benchmark: how long training waits for its data, beside PyTorch
	tools/setup peers
	rm -f target/bench/*.json
	for study in delay images; do
	  .venv/bin/feedline bench $$study --scale smoke --out target/bench --cache target/bench/data
	done
	.venv/bin/feedline report target/bench --out target/bench/report.html

.PHONY: bench-dropin
bench-dropin: package ## All studies of the drop-in beside PyTorch (over an hour), or STUDY=tiny and the like
	tools/setup peers
	.venv/bin/python bench/dropin/run.py $(or $(STUDY),all)

.PHONY: bench-overhead
bench-overhead: release ## Rows per second when rows cost nothing, beside torch and the rivals of `make peers`
	$(feedline) engine overhead
	if [[ -x $(burn) ]]; then
	  echo "==> burn"
	  $(burn)
	fi
	if [[ -e .venv/requirements-dev.txt ]]; then
	  echo "==> torch"
	  .venv/bin/python bench/peers/torch_overhead.py
	fi

.PHONY: bench-delay
bench-delay: release ## How well the Rust engine alone hides waiting
	$(feedline) engine delay

.PHONY: bench-straggler
bench-straggler: release ## What one slow sample costs
	$(feedline) engine straggler

.PHONY: instructions
instructions: ## Instructions that an image takes, by what they are for: FOLDER=... of JPEG files (needs valgrind)
	tools/setup system
	tools/instructions $(FOLDER)

.PHONY: peers
peers: ## Install what the benchmarks measure with or against: DALI, SPDL, Grain, WebDataset, burn and others
	tools/setup peers
	echo "==> burn"
	cargo build --quiet --release --locked --manifest-path bench/peers/burn/Cargo.toml --target-dir target/peers

.PHONY: rivals
rivals: package ## Install all loaders that are compared with, into .venv, and what FFCV is built with
	tools/setup rivals

# Sanitizers are not stable yet: the compiler is told to forget that it is.
.PHONY: fuzz
fuzz: ## A minute of random bytes for every parser (SECONDS_EACH=600 for longer)
	tools/setup system fuzz
	for target in image jpeg nifti nrrd tensor text tiff; do
	  echo "==> $$target"
	  RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$(CURDIR)/target/fuzz cargo fuzz run $$target \
	    -- -max_total_time=$(or $(SECONDS_EACH),60) -rss_limit_mb=4096 -timeout=20 -verbosity=0 -print_final_stats=1
	done

.PHONY: docs
docs: ## Build the API documentation into target/doc
	tools/setup system
	cargo doc --no-deps --workspace

.PHONY: examples
examples: ## Build the examples
	tools/setup system
	echo "==> examples"
	cargo build --quiet --workspace --examples
	if [[ -e examples/candle/Cargo.toml ]]; then
	  echo "==> examples/candle"
	  cargo build --quiet --manifest-path examples/candle/Cargo.toml
	fi

.PHONY: clean
clean: ## Remove what was built; the tools in .venv and .tools stay
	rm -rf target
