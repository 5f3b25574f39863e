# mbox. `make` alone tells what there is to make.
.POSIX:

GO     = go
PREFIX = /usr/local
TOOL   = $(GO) tool -modfile=.ci/tools/go.mod

# What the packages with a main of their own for CI are; ./... leaves them out.
OWN = ./.ci/gotest ./.ci/tinygguf

# Those whose tests take longest begin first: the others run beside them.
PACKAGES = ./cmd/mbox ./mailbox ./...

# A real Ollama server for the tests, built once. Where none can be built they skip,
# and say so; in CI they fail.
OLLAMA = OLLAMA_BIN=$$(.ci/ollama)

# The MCP clients that others keep, installed once, with npm.
PEERS = MCP_PEERS=$$(.ci/mcp-peers)

# What looks for obstacles in the dashboard's pages, fetched once, with npm.
LOOKS = AXE=$$(.ci/axe)

# What the tests call.
NEED = python3 strace jq curl bash ps=procps setsid=util-linux mkfs.ext4=e2fsprogs losetup=mount tmux chromium ngircd initdb=postgresql dbus-send=dbus gnome-keyring-daemon=gnome-keyring

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile | expand -t 20

# Without the tag cli makes tables for man pages at every start, of which mbox's
# own is not made.
build: ## the static binary ./mbox
	CGO_ENABLED=0 $(GO) build -tags urfave_cli_no_docs -trimpath -buildvcs=false -o mbox \
		-ldflags "-s -w -X main.version=$$(git describe --tags --always --dirty 2>/dev/null)" ./cmd/mbox

qdrant: ## ./mbox-qdrant, for agents that remember in Qdrant: put it beside mbox
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o mbox-qdrant -ldflags "-s -w" ./cmd/mbox-qdrant

demo: build ## agents at work in a temporary home, 10 seconds (KEEP=1 keeps the home)
	@.ci/demo.sh ./mbox

demo-ollama: build ## agents that think with Ollama (MBOX_MODEL=NAME; TINY=1 brings its own)
	@.ci/demo-ollama.sh ./mbox

test: ## every test; installs what the tests need
	.ci/need $(NEED)
	$(OLLAMA) $(PEERS) $(LOOKS) RAPID_SEED=$${MBOX_SEED:-1} CGO_ENABLED=0 $(GO) run ./.ci/gotest $(TESTFLAGS) -timeout 60m $(PACKAGES)

torture: ## the long forms: storms, sweeps, histories, tampering, power cuts; hours
	.ci/need $(NEED) mkfs.xfs=xfsprogs mkfs.btrfs=btrfs-progs
	$(OLLAMA) MBOX_TORTURE=1 CGO_ENABLED=0 $(GO) run ./.ci/gotest -count=1 -timeout 12h -skip Engine ./audit/... ./mailbox ./agents/... ./cmd/mbox ./cmd/mbox/gateway
	.ci/engine env MBOX_TORTURE=1 CGO_ENABLED=0 $(GO) run ./.ci/gotest -count=1 -run Engine ./agents/action ./cmd/mbox
	cd cmd/prove/power && $(GO) run .
	.ci/need dpkg-deb=dpkg && .ci/check-deb
	.ci/need buildah busybox=busybox-static nsenter=util-linux && .ci/check-container
	$(MAKE) mutants

mutants: ## break mbox in 1315 places, one at a time: the tests must notice
	.ci/need $(NEED)
	$(OLLAMA) $(PEERS) $(LOOKS) CGO_ENABLED=0 $(GO) run ./cmd/prove/mutants

race: ## the tests under the race detector, shorter, without those of the built program; needs gcc
	.ci/need $(NEED)
	$(OLLAMA) $(PEERS) RAPID_SEED=$${MBOX_SEED:-1} CGO_ENABLED=1 $(GO) run ./.ci/gotest -race -short $(TESTFLAGS) -timeout 60m $(PACKAGES)

fuzz: ## every fuzz target for 5 seconds (FUZZTIME=1m for longer)
	.ci/fuzz

lint: ## go vet, staticcheck, gofumpt and the table of imports
	$(GO) vet ./... $(OWN)
	$(TOOL) staticcheck ./... $(OWN)
	cd cmd/prove/power && $(GO) vet .
	@unformatted=$$($(TOOL) gofumpt -l .) && test -z "$$unformatted" || \
		{ echo "gofumpt would change:" $$unformatted; exit 1; }
	cd examples/peers && $(GO) list -m all >/dev/null
	$(GO) test -count=1 -run House ./cmd/mbox

# make lint vets for the machine that it runs on; only the sandbox knows processors.
cross: ## build for linux and darwin, amd64 and arm64, and vet what make lint does not see
	@set -e; export CGO_ENABLED=0; for os in linux darwin; do for arch in amd64 arm64; do \
		echo "$$os/$$arch"; \
		GOOS=$$os GOARCH=$$arch $(GO) build -buildvcs=false -o /dev/null ./cmd/mbox; \
	done; done
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) vet ./agents/sandbox

bench: build ## the figures of mbox help performance, and mbox beside other queues
	$(GO) run ./cmd/prove/bench
	$(GO) test ./agents/memory ./agents/memory/sqlite ./agents/memory/postgres -run '^$$' -bench Recall
	.ci/need redis-server strace mkfs.ext4=e2fsprogs losetup=mount
	cd examples/peers && CGO_ENABLED=0 $(GO) run .

install: build ## mbox, its manual page and completions, to PREFIX (/usr/local)
	mkdir -p $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 mbox $(DESTDIR)$(PREFIX)/bin/mbox
	./mbox man > $(DESTDIR)$(PREFIX)/share/man/man1/mbox.1
	./mbox completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/mbox
	./mbox completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_mbox
	./mbox completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/mbox.fish

deb: ## dist/mbox_VERSION_ARCH.deb and its SBOM, the same bytes each time
	.ci/deb

clean: ## remove what make build has made
	rm -rf mbox mbox-qdrant dist

.PHONY: help build qdrant demo demo-ollama test torture race mutants fuzz lint cross bench install deb clean
