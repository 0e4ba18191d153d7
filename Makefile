# culvert: build, test, demonstrate, install. `make` alone says what there is.

SHELL := /bin/sh
export PATH := $(HOME)/.cargo/bin:$(PATH)

PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib/culvert
MANDIR     ?= $(PREFIX)/share/man
COMPDIR    ?= $(PREFIX)/share
ZSHDIR     ?= $(COMPDIR)/zsh/site-functions
SYSCONFDIR ?= /etc
UNITDIR    ?= /etc/systemd/system
DOCDIR     ?= $(PREFIX)/share/doc/culvert
DESTDIR    ?=

CARGO  ?= cargo
PYTHON ?= /usr/bin/python3
BINARY  = target/release/culvert
PRELOAD = target/release/libculvert_preload.so
# What of it is built together: Cargo then chooses the same features for every caller.
PROGRAMS = -p culvert -p culvert-preload
# With the simulated gateway built in.
RTL     = target/rtl/culvert
# What the operator adds to the IKE daemon's AppArmor profile; never put in place by us.
APPARMOR_LOCAL = local-usr.sbin.charon-systemd

# Jobs of .ci/run that are targets too.
CHECKS = format shell crate-graph audit clippy docs unit models lab fuzz-smoke instructions hdl cosim \
    package scenarios hdl-full cosim-full fuzz-smoke-full scenarios-full

.DEFAULT_GOAL := help
.PHONY: help setup setup-demo build deb demo compare test test-full lint fuzz bench install uninstall clean kernel kernel-test strongswan-suite strongswan-suite6 \
    build-rtl rtl-scenario dpdk-suite frr-suite interop attacks charon6 strongswan-gm package-test screenshots web-test cryptodev-test cosim-record $(CHECKS)

help: ## this list
	@echo "culvert: a fast path for IPsec on Linux"
	@echo
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'
	@echo
	@echo "Single jobs: $(CHECKS)"
	@echo "One scenario: make scenarios ONLY=ikev2-psk"

setup: ## install what is missing (Debian 12, as root)
	@scripts/setup

setup-demo:
	@scripts/setup --demo

build: setup-demo ## release build of the daemon and the preload library
	@[ -x $(BINARY) ] || echo "Compiling culvert and 180 crates that it uses: two to three minutes on two cores, once. The last, culvert itself, takes one of them."
	$(CARGO) build --locked --release $(PROGRAMS)

deb: setup build ## a package of it for Debian, in build/deb
	@scripts/deb

demo: $(if $(filter rtl,$(DEVICE)),build-rtl,build) ## four hosts, two gateways, one tunnel, all figures; KEEP=1 leaves it up; DEVICE=rtl; CELL=1 to 4: small cells; SDWAN=1: three uplinks; PORTS=xdp, packet or unprivileged, ENCAP=1
ifeq ($(DEVICE),rtl)
	@scripts/fetch-charon6
	@CULVERT='$(CURDIR)/$(RTL)' $(PYTHON) demo/rtl.py $(if $(filter 1 yes true,$(KEEP)),--keep)
else ifneq ($(CELL),)
	@$(PYTHON) demo/cells.py $(CELL) $(if $(filter 1 yes true,$(KEEP)),--keep)
else ifneq ($(SDWAN),)
	@$(PYTHON) demo/sdwan.py $(if $(filter 1 yes true,$(KEEP)),--keep)
else
	@$(PYTHON) demo/demo.py $(if $(filter 1 yes true,$(KEEP)),--keep) \
	  $(if $(PORTS),--ports $(PORTS)) $(if $(filter 1 yes true,$(ENCAP)),--encap)
endif

# What is missing for one column leaves that column out.
compare: $(if $(CULVERT),,build) ## one table: culvert beside the kernel, libipsec and wireguard-go; COLUMNS=clear,xdp ROUNDS=3 SECONDS=2 JSON=1
	@dpkg -s wireguard-tools >/dev/null 2>&1 || apt-get -qq install --yes --no-install-recommends wireguard-tools >/dev/null || true
	@scripts/fetch-wireguard-go || { echo "compare: Debian's wireguard-go instead, which is older and slower"; \
	    dpkg -s wireguard-go >/dev/null 2>&1 || apt-get -qq install --yes --no-install-recommends wireguard-go >/dev/null; } || true
	@[ -x build/kernel/linux-7.2 ] || tests/kernel/build --any >&2 || true
	@CULVERT='$(or $(CULVERT),$(CURDIR)/$(BINARY))' $(PYTHON) demo/compare.py $(if $(COLUMNS),--columns $(COLUMNS)) \
	    $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(filter 1 yes true,$(JSON)),--json)

build-rtl: setup build ## the same with the gateway in hardware, simulated, as a device: target/rtl/culvert
	@$(MAKE) -C hdl tools
	@[ -x $(RTL) ] || echo "Compiling the simulated gateway, and culvert with its driver; all other crates are those of \`make build\`."
	CULVERT_COSIM=quick $(CARGO) build --locked --release $(PROGRAMS) --features culvert/rtl
	@install -D -m 0755 -t $(dir $(RTL)) $(BINARY) $(PRELOAD)
	@$(CARGO) build --locked --release $(PROGRAMS)

rtl-scenario: $(if $(CULVERT),,setup build-rtl) ## a tunnel's packets through the simulated gateway in hardware
	@scripts/fetch-charon6
	@CULVERT='$(or $(CULVERT),$(CURDIR)/$(RTL))' CULVERT_REQUIRE=1 $(PYTHON) -m pytest -c tests/pytest.ini tests/scenarios/offload-rtl

test: ## every kind of check and test, with samples of the longest; CULVERT_BUDGET=off: however slow
	@.ci/run

# After a change of the hardware, its driver or the interface of devices.
cosim-record: ## the co-simulation, whole; notes the sources on which it passed
	@scripts/cosim --record

test-full: ## make test without samples
	@.ci/run --full

lint: ## format, clippy, docs, crate graph, audit and shell checks
	@.ci/run format clippy docs crate-graph audit shell

$(CHECKS):
	@ONLY='$(ONLY)' .ci/run $@

# Of this one and of `interop` `make test` runs a sample.
strongswan-suite: setup build ## strongSwan's own scenarios; ONLY=ikev2/net2net-psk SAMPLE=1 JOBS=10
	@scripts/fetch-strongswan-suite
	@PYTHONPATH=tests $(PYTHON) -m strongswan $(ONLY) \
	    $(if $(filter 1 yes true,$(SAMPLE)),--sample) $(if $(JOBS),--jobs $(JOBS))

strongswan-suite6: $(if $(CULVERT),,setup build) ## strongSwan 6's own scenarios of SAs per CPU, in a guest, after make kernel VERSION=7.2
	@scripts/fetch-charon6
	@scripts/fetch-strongswan-suite6
	@CULVERT_KERNEL=$(or $(KERNEL),build/kernel/linux-7.2) PYTHONPATH=tests $(PYTHON) -m strongswan --charon6 $(ONLY)

dpdk-suite: $(if $(CULVERT),,setup build) ## the packet tests of DPDK's gateway; ONLY=trs_ipv6opts
	@scripts/fetch-dpdk-suite
	@PYTHONPATH=tests $(PYTHON) -m dpdk $(ONLY)

frr-suite: $(if $(CULVERT),,setup build) ## FRR's own topotests of BFD; ONLY=bfd_topo1 SAMPLE=1 JOBS=4
	@scripts/fetch-frr-suite
	@PYTHONPATH=tests $(PYTHON) -m frr $(ONLY) $(if $(filter 1 yes true,$(SAMPLE)),--sample) $(if $(JOBS),--jobs $(JOBS))

kernel: ## Linux as a test peer, VERSION=6.12 or 7.2, from Debian's source; PREBUILT=1 Debian's own
	@tests/kernel/build $(if $(filter 1 yes true,$(PREBUILT)),--prebuilt,$(or $(VERSION),6.12))

interop: $(if $(CULVERT),,setup build) ## culvert against Linux's ESP, after make kernel; ONLY=text KERNEL=path
	@tests/interop/run $(if $(ONLY),--only '$(ONLY)') $(if $(KERNEL),--kernel '$(KERNEL)')

apps-judge: ## recognition of applications against nDPI's, on nDPI's captures; ONLY='quic-v2 tls-esni-fuzzed'
	@scripts/apps-judge $(ONLY)

# One after the other: some fill tables of Linux's that all namespaces share.
attacks: $(if $(CULVERT),,setup build) ## attacks on every side of it, some twenty minutes; ONLY=text SEED=number
	@CULVERT='$(or $(CULVERT),$(CURDIR)/$(BINARY))' CULVERT_REQUIRE=1 $(if $(SEED),CULVERT_ATTACK_SEED=$(SEED)) \
	    $(PYTHON) -m pytest -c tests/pytest.ini tests/attacks $(if $(ONLY),-k '$(ONLY)') --durations=5

kernel-test: $(if $(CULVERT),,setup build) ## culvert beside the kernel, after make kernel; ONLY=text SAMPLE=1 KERNEL=path
	@tests/kernel/test $(if $(ONLY),--only '$(ONLY)') $(if $(KERNEL),--kernel '$(KERNEL)') \
	    $(if $(filter 1 yes true,$(SAMPLE)),--sample) $(if $(RANDOM_SETS),--random $(RANDOM_SETS))

charon6: $(if $(CULVERT),,setup build) ## culvert under strongSwan 6 of Debian testing, SAs for each worker too
	@scripts/fetch-charon6
	@CULVERT_REQUIRE=1 $(if $(wildcard build/kernel/linux-7.2),CULVERT_KERNEL=build/kernel/linux-7.2) \
	    $(PYTHON) -m pytest -c tests/pytest.ini tests/scenarios/charon6

strongswan-gm: $(if $(CULVERT),,setup build) ## a plugin by which charon negotiates SM4 and SM3, and its scenario
	@scripts/strongswan-gm
	@CULVERT_REQUIRE=1 $(if $(wildcard build/kernel/linux-7.2),CULVERT_KERNEL=build/kernel/linux-7.2) \
	    $(PYTHON) -m pytest -c tests/pytest.ini tests/scenarios/sm4

package-test: deb ## the package on a Debian with systemd: installed, upgraded under traffic, removed
	@scripts/deb 0.1.1
	@scripts/fetch-machine
	@CULVERT='$(CURDIR)/$(BINARY)' CULVERT_REQUIRE=1 $(PYTHON) -m pytest -c tests/pytest.ini tests/package

web-test: $(if $(CULVERT),,setup build) ## the web page in headless Chromium: numbers, forms, keyboard, looks
	@dpkg -s chromium chromium-driver python3-selenium >/dev/null 2>&1 || \
	    apt-get install --yes --no-install-recommends chromium chromium-driver python3-selenium
	@scripts/fetch-axe
	@CULVERT_REQUIRE=1 $(PYTHON) -m pytest -c tests/pytest.ini tests/web
	@echo "screenshots: target/web"

screenshots: $(if $(CULVERT),,build) ## docs/pictures/web.png and top.svg, of a gateway at work
	@dpkg -s chromium chromium-driver python3-selenium >/dev/null 2>&1 || \
	    apt-get install --yes --no-install-recommends chromium chromium-driver python3-selenium
	@CULVERT='$(or $(CULVERT),$(CURDIR)/$(BINARY))' scripts/screenshots

# A debug build: it shows that packets pass, not how fast.
cryptodev-test: ## culvert with DPDK's crypto drivers; installs libdpdk-dev
	@dpkg -s libdpdk-dev >/dev/null 2>&1 || apt-get install --yes --no-install-recommends libdpdk-dev
	$(CARGO) clippy --locked -p culvert-cryptodev -p culvert-control -p culvert --features culvert/cryptodev --all-targets -- -D warnings
	$(CARGO) test --locked -p culvert-cryptodev --features dpdk
	@scripts/cryptodev-drivers
	$(CARGO) build --locked -p culvert -p culvert-preload --features culvert/cryptodev
	@CULVERT='$(CURDIR)/target/debug/culvert' CULVERT_REQUIRE=1 $(PYTHON) -m pytest -c tests/pytest.ini tests/scenarios/cryptodev

fuzz: ## fuzz every target for SECONDS (default 300) each
	scripts/fuzz --seconds $(or $(SECONDS),300)

bench: setup ## all benchmarks and a report in bench/reports; QUICK=1 CPU=core
	@if [ "$$(id -u)" = 0 ]; then bench/peer/build || true; \
	else echo "not root: without the comparison to DPDK's gateway"; fi
	$(CARGO) build --locked --release $(PROGRAMS) -p culvert-bench
	@$(BINARY)-bench all $(if $(filter 1 yes true,$(QUICK)),--quick) $(if $(CPU),--cpu $(CPU)) \
	    --report bench/reports --command 'make bench$(if $(QUICK), QUICK=1)$(if $(CPU), CPU=$(CPU))'

install: ## binary, preload library, manual pages, units, default configuration
	@test -x $(BINARY) || { echo "nothing is built yet: run make build first"; exit 1; }
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man5 \
	    $(DESTDIR)$(SYSCONFDIR)/culvert $(DESTDIR)$(UNITDIR) $(DESTDIR)$(DOCDIR)
	install -m 0755 $(BINARY) $(DESTDIR)$(BINDIR)/culvert
	install -m 0644 $(PRELOAD) $(DESTDIR)$(LIBDIR)/libculvert_preload.so
	rm -rf target/docs && $(BINARY) docs target/docs
	install -m 0644 target/docs/*.1 $(DESTDIR)$(MANDIR)/man1/
	$(PYTHON) scripts/man-configuration > target/docs/culvert.toml.5
	install -m 0644 target/docs/culvert.toml.5 $(DESTDIR)$(MANDIR)/man5/
	install -D -m 0644 target/docs/culvert.bash \
	    $(DESTDIR)$(COMPDIR)/bash-completion/completions/culvert
	install -D -m 0644 target/docs/_culvert $(DESTDIR)$(ZSHDIR)/_culvert
	install -D -m 0644 target/docs/culvert.fish \
	    $(DESTDIR)$(COMPDIR)/fish/vendor_completions.d/culvert.fish
	test -e $(DESTDIR)$(SYSCONFDIR)/culvert/culvert.toml || \
	    install -m 0600 packaging/culvert.toml $(DESTDIR)$(SYSCONFDIR)/culvert/culvert.toml
	install -d $(DESTDIR)$(SYSCONFDIR)/apparmor.d
	sed 's|@BINDIR@|$(BINDIR)|g' packaging/apparmor/culvert > $(DESTDIR)$(SYSCONFDIR)/apparmor.d/culvert
	chmod 0644 $(DESTDIR)$(SYSCONFDIR)/apparmor.d/culvert
	$(PYTHON) scripts/install-documents $(DESTDIR)$(DOCDIR)
	install -m 0644 packaging/wireshark/culvert $(DESTDIR)$(DOCDIR)/wireshark-extcap
	install -m 0644 packaging/prometheus/alerts.yml packaging/prometheus/dashboard.json \
	    $(DESTDIR)$(DOCDIR)/
	for unit in culvert.service culvert-guard.service culvert-metrics.service culvert-web.service; do \
	    sed 's|@BINDIR@|$(BINDIR)|g' packaging/$$unit > $(DESTDIR)$(UNITDIR)/$$unit; \
	    chmod 0644 $(DESTDIR)$(UNITDIR)/$$unit; done
	sed 's|@BINDIR@|$(BINDIR)|g' packaging/strongswan-culvert.conf \
	    > $(DESTDIR)$(DOCDIR)/strongswan-culvert.conf
	sed 's|@LIBDIR@|$(LIBDIR)|g' packaging/apparmor/$(APPARMOR_LOCAL) \
	    > $(DESTDIR)$(DOCDIR)/$(APPARMOR_LOCAL)
	@local=/etc/apparmor.d/local/usr.sbin.charon-systemd; \
	if [ -e "$${local%/*}" ] && ! grep -qs '^[^#].*culvert' "$$local"; then \
	    echo "AppArmor may confine charon-systemd. To let it work with culvert, once:"; \
	    echo "  cat $(DOCDIR)/$(APPARMOR_LOCAL) >> $$local"; \
	    echo "  apparmor_parser -r /etc/apparmor.d/usr.sbin.charon-systemd"; \
	fi

uninstall: ## remove what install put there; the configuration stays
	rm -f $(DESTDIR)$(SYSCONFDIR)/apparmor.d/culvert $(DESTDIR)$(BINDIR)/culvert $(DESTDIR)$(LIBDIR)/libculvert_preload.so \
	    $(DESTDIR)$(MANDIR)/man1/culvert.1 $(DESTDIR)$(MANDIR)/man1/culvert-*.1 $(DESTDIR)$(MANDIR)/man5/culvert.toml.5 \
	    $(DESTDIR)$(UNITDIR)/culvert.service $(DESTDIR)$(UNITDIR)/culvert-guard.service \
	    $(DESTDIR)$(UNITDIR)/culvert-metrics.service $(DESTDIR)$(UNITDIR)/culvert-web.service \
	    $(DESTDIR)$(COMPDIR)/bash-completion/completions/culvert \
	    $(DESTDIR)$(ZSHDIR)/_culvert \
	    $(DESTDIR)$(COMPDIR)/fish/vendor_completions.d/culvert.fish
	rm -rf $(DESTDIR)$(DOCDIR)
	-rmdir $(DESTDIR)$(LIBDIR) 2>/dev/null

clean: ## remove build results, and what an interrupted demo or test left
	-[ "$$(id -u)" = 0 ] && $(PYTHON) demo/demo.py --clean
	$(CARGO) clean
	rm -rf build fuzz/target hdl/build
	find tests demo -name __pycache__ -type d -prune -exec rm -rf {} +
