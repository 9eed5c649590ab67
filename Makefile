# All modules of the repository at once, through go.work; "work" is the go command's name for their packages.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# A clone that another user owns (a container's, say) has no version control to stamp into the programs that the tests build.
# Memory is cheaper than time: less of it goes into collecting garbage.
TEST_ENV := GOGC=400 GOFLAGS="$(strip $(GOFLAGS) -buildvcs=false)"
TESTSUM  := $(TEST_ENV) .bin/testsum \
	-check gofmt='nice -n 19 scripts/lint gofmt' -check vet='nice -n 19 scripts/lint vet' -check staticcheck='nice -n 19 scripts/lint staticcheck' \
	-again 'go test $(TAGS) -json -race -count=3 -vet=off -timeout=10m -run'

.PHONY: help
help: ## Show what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: deps ## Lint, and test every guarantee on every store (10 minutes at most); CI runs this
	@$(TESTSUM) -- scripts/test -timeout=15m

.PHONY: test-all
test-all: export DIBS_TEST_LONG := 1
test-all: TAGS := -tags slowwire,clusters
test-all: deps ## The same, and fault runs that take minutes, slow wires, and clusters
	@$(TESTSUM) -- scripts/test $(TAGS) -timeout=120m

.PHONY: deps
deps: ## Install what the tests need (on Debian, as root)
	@scripts/test-deps
	@go build -buildvcs=false -o .bin/testsum ./internal/testsum
	@$(TEST_ENV) go build -race work

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, and the rules of internal/lint
	scripts/lint
	go test -count=1 ./internal/lint

.PHONY: fmt
fmt: ## Format all Go files
	"$$(go env GOROOT)/bin/gofmt" -l -w .

.PHONY: tidy
tidy: ## go mod tidy in every module
	scripts/tidy

.PHONY: api
api: ## Write the public API anew to docs/api
	go test -count=1 ./internal/lint -run '^TestPublicAPI$$' -update
	@git --no-pager diff --stat -- docs/api || true

.PHONY: mutate
mutate: ## Mutation tests of the engine's rooms; ROOMS="internal/seen ." for some
	scripts/mutate $(ROOMS)

.PHONY: bench
bench: ## All benchmarks, then dibs beside other ways of locking, in short (go run ./bench -help)
	@scripts/test-deps
	go test -run '^$$' -bench . -benchmem work
	go run ./bench -short

.PHONY: build
build: ## Build the command to bin/dibs
	CGO_ENABLED=0 go build -trimpath -o bin/dibs ./cmd/dibs

.PHONY: clean
clean: ## Remove what was built, and the tools
	rm -rf bin .bin mutation
