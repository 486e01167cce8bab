# Every command a person or CI needs; `make help` prints this list.
SHELL := /bin/bash
ARGS ?=
NAME ?=
FLAGS := $(filter --yes,$(ARGS))
PATHS := $(filter-out --%,$(ARGS))
JEST := NODE_OPTIONS="--experimental-vm-modules --disable-warning=ExperimentalWarning" node_modules/.bin/jest

.DEFAULT_GOAL := help
.PHONY: help setup build image demo test test-real soak mutants cluster check format bench generate clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## install what is missing: npm packages, and system packages after asking (ARGS=--yes: without asking)
	@scripts/setup.sh $(addprefix --for ,$(MAKECMDGOALS)) $(FLAGS)

build: setup ## bundle all processes into dist/, the demo into dist/demo/
	@node scripts/build.mjs

image: build ## pack the image of all processes for ctr, kind or podman (ARGS: --sidecars DIRECTORY, --directory DIRECTORY)
	@node --import tsx scripts/pack-image.ts $(ARGS)

demo: build ## watch a real filesystem breathe under load (ARGS: --json, --keep, --yes)
	@node dist/demo/demo.mjs run $(ARGS)

test: build ## all tests that take minutes: unit, architecture, contract, integration (ARGS: a path)
	@TIDEMARK_REQUIRE_REAL=$(CI) node --import tsx test/suites/fast.ts $(PATHS)

test-real: build ## what takes longer: the whole kill matrix, User Mode Linux, clusters of kubelets (ARGS: a path)
	@TIDEMARK_REQUIRE_REAL=$(CI) $(if $(PATHS),$(JEST) --maxWorkers=2 $(PATHS),node --import tsx test/suites/main.ts && node --import tsx test/harness/check-kill-coverage.ts)

soak: build ## what takes too long for every commit, two hours of it, the oldest results first; figures go into test/soak.json (COUNT power cuts, SEED repeats a run, ARGS: paths)
	@TIDEMARK_REQUIRE_REAL=true TIDEMARK_CUTS=$(COUNT) TIDEMARK_SEED=$(SEED) node --import tsx test/suites/soak.ts $(PATHS)

mutants: setup ## apply each planted bug to a copy of the tree, and show which test catches it (ARGS: ids, such as b01 or "o*")
	@node --import tsx test/mutants/run.ts $(PATHS)

cluster: setup ## a real Kubernetes on this machine (ARGS: up, down, status, kubeconfig, "power-off node2", "power-on node2", "load ARCHIVE")
	@node --import tsx test/cluster/main.ts $(ARGS)

check: setup ## format, lint, types, import rules, dead code, generated files
	@scripts/check.sh

format: setup ## write every file as make check wants it
	@node_modules/.bin/biome check --write --diagnostic-level=error .

bench: build ## run all benchmarks, or one (NAME=crossing); the last line is JSON
	@node --import tsx bench/run.ts $(NAME)

generate: setup ## write CRDs, gRPC code and the list of effect points from their sources
	@scripts/generate.sh

clean: ## remove what was built
	@rm -rf dist coverage .tidemark
