# Everything a person or a machine does with the tree. `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := all

GO ?= go
# Executions of each fuzz target. A count and not a duration: in Go 1.26 the end
# of a duration can be reported as a failure of the target (go.dev/issue/75804).
FUZZTIME ?= 2000x
# More flags for the tests, for instance TESTFLAGS='-run TestDemo -v'.
TESTFLAGS ?=
# The campaign of `make campaign`: how long, which random choices, or the
# transcript of an earlier one.
MINUTES ?= 10
SEED ?=
REPLAY ?=
# What `make bench` hands to `askance bench`.
BENCHFLAGS ?=

# The race detector needs a C compiler; without one the tests run without it,
# and say so. `make test RACE=` does it on purpose.
RACE ?= $(shell [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v $$($(GO) env CC) >/dev/null && echo -race)

# Every fuzz target as folder:name. A test compares the list with the tree.
FUZZ := \
  bus:FuzzQueue \
  bus:FuzzParseSubject \
  bus:FuzzToken \
  cmd/askance/internal/argtree:FuzzRender \
  cmd/askance/internal/audit:FuzzLines \
  engine/internal/summary:FuzzTemplate \
  gateway/agent:FuzzThread \
  gateway/agent/chatstream:FuzzTurns \
  gateway/agenthook/dialect:FuzzDecode \
  gateway/agui:FuzzInput \
  gateway/webhook:FuzzLink \
  cmd/askance/internal/hook:FuzzInstall \
  cmd/askance/internal/hookfile:FuzzParse \
  cmd/askance/internal/cli:FuzzSettings \
  internal/reveal:FuzzLine \
  cmd/askance/internal/directory:FuzzParse \
  cmd/askance/internal/toolfile:FuzzParse \
  cmd/askance/internal/toolimport:FuzzRead \
  executor:FuzzResultText \
  gateway/auth:FuzzTokens \
  gateway/blocks:FuzzCommands \
  internal/strictjson:FuzzQuick \
  internal/strictjson:FuzzQuickObject \
  internal/strictjson:FuzzUnmarshal \
  internal/jcs:FuzzCanonicalize \
  message:FuzzAppend \
  toolcall:FuzzConceal \
  toolcall:FuzzDecodeStored \
  message:FuzzDecodeEvent \
  message:FuzzDecodeMsg \
  message/agui:FuzzResponse \
  message/agui:FuzzDecodeEvent \
  message/agui:FuzzDecodeRunInput \
  message/internal/weburl:FuzzNormalize \
  message/proof:FuzzDecodeSealed \
  message/proof:FuzzReceipt \
  message/blockstream:FuzzDecodeCommand \
  message/blockstream:FuzzDecodeFrame \
  message/blockstream:FuzzParseCursor \
  message/v1:FuzzConvert \
  message/v1:FuzzDecodeMsg \
  permission:FuzzDecide \
  permission/agentscope:FuzzBash \
  permission/agentscope:FuzzMatchName \
  permission:FuzzLoadRules \
  permission:FuzzSchema \
  permission:FuzzSpecifiers \
  permission/format:FuzzSource \
  permission/lint:FuzzRun \
  permission/shell:FuzzBash \
  permission/shell:FuzzCompile \
  permission/shell:FuzzParse \
  permission/internal/paths:FuzzWithin \
  permission/internal/urls:FuzzParse

# Published clients that the gateway is tested with. npm writes the file last.
NODE_DIRS := gateway/testdata/node gateway/mcp/judge/testdata/node
NODE_READY := $(NODE_DIRS:%=%/node_modules/.package-lock.json)
TYPESCRIPT_READY := clients/typescript/node_modules/.package-lock.json

# A virtual environment for the tests of the Python client; make writes the file last.
PYTHON_DIR := clients/python
PYTHON_READY := $(PYTHON_DIR)/.venv/ready

# The example programs that need no other process; the tests run the rest.
ALONE := $(patsubst %/main.go,%,$(wildcard examples/policy-file/main.go))

# The linter is built once, from its pinned version and with this Go, into the
# user's cache folder next to Go's own.
LINT_VERSION := v2.15.0
LINT_DIR = $(dir $(shell $(GO) env GOCACHE))askance/golangci-lint-$(LINT_VERSION)-$(shell $(GO) env GOVERSION)
LINT = $(LINT_DIR)/golangci-lint

step = @printf '\n== %s\n' '$(1)'

.PHONY: all
all: test lint ## Test and lint (what a plain `make` does).

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: test
test: deps fmt-check build examples-alone demo fuzz-quarter clients deploy-check race ## Check everything but what lint checks: format, build, examples, demo, some fuzzing, clients, deployment files, race tests.

.PHONY: deps
deps: ## Install what the tests need on Debian or Ubuntu; without root, say how.
	@.ci/deps

.PHONY: build
build: ## Build every package, and the command into bin/.
	$(call step,build)
	$(GO) build ./...
	$(GO) build -o bin/ ./cmd/askance

.PHONY: fmt
fmt: ## Format every Go file.
	gofmt -s -w .

.PHONY: fmt-check
fmt-check: ## Fail if a Go file is not formatted.
	$(call step,format)
	@bad=$$(gofmt -s -l .) && [ -z "$$bad" ] || { echo "not formatted; run make fmt:"; echo "$$bad"; exit 1; }

# Tests that run without the race detector, because it makes them five to ten times
# slower: of packages that share nothing between goroutines, and of whole commands, pages,
# examples and tools, whose parts are tested with it. `make race UNRACED='^$$' UNRACED_TESTS=`
# uses it for all.
UNRACED := /internal/(archtest|asked|jcs|linediff|reveal|spelling|strictjson)$$|/examples(/|$$)|/(message|toolcall)(/|$$)|/permission/(agentscope|lint|shell)$$|/cmd/askance/internal/(audit|cli)$$|/gateway/(console|mcp/judge)$$|/e2e/internal/effect$$

# The same for single tests, as folder:name: pure computations, and many repetitions of
# what other tests do with it. A test compares the list with the tree.
UNRACED_TESTS := \
  bus/journal:TestArchiveFilesAreFetchedOnce \
  bus/journal:TestBackupIsRestored \
  bus/journal:TestBatchedFaults \
  bus/journal:TestBatchedOutcomes \
  bus/journal:TestInterruptedArchive \
  bus/journal:TestInterruptedArchiveOfSessions \
  bus/journal:TestStoreLimitDoesNotShrinkAtRestart \
  bus:TestCallTooLargeToBeShownIsRefused \
  bus:TestRandomEdits \
  bus:TestReadersDoNotStarveDecisions \
  bus:TestRubbishDropsNoOthersMessages \
  cmd/askance/internal/node:TestRecordedDecisionsOfTheProduct \
  engine/internal/activity:TestLedgerIsBounded \
  engine:TestEngineOnJetStream \
  engine:TestManyOpenRequests \
  engine:TestPreviewInAForgottenSession \
  engine:TestRepliesAreLinearizable \
  engine:TestSnapshotIsWhatAWholeReadGives \
  engine:TestSortedPages \
  gateway/agent:TestKilledAnywhere \
  permission:TestAddingADenyRuleNeverLoosens \
  permission:TestAddingAnAskRuleNeverLoosens \
  permission:TestDecisionsAreSafe \
  permission:TestExplainEqualsDecide \
  permission:TestInjectedErrorNeverAllows \
  permission:TestLargePolicies \
  permission:TestOrderOfRulesDoesNotMatter \
  permission:TestWatchedRuleChangesNothing

# Last in `make test`, so that what is seen last is each package with its time.
# The tests of e2e kill real processes at moments of their choosing: they have
# the machine for themselves, and their programs are built as users build them.
# The packages without the race detector run one by one beside the others, as many of their tests
# wait. The linters vet the test files: with -race, go test would vet them and all they import once
# more. A process with the race detector sleeps for a second when it ends, in case that goroutines
# are left that race: tests wait for theirs, and start hundreds of such processes.
.PHONY: race
race: node ## Run all tests, with the race detector where there is a C compiler.
	$(call step,tests)
	@[ -n "$(RACE)" ] || echo "no C compiler found: the tests run without the race detector"
	@set -o pipefail; failed=; check() { echo "$$@"; "$$@" || failed=1; }; \
	  all=$$($(GO) list ./... | grep -v '/e2e$$') || exit 1; test="$(GO) test -vet=off -count=1 -timeout 1h"; \
	  single=$$(printf '%s\n' $(UNRACED_TESTS) | sed 's/.*://' | paste -sd '|'); \
	  (failed=; check $$test -p 1 $(TESTFLAGS) $$(grep -E '$(UNRACED)' <<<"$$all"); [ -z "$$failed" ]) & others=$$!; \
	  check env GORACE=atexit_sleep_ms=10 $$test $(RACE) -p $$(nproc) -skip "^($$single)\$$" $(TESTFLAGS) $$(grep -vE '$(UNRACED)' <<<"$$all"); \
	  wait $$others || failed=1; \
	  check $$test -run "^($$single)\$$" $(TESTFLAGS) $$(printf './%s\n' $(UNRACED_TESTS) | sed 's/:.*//' | sort -u); \
	  check $$test $(TESTFLAGS) ./e2e; \
	  [ -z "$$failed" ]

.PHONY: packages
packages: $(NODE_READY) $(TYPESCRIPT_READY) $(PYTHON_READY) ## Install the packages of npm and PyPI that the tests use.

.PHONY: node
node: $(NODE_READY) ## Install the published clients that the gateway is tested with.

$(NODE_READY) $(TYPESCRIPT_READY): %/node_modules/.package-lock.json: %/package.json %/package-lock.json
	$(call step,packages of $*)
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "Node.js 20 or later and npm are needed: run make deps"; exit 1; }
	cd $* && npm ci
	@touch $@

# In parallel: each of the three uses one processor. Each prints its output when it ends.
.PHONY: clients
clients: build ## Build and test the clients in other languages.
	@$(MAKE) --no-print-directory --jobs --output-sync clients-typescript python-check python-test

.PHONY: clients-python
clients-python: python-check python-test ## Check and test the Python client and its adapters, with bin/askance.

.PHONY: python-check
python-check: $(PYTHON_READY)
	$(call step,Python client: types and style)
	cd $(PYTHON_DIR) && .venv/bin/ruff check --quiet . && .venv/bin/ruff format --quiet --check . && .venv/bin/mypy

.PHONY: python-test
python-test: $(PYTHON_READY)
	$(call step,Python client)
	cd $(PYTHON_DIR) && .venv/bin/pytest

$(PYTHON_READY): $(PYTHON_DIR)/requirements.txt
	$(call step,environment of the Python client and its agent frameworks)
	python3 -m venv --clear $(PYTHON_DIR)/.venv
	$(PYTHON_DIR)/.venv/bin/pip install --quiet --disable-pip-version-check uv
	$(PYTHON_DIR)/.venv/bin/uv pip install --quiet --python $(PYTHON_DIR)/.venv --only-binary :all: --no-deps -r $<
	@touch $@

.PHONY: clients-typescript
clients-typescript: $(TYPESCRIPT_READY) ## Build and test the TypeScript client, with bin/askance.
	$(call step,TypeScript client)
	cd clients/typescript && npm test

# No match is no failure for `go test -fuzz`: hence the look for its own report.
.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (a count like 100000x, or 1m).
	$(call step,fuzz)
	@set -eo pipefail; n=0; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	for target in $(FUZZ); do \
	  n=$$((n+1)); folder=$${target%%:*}; name=$${target##*:}; \
	  echo "-- $$n/$(words $(FUZZ)) $$folder $$name"; \
	  $(GO) test -vet=off "./$$folder" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x -timeout 30m 2>&1 | tee "$$log"; \
	  grep -q '^fuzz: elapsed' "$$log" || { echo "$$folder has no fuzz target $$name; correct the list FUZZ in the Makefile"; exit 1; }; \
	done

# The seeds of all targets run with the tests. A quarter has no instruments that tell the fuzzer
# what an input reached: building them into all that a test imports takes longer than trying more inputs.
QUARTER = $(shell echo $(FUZZ) | tr ' ' '\n' | awk -F: -v n=$$(git rev-list --count HEAD 2>/dev/null || echo 0) '!($$1 in at) { at[$$1] = ++k } at[$$1] % 4 == n % 4')
QUARTERTIME ?= 5000x

.PHONY: fuzz-quarter
fuzz-quarter: ## Fuzz a quarter of the targets without instruments, another one after each commit.
	$(call step,fuzz)
	@set -eo pipefail; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; built=; \
	for target in $(sort $(QUARTER)); do \
	  folder=$${target%%:*}; name=$${target##*:}; echo "-- $$folder $$name"; \
	  [ "$$folder" = "$$built" ] || { $(GO) test -vet=off -c -o "$$dir/test" "./$$folder"; built=$$folder; }; \
	  (cd "$$folder" && "$$dir/test" -test.run '^$$' -test.fuzz "^$$name\$$" -test.fuzztime $(QUARTERTIME) -test.fuzzminimizetime 100x -test.fuzzcachedir "$$dir/$$target" -test.timeout 30m) 2>&1 | grep -v 'not built with coverage instrumentation' | tee "$$dir/log"; \
	  grep -q '^fuzz: elapsed' "$$dir/log" || { echo "$$folder has no fuzz target $$name; correct the list FUZZ in the Makefile"; exit 1; }; \
	done

.PHONY: examples
examples: examples-alone ## Run the examples that need nothing else, and the tests of all of them.
	$(GO) test -count=1 -timeout 5m ./examples/...

.PHONY: examples-alone
examples-alone:
	$(call step,examples)
	@set -e; for folder in $(ALONE); do echo "-- $$folder"; $(GO) run "./$$folder" </dev/null; done

.PHONY: demo
demo: build ## Play the demo without questions.
	$(call step,demo)
	bin/askance demo --yes </dev/null

# The published coding agents, at the versions that docs/howto/coding-agents.md names.
# They stay outside of the tree and of every lock file: one of them is proprietary.
AGENTS_HOME ?= $(dir $(shell $(GO) env GOCACHE))askance/agents
AGENTS := @anthropic-ai/claude-code-linux-x64@2.1.332 @openai/codex@0.171.0 @google/gemini-cli@0.61.0

.PHONY: hooks-real
hooks-real: build ## Run the published coding agents with the hooks, against a scripted model.
	$(call step,published coding agents)
	mkdir -p $(AGENTS_HOME) && npm install --no-audit --no-fund --no-package-lock --prefix $(AGENTS_HOME) $(AGENTS)
	$(GO) vet -tags realagents ./e2e/agents
	ASKANCE_BIN=$(CURDIR)/bin/askance AGENTS_DIR=$(AGENTS_HOME)/node_modules $(GO) test -tags realagents -count=1 -timeout 15m ./e2e/agents

.PHONY: pictures
pictures: ## Take the pictures of README.md again.
	$(GO) test ./cmd/askance/internal/cli -count=1 -run TestPictures -update

.PHONY: bench
bench: ## Run the benchmarks, then askance bench with BENCHFLAGS.
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(GO) run ./cmd/askance bench $(BENCHFLAGS)

.PHONY: bench-slowdisk
bench-slowdisk: ## Compare batches with single writes on a memory disk; strace delays each fsync by 1 ms.
	dir=$$(mktemp -d /dev/shm/askance.XXXXXX) && trap 'rm -rf "$$dir"' EXIT && $(GO) test -c -o "$$dir/journal.test" ./bus/journal && cd bus/journal && \
	TMPDIR=$$dir strace -f --seccomp-bpf -qq -o /dev/null -e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_enter=1ms \
		"$$dir/journal.test" -test.run '^$$' -test.bench "BenchmarkPublishers|BenchmarkQuorum" -test.benchtime 2s

.PHONY: bench-peers
bench-peers: ## Measure decisions next to Cedar and OPA, in a module of its own.
	cd permission/benchpeers && $(GO) test -count=1 . && $(GO) run .

# Needs redis-server, initdb and postgres, and some minutes; other processes change its rates.
.PHONY: bench-report
bench-report: ## Measure askance and its peers in one run and write BENCHMARKS.md with its plots.
	$(call step,benchmarks)
	$(GO) run ./internal/benchreport $(BENCHFLAGS)

.PHONY: campaign
campaign: ## Kill and freeze all processes for MINUTES, with SEED or as in REPLAY=transcript.
	$(call step,campaign)
	ASKANCE_E2E_SEED=$(SEED) ASKANCE_E2E_CAMPAIGN=$(MINUTES)m ASKANCE_E2E_REPLAY=$(abspath $(REPLAY)) \
	  $(GO) test ./e2e -run '^TestCampaign$$' -count=1 -v -timeout $$(($(MINUTES) + 20))m

.PHONY: cluster
cluster: build ## Start three NATS servers and three engines to try out, until Ctrl-C.
	$(GO) build -o bin/ github.com/nats-io/nats-server/v2
	deploy/cluster/try.sh

# Runs of `make faults` in one process, and on a cluster of processes, which take some
# seconds each. With SEED it repeats one of each.
RUNS ?= 10000
CLUSTER_RUNS ?= $(if $(SEED),1,$(shell expr $(RUNS) / 100))

.PHONY: faults
faults: ## Check RUNS seeded runs with faults, and a hundredth of them on a cluster, for one order of all replies; SEED repeats one.
	$(call step,faults in one process)
	ASKANCE_FAULT_RUNS=$(RUNS) ASKANCE_FAULT_SEED=$(SEED) $(GO) test ./engine -run '^TestRepliesAreLinearizable$$' -count=1 -v -timeout 2h
	$(call step,faults on a cluster)
	ASKANCE_E2E_FAULTS=$(CLUSTER_RUNS) ASKANCE_E2E_SEED=$(SEED) $(GO) test ./e2e -run '^TestFaults$$' -count=1 -v -timeout 24h

.PHONY: cover
cover: ## Measure coverage over all packages; writes coverage.html.
	$(GO) test -count=1 -timeout 15m -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -html=coverage.out -o coverage.html
	@$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: generate
generate: ## Make what is made from the code: generated files, blocks of the documents.
	$(GO) generate ./...
	$(GO) test ./internal/archtest -count=1 -run TestDocuments -update
	node clients/typescript/scripts/generate.mjs
	python3 clients/python/scripts/generate_types.py

.PHONY: deploy-check
deploy-check: ## Read the alerts, the dashboard and the manifests of deploy with the parsers of Prometheus and Kubernetes.
	$(call step,deploy)
	$(GO) -C deploy/testdata/check test ./...

.PHONY: generate-check
generate-check: ## Fail if `make generate` would change something.
	$(call step,generated files)
	@set -e; before=$$(mktemp); after=$$(mktemp); trap 'rm -f "$$before" "$$after"' EXIT; \
	state() { git status --porcelain && git diff; }; \
	state >"$$before"; $(MAKE) --no-print-directory generate; state >"$$after"; \
	diff -u "$$before" "$$after" || { echo "generated files differ from the code; commit what make generate writes"; exit 1; }

.PHONY: tidy-check
tidy-check: ## Fail if go.mod or go.sum is not what go mod tidy writes.
	$(call step,go.mod)
	$(GO) mod tidy -diff

.PHONY: lint
lint: $(LINT) ## Run go vet and the other linters of .golangci.yml (the first time builds them).
	$(call step,lint)
	GOGC=200 $(LINT) run ./...

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION), once"
	@mkdir -p "$(LINT_DIR)"
	GOFLAGS= GOOS= GOARCH= GOBIN="$(LINT_DIR)" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

.PHONY: clean
clean: ## Remove what the targets above wrote into the tree.
	rm -rf bin coverage.out coverage.html
