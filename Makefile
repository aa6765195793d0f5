# Two commands set everything up on a fresh machine:
#   go run ./cmd/powerbox demo
#   make test

HOUSE := go -C $(CURDIR)/tools/house run .
TOOL := go tool -modfile=$(CURDIR)/tools.mod
# Space-separated folders of every module of the tree, the main one first.
MODULES = $$($(HOUSE) modules)
OURS := find . \( -name node_modules -o -name '.?*' -o -path ./dist \) -prune -o
GOFILES = $(OURS) -name '*.go' -print
FUZZTIME ?= 30s
MUTATE ?=
# both runs every test of the built program on both stores.
STORES ?=
# Flags of bench/reliability, such as -times 1 -only "kill -9".
RELIABILITY ?=
# Flags of tools/release, such as -targets linux/amd64,darwin/arm64.
DIST ?=
# Flags of bench/differential, such as -time 60s, or -bindings grpc/js -seed 7.
DIFFERENTIAL ?=

.PHONY: help quick check vet vet-target lint format prose fix test test-deps race cover fuzz mutate differential reliability vectors bench screenshots generate dist dist-twice clean

help:
	@echo "make quick     the fast tests of every package, and a scenario a binding, in about a minute"
	@echo "make test      run every test of every module, counted (installs what they need)"
	@echo "make check     vet, linters, formatting, prose, walls and conformance"
	@echo "make prose     the prose linter over every page and the comments of Go"
	@echo "make cover     hold the core at full statement coverage"
	@echo "make race      the tests under the race detector (needs a C compiler)"
	@echo "make fuzz      every fuzz target, $(FUZZTIME) each (FUZZTIME=...)"
	@echo "make mutate    remove the checks of testdata/checks.txt, see their tests fail (MUTATE=name)"
	@echo "make differential  what agents execute against what is on record, 1,000,000 cases a binding (DIFFERENTIAL=flags)"
	@echo "make reliability  break an installation under load, compare every answer with the evidence (RELIABILITY=flags)"
	@echo "make vectors   Wycheproof and C2SP CCTV, from the Go proxy or from folders (docs/assurance/vectors.md)"
	@echo "make bench     the table of docs/assurance/performance.md"
	@echo "make generate  everything that is generated, docs/assurance/conformance.md among it"
	@echo "make fix       format, and fix what the linters can"
	@echo "make dist      everything of a release in dist/: archives, packages, image, bills of materials, checksums (DIST=flags)"
	@echo "make dist-twice  build a release in two folders and compare the bytes (DIST=\"-targets linux/amd64\")"

check: vet lint format prose
	go -C tools/house test -count=1 .

vet:
	@set -e; for dir in $(MODULES); do echo "vet $$dir"; (cd $$dir && go vet ./...); done

# Type-checks every package and test for another system, such as TARGET=windows/arm64.
vet-target:
	CGO_ENABLED=0 GOOS=$(word 1,$(subst /, ,$(TARGET))) GOARCH=$(word 2,$(subst /, ,$(TARGET))) go vet ./...

lint:
	@set -e; for dir in $(MODULES); do echo "lint $$dir"; \
	  (cd $$dir && $(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

format:
	@out=$$($(GOFILES) | xargs $(TOOL) gofumpt -d); \
	if [ -n "$$out" ]; then echo "$$out"; echo "not formatted: run make fix"; exit 1; fi
	@# gofumpt has a formatter of its own, which may align otherwise than that of the Go that we build with.
	@out=$$($(GOFILES) | xargs gofmt -l); if [ -n "$$out" ]; then echo "$$out"; echo "not as gofmt of $$(go version) has it"; exit 1; fi

# The prose linter reads source code too, for which it links parsers in C.
prose:
	@command -v cc >/dev/null || command -v gcc >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install -y --no-install-recommends gcc libc6-dev || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev; }; \
	  else echo "the prose linter needs a C compiler (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; fi; }
	@sed -n 's/^\[\([^*].*\)\]$$/warning: not edited yet: \1/p' .vale.ini
	@$(OURS) \( -name '*.md' -o -name '*.go' \) -print | CGO_CFLAGS=-w CGO_ENABLED=1 xargs go tool -modfile=$(CURDIR)/vale.mod vale

fix:
	@set -e; for dir in $(MODULES); do \
	  (cd $$dir && $(TOOL) golangci-lint run --fix --config $(CURDIR)/.golangci.yml ./... || true); done
	$(GOFILES) | xargs $(TOOL) gofumpt -w

quick:
	@$(HOUSE) quick

test: test-deps
	@# As on machines other than amd64, which have no assembly for it.
	@go test -tags purego ./eddsa
	@$(HOUSE) test $(if $(filter both,$(STORES)),-both)

# The clients in JavaScript need node, and npm for their packages; those in Python need Debian's packages, and the pages a browser.
test-deps:
	@set -e; \
	if ! command -v node >/dev/null || ! command -v npm >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install -y --no-install-recommends nodejs npm || { apt-get update && apt-get install -y --no-install-recommends nodejs npm; }; \
	  else echo "the tests need node and npm: install Node.js 20 or newer (Debian: apt-get install nodejs npm)" >&2; exit 1; fi; \
	fi; \
	$(OURS) -name package-lock.json -print | while read -r lock; do \
	  dir=$$(dirname "$$lock"); \
	  if [ ! "$$dir/node_modules/.package-lock.json" -nt "$$lock" ]; then \
	    echo "npm ci in $$dir"; (cd "$$dir" && npm ci --ignore-scripts --no-audit --no-fund); fi; \
	done
	@# The agents and verifiers in Python are run by Debian's own, whose standard library has no Ed25519.
	@/usr/bin/python3 -c 'import cryptography' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install -y --no-install-recommends python3 python3-cryptography || { apt-get update && apt-get install -y --no-install-recommends python3 python3-cryptography; }; \
	  else echo "the tests need /usr/bin/python3 with cryptography (Debian: apt-get install python3-cryptography)" >&2; exit 1; fi; }
	@# Signing keys are tried in SoftHSM, through a program that needs a C compiler.
	@{ [ -e /usr/lib/softhsm/libsofthsm2.so ] && command -v gcc >/dev/null; } || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install -y --no-install-recommends softhsm2 gcc libc6-dev || { apt-get update && apt-get install -y --no-install-recommends softhsm2 gcc libc6-dev; }; \
	  else echo "the tests need SoftHSM and a C compiler (Debian: apt-get install softhsm2 gcc libc6-dev)" >&2; exit 1; fi; }
	@# The pages are tried in Debian's Chromium; CHROME_BIN names another.
	@[ -n "$$CHROME_BIN" ] || command -v chromium-headless-shell >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install -y --no-install-recommends chromium-headless-shell || { apt-get update && apt-get install -y --no-install-recommends chromium-headless-shell; }; \
	  else echo "the tests need Chromium: set CHROME_BIN (Debian: apt-get install chromium-headless-shell)" >&2; exit 1; fi; }
	@# Other gateways ask for decisions: one of them is Debian's nginx.
	@command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install -y --no-install-recommends nginx-light || { apt-get update && apt-get install -y --no-install-recommends nginx-light; }; \
	  else echo "the tests need nginx (Debian: apt-get install nginx-light)" >&2; exit 1; fi; }
	@# The store for many nodes is tried on private clusters of Debian's PostgreSQL, which run as its user postgres.
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    mkdir -p /etc/postgresql-common && { [ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf; }; \
	    apt-get install -y --no-install-recommends postgresql-15 || { apt-get update && apt-get install -y --no-install-recommends postgresql-15; }; \
	  else echo "the tests need PostgreSQL 15 or newer: install it (Debian: apt-get install postgresql-15)" >&2; exit 1; fi; }
	@# The stock a2a command has modules of its own, which no test should have to fetch.
	@go -C e2e build -modfile=stock.mod -o /dev/null github.com/a2aproject/a2a-go/v2/cmd/a2a

race:
	@set -e; for dir in $(MODULES); do echo "race $$dir"; (cd $$dir && CGO_ENABLED=1 go test -race ./...); done

cover:
	@$(HOUSE) cover

fuzz:
	@$(HOUSE) fuzz $(FUZZTIME)

mutate:
	@$(HOUSE) mutate $(if $(MUTATE),"$(MUTATE)")

differential: test-deps
	cd bench && go run ./differential $(DIFFERENTIAL)

reliability:
	cd bench && go run ./reliability $(RELIABILITY)

vectors:
	@$(HOUSE) vectors

bench:
	cd bench && go run .

# The pictures of the console in the docs, from the data of the demo.
screenshots:
	go build -o $(CURDIR)/dist/powerbox ./cmd/powerbox
	go -C e2e run ./screenshots $(CURDIR)/dist/powerbox $(CURDIR)/docs/pictures

generate:
	go generate ./...
	$(HOUSE) conformance -write
	$(HOUSE) denials -write
	$(HOUSE) pictures -write

dist:
	go -C tools/release run . -root $(CURDIR) -out $(CURDIR)/dist $(DIST)

# Builds the commit in two new folders, each with an empty build cache, and compares every artifact.
dist-twice:
	@tools/release/twice.sh $(DIST)

clean:
	rm -rf dist
