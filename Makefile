# tunctl: `make help` lists the targets.

GO          ?= go
PREFIX      ?= /usr/local
SHARE       := $(DESTDIR)$(PREFIX)/share
BIN         := bin/tunctl
PROGRAM     := $(CURDIR)/bin/test/tunctl
REPORT      := $(CURDIR)/bin/test/testreport
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT      := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS     := -s -w -X main.stamped=$(VERSION) -X main.commit=$(COMMIT)
FUZZTIME    ?= 60s
ARTIFACTS   ?= $(CURDIR)/artifacts

# Real parts need root, and are installed through Debian's packages; some, which are
# used where they are found, need neither.
REAL        := $(shell test "$$(id -u)" = 0 && grep -qsx ID=debian /etc/os-release && echo 1)

# The race detector needs a C compiler, which may just have been installed.
COMPILER     = $(shell set -- $$($(GO) env CC); command -v "$$1")
RACEFLAG     = $(if $(CI)$(REAL)$(COMPILER),-race)

# How tests are run: less garbage is collected, since compilers, tests and programs are
# many and live short, and nothing for debuggers is linked, which halves the time of it.
# The system's own programs come first: a python3 of a version manager is a script, which
# takes six times as long to start, and the tests start thousands.
GOTEST      := GOGC=400 GORACE=atexit_sleep_ms=0 PATH="/usr/bin:/bin:$$PATH" $(REPORT) $(shell command -v $(GO)) test -vet=off -ldflags='-s -w'

# The packages that take longest, so that they start first. Most of the time they wait,
# so more packages run at once than there are processors.
LONGEST     := $(addprefix tunctl/,internal/agent internal/dev/e2e cmd/tunctl tunnel internal/dev/realssh jobwatch tunnel/forward internal/dev/realjobs tunnel/step internal/transfer tunnel/node configs)
LONGEST_CHECK := ./cmd/tunctl ./internal/agent ./tunnel ./jobwatch ./internal/dev/release ./internal/transfer
PACKAGES    := 3

# What runs without the race detector, which would take five to ten times as long: tests that
# run the program, which has it only with RACE=all; packages without goroutines; hours and days
# that are simulated, whose parts other tests run with it.
DRIVERS     := $(addprefix tunctl/,internal/dev/e2e cmd/tunctl internal/dev/release internal/dev/winetest)
PLAIN       := $(if $(filter all,$(RACE)),,$(DRIVERS)) $(addprefix tunctl/,internal/action internal/agent/facts internal/agent/jobnode internal/agent/settings internal/agent/submit \
  internal/api internal/autostart internal/cmdline internal/dev/arrows internal/dev/wording internal/doctor internal/editor internal/home internal/posixsh internal/setup \
  internal/suggest jobwatch/detect jobwatch/gridengine jobwatch/pbs jobwatch/sched jobwatch/slurm tunnel/failure tunnel/hostkey tunnel/retry)
SIMULATED   := ^(TestWorkday|TestIdleDay|TestNoLinkCostsADownload)$$

# Of a release: where it will be found, and who answers for its packages.
RELEASEFLAGS = $(if $(URL),-url '$(URL)') $(if $(MAINTAINER),-maintainer '$(MAINTAINER)')

# What `make cover` looks at: these and the packages below them.
COVERED     := tunctl/tunnel/...,tunctl/jobwatch/...,tunctl/configs/...,tunctl/internal/agent/...

LABCTL      := $(GO) run ./internal/dev/real/cmd/labctl

# The tools' versions; `go run` fetches and caches them.
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.14.0
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

.DEFAULT_GOAL := build
.PHONY: app code-server install-parts testreport test-packages test-plain test-real test-debian check check-style check-tests wine release release-check campaign soak screenshots build install uninstall demo test lab-up lab-down lab-status lab-shell lint fmt bench fuzz cover clean help vuln

build: ## build bin/tunctl, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/tunctl

# What `make install` adds besides the program and its man pages.
COMPLETIONS := $(SHARE)/bash-completion/completions/tunctl $(SHARE)/zsh/site-functions/_tunctl $(SHARE)/fish/vendor_completions.d/tunctl.fish
DESKTOP     := $(SHARE)/applications/tunctl.desktop $(SHARE)/icons/hicolor/scalable/apps/tunctl.svg

install: build ## install the program, man pages, completions and desktop file below PREFIX (and DESTDIR)
	install -d $(DESTDIR)$(PREFIX)/bin $(SHARE)/man/man1 $(SHARE)/man/man5 $(dir $(COMPLETIONS) $(DESKTOP))
	install -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/tunctl
	install -m 0644 packaging/man/*.1 $(SHARE)/man/man1
	install -m 0644 packaging/man/*.5 $(SHARE)/man/man5
	$(BIN) completion bash >$(word 1,$(COMPLETIONS))
	$(BIN) completion zsh >$(word 2,$(COMPLETIONS))
	$(BIN) completion fish >$(word 3,$(COMPLETIONS))
	sed 's|^\(Try\)\{0,1\}Exec=|&$(PREFIX)/bin/|' packaging/tunctl.desktop >$(word 1,$(DESKTOP))
	install -m 0644 packaging/tunctl.svg $(word 2,$(DESKTOP))
	chmod 0644 $(COMPLETIONS) $(DESKTOP)
	@dir=$(PREFIX)/bin; case "$(DESTDIR):$$PATH:" in /* | *":$$dir:"*) ;; *) printf '%s is not on your PATH. Add this to the startup file of your shell, such as ~/.bashrc:\n  export PATH="%s:$$PATH"\n' "$$dir" "$$dir" ;; esac

uninstall: ## remove what `make install` installed; your config and state stay
	rm -f $(DESTDIR)$(PREFIX)/bin/tunctl $(SHARE)/man/man1/tunctl.1 $(SHARE)/man/man1/tunctl-*.1 $(SHARE)/man/man5/tunctl-*.5 $(COMPLETIONS) $(DESKTOP)

# The linker signs the program alone. Signed again, by nobody ("-"), the signature covers
# the whole bundle.
app: ## build bin/tunctl.app, with the menu-bar icon; needs a Mac
	$(GO) run ./internal/dev/release -version '$(VERSION)' -app bin
	codesign --force --sign - bin/tunctl.app

demo: build ## start a notebook on the practice cluster; needs no account
	$(BIN) demo $(DEMOFLAGS)

check: ## run before each commit: linters and the tests that need no real parts; about a minute
	@$(MAKE) --no-print-directory -j2 check-style check-tests

check-style:
	GOGC=400 $(GO) run $(GOLANGCI) run --allow-parallel-runners ./...

# Without cgo and without paths, as the program is shipped: the release test and `make
# build` then find compiled what this compiled.
check-tests: testreport
	@CGO_ENABLED=0 GOFLAGS="$(shell $(GO) env GOFLAGS) -trimpath" $(GOTEST) -p $(PACKAGES) -timeout 40m $(LONGEST_CHECK) ./...

# The programs that the tests run are built as they are shipped, and compiled for the
# release test anyway.
test: install-parts testreport ## run all tests; as root on Debian also those on real parts, whose packages it installs; RACE=all has the race detector in the program, too
	GOGC=400 $(if $(filter all,$(RACE)),$(GO) build $(RACEFLAG),CGO_ENABLED=0 $(GO) build -trimpath) -ldflags='-s -w' -o $(PROGRAM) ./cmd/tunctl
	@mkdir -p $(ARTIFACTS)
	@$(MAKE) --no-print-directory -j2 test-packages test-plain

TESTED       = TUNCTL_REAL=$(or $(REAL),some) TUNCTL_PROGRAM=$(PROGRAM) TUNCTL_ARTIFACTS=$(ARTIFACTS) $(if $(RACEFLAG),TUNCTL_SEQUENCES=30)

# The race detector doubles what a test needs, and four packages run at once: their garbage is
# collected before it fills a machine of 4 GB.
test-packages:
	@$(TESTED) $(GOTEST) $(if $(RACEFLAG),-race -exec 'env GOMEMLIMIT=300MiB' -skip '$(SIMULATED)' -p 4,-p $(PACKAGES)) -count=1 -timeout 40m \
	  $(if $(RACEFLAG),$(filter-out $(PLAIN),$(LONGEST) $(shell $(GO) list ./...)),$(LONGEST) ./...)

# Compiled as the program is, these tests share with it what both use.
test-plain:
	@$(if $(RACEFLAG),CGO_ENABLED=0 $(TESTED) $(GOTEST) -trimpath -p 2 -count=1 -timeout 40m $(PLAIN))
	@$(if $(RACEFLAG),CGO_ENABLED=0 TUNCTL_SEQUENCES=300 $(GOTEST) -trimpath -count=1 -run '$(SIMULATED)|^TestEveryChargedJobIsKnown$$|^TestModel$$' ./internal/agent ./tunnel/node ./tunnel/pace)

# The packages whose tests start real parts, and the groups of install.sh that these are in. Of
# tunnel only the tests that start OpenSSH.
REALPARTS   := internal/dev/realssh internal/dev/e2e internal/dev/realjobs internal/dev/real/... tunnel/sshconfig
REALGROUPS  := build ssh slurm gridengine jupyter apps browser desktop

test-real: testreport ## run the tests on real parts alone, without the race detector; as root on Debian, whose packages it installs
	@internal/dev/install.sh $(REALGROUPS)
	CGO_ENABLED=0 GOGC=400 $(GO) build -trimpath -ldflags='-s -w' -o $(PROGRAM) ./cmd/tunctl
	@mkdir -p $(ARTIFACTS)
	@CGO_ENABLED=0 $(TESTED) $(GOTEST) -trimpath -p $(PACKAGES) -count=1 -timeout 40m $(REALPARTS:%=./%)
	@CGO_ENABLED=0 $(TESTED) $(GOTEST) -trimpath -count=1 -timeout 40m -run 'SSH|ProxyCommand' ./tunnel

DEBIAN      ?= 13

test-debian: ## run `make test` on another Debian, DEBIAN=13, 12 or forky, in a root that debootstrap makes in /var/cache/tunctl; PARTS=real runs `make test-real`; needs root
	@internal/dev/debian.sh $(DEBIAN) '$(if $(PARTS),$(REALGROUPS))' make $(if $(PARTS),test-$(PARTS),test) ARTIFACTS=$(ARTIFACTS)

# Compiled as the program is, it shares with it what both use.
testreport:
	@CGO_ENABLED=0 GOGC=400 $(GO) build -trimpath -ldflags='-s -w' -o $(REPORT) ./internal/dev/testreport

install-parts:
	@$(if $(REAL),,echo "Not run here: tests on real parts (Slurm, Jupyter, a browser, a desktop), which need root on Debian$(if $(COMPILER),,; the race detector, which needs a C compiler).")
	@internal/dev/install.sh $(if $(REAL),,build) || test -z "$(CI)$(REAL)"

wine: testreport ## run the Windows program under Wine; as root on Debian, whose packages it installs; RUNS=20 repeats the whole run
	@internal/dev/install.sh wine ssh slurm jupyter
	TUNCTL_REAL=1 TUNCTL_WINE=1 TUNCTL_WINE_RUNS=$(RUNS) $(GOTEST) -count=1 -timeout 20m ./internal/dev/winetest

lab-up: ## start the lab, a cluster of real parts (sshd, Slurm, Jupyter); needs root
	$(LABCTL) up

lab-down: ## stop the lab
	$(LABCTL) down

lab-status: ## show what runs in the lab
	$(LABCTL) status

lab-shell: ## open a shell on the lab's login node, or as root on NODE=cn01
	$(LABCTL) shell $(NODE)

lint: ## run the linters on all platforms and shellcheck on the jobs of all sites, and look for known vulnerabilities
	$(GO) run $(GOLANGCI) run --allow-parallel-runners ./...
	GOOS=windows $(GO) vet ./...
	GOOS=darwin CGO_ENABLED=0 $(GO) vet ./...
	$(GO) run $(ACTIONLINT)
	@command -v shellcheck >/dev/null || internal/dev/install.sh build
	TUNCTL_SHELLCHECK=1 $(GO) test -run Shellcheck ./configs
	$(MAKE) vuln

vuln: ## look for known vulnerabilities in the dependencies
	@GOBIN=$(CURDIR)/bin $(GO) install $(GOVULNCHECK) && bin/govulncheck ./...; status=$$?; \
	  if [ $$status = 3 ]; then exit 1; \
	  elif [ $$status != 0 ]; then echo "govulncheck: cannot reach the vulnerability database; dependencies were NOT checked"; fi

fmt: ## format the code
	$(GO) run $(GOFUMPT) -l -w $$(git ls-files '*.go')

bench: build ## run the benchmarks, compared with OpenSSH and others where possible, and how costs grow; about 20 minutes, as root on Debian; DOCS=1 writes docs/performance.md from three runs, in an hour
	@$(if $(REAL),internal/dev/install.sh ssh slurm jupyter browser bench)
	@internal/dev/bench/all.sh $(if $(DOCS),docs/performance.md)

screenshots: install-parts ## pictures of every menu, notification, dialog and page in artifacts/screenshots, and those of the README in docs/images; needs root
	@mkdir -p $(ARTIFACTS)/screenshots
	TUNCTL_REAL=1 TUNCTL_SCREENSHOTS=1 TUNCTL_ARTIFACTS=$(ARTIFACTS)/screenshots \
	  $(GO) test -count=1 -timeout 20m -run 'OnARealPanel$$|OnARealDesktop$$|InARealBrowser$$|^TestMovingPicture$$' ./tray ./internal/agent/facts ./internal/dashboard ./cmd/tunctl

# Where code-server is installed: a folder that the users of the lab can read.
CODE_SERVER ?= /var/cache/tunctl/code-server

code-server: testreport ## install code-server from npm, once, in 3 to 15 minutes, and edit in it in a job, also while the connection is lost; as root on Debian
	@internal/dev/install.sh ssh slurm browser
	internal/dev/code-server.sh $(CODE_SERVER)
	@mkdir -p $(ARTIFACTS)
	TUNCTL_REAL=1 TUNCTL_CODE_SERVER=$(CODE_SERVER) TUNCTL_ARTIFACTS=$(ARTIFACTS) $(GOTEST) -count=1 -timeout 10m -run TestARealCodeServer ./internal/dev/e2e

campaign: code-server ## run every fault against a session on real parts and write docs/faults.md; code-server; 10,000 random sequences of each model; needs root
	TUNCTL_SEQUENCES=10000 $(GO) test -count=1 -timeout 60m -run '^(TestEveryChargedJobIsKnown|TestModel)$$' ./internal/agent ./tunnel/node
	TUNCTL_REAL=1 TUNCTL_CUTS=1 TUNCTL_ARTIFACTS=$(ARTIFACTS) $(GO) test -race -v -timeout 60m -parallel 6 -run 'TestTheSessionOutlivesEveryFault|TestWhatALostConnectionCosts|TestWhatTwentyLostConnectionsLeave|TestWhatRunsInsideAJobContinuesAtAnotherAddress' ./internal/dev/e2e -update
	TUNCTL_REAL=1 TUNCTL_CUTS=1 TUNCTL_ARTIFACTS=$(ARTIFACTS) $(GO) test -v -count=1 -timeout 60m -parallel 6 -run TestGonePages ./internal/dev/e2e -update

soak: ## drop the link every few seconds for 10 minutes, and kill agents for 10 more; check every byte and look for leaks
	TUNCTL_SOAK=10m $(GO) test -race -v -timeout 40m ./internal/dev/soak

fuzz: ## run every fuzz target for FUZZTIME
	@set -e; $(GO) list -f '{{.Dir}}' ./... | while read -r dir; do \
	  grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go 2>/dev/null | sed 's/^func //' | while read -r target; do \
	    echo "== $$dir $$target"; (cd "$$dir" && $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) .) || exit 1; \
	  done || exit 1; \
	done

# The programs that the tests start add to it what of them ran, unless they are killed. The
# tests get their folder by -exec: go test names another one to those that it covers.
# Without the main package Go writes nothing down.
cover: install-parts ## measure how much of the main packages all tests together run; fails below 80 %
	rm -rf cover && mkdir -p cover && mkdir -m 1777 cover/program
	CGO_ENABLED=0 $(GO) build -trimpath -cover -coverpkg=tunctl/cmd/tunctl,$(COVERED) -o $(PROGRAM) ./cmd/tunctl
	TUNCTL_REAL=$(or $(REAL),some) TUNCTL_PROGRAM=$(PROGRAM) CGO_ENABLED=0 \
	  $(GO) test -trimpath -vet=off -count=1 -p $(PACKAGES) -timeout 60m -exec 'env GOCOVERDIR=$(CURDIR)/cover/program' -coverpkg=$(COVERED) -coverprofile=cover/tests.out $(or $(TESTS),$(LONGEST) ./...)
	$(GO) tool covdata textfmt -i=cover/program -o cover/program.out
	@awk '/^(mode:|tunctl\/cmd)/ { next } { n[$$1] = $$2; if ($$3 > 0) hit[$$1] = 1 } \
	  END { for (b in n) { p = b; sub(/\/[^\/]*$$/, "", p); all[p] += n[b]; if (b in hit) got[p] += n[b] } \
	    for (p in all) { c = 100 * got[p] / all[p]; printf "%-34s %5.1f %%  of %d\n", p, c, all[p] | "sort"; if (c < 80) low = 1 } exit low }' cover/*.out

release: ## build a release in dist/; set URL=… for the manifests and MAINTAINER='NAME <ADDRESS>' for the packages
	$(GO) run ./internal/dev/release $(RELEASEFLAGS)

release-check: testreport ## build the release twice, the second time elsewhere with an empty cache, and compare every byte; as root on Debian also install, upgrade and remove its packages
	@$(if $(REAL),internal/dev/install.sh ssh package)
	$(GO) run ./internal/dev/release -again $(RELEASEFLAGS)
	TUNCTL_RELEASE=1 TUNCTL_REAL=$(REAL) $(GOTEST) -count=1 -timeout 30m ./internal/dev/release

clean: ## remove the build output
	rm -rf bin dist artifacts cover

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s  %s\n", $$1, $$2}'
