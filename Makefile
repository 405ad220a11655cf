# What can be made here. Without a target the list is printed.

T ?= 30s
ROUNDS ?= 200
# Of a package; ten minutes, the default, are not enough on two cores that others use.
TIMEOUT ?= 60m
SOAK ?= 30m
CAPTURES ?= 0
HISTORIES ?= 3000
# Of what the long targets choose at random; 0: another each time, which is printed.
SEED ?= 0
# Most tests work in memory if they can (internal/testdisk); the long ones on a disk.
DISK = TMPDIR=$(or $(TMPDIR),/tmp)
STATICCHECK = go tool -modfile=internal/tools/go.mod staticcheck
GOVULNCHECK = go tool -modfile=internal/tools/go.mod govulncheck

# All but those that have the SQL drivers in them, or in their tests: to compile them takes a minute and a
# half of processor time for each system, and to look for what is wrong in them takes longer.
DRIVERS = checkpoint(/httpapi)?|cmd/snapctl-checkpoints|e2e|examples/runtime|internal/dbpipe
LIGHT = $$(go list ./... | grep -vE '^[^/]+/[^/]+/[^/]+/($(DRIVERS))$$')

.PHONY: help
help: ## list targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: build
build: ## the commands, in ./snapctl and ./snapctl-checkpoints
	go build -o ./ ./cmd/snapctl ./cmd/snapctl-checkpoints

.PHONY: test
test: ## all tests; a list of those that were skipped, and why, is at the end
	go run ./internal/gotest -- -timeout $(TIMEOUT) ./...

.PHONY: docs
docs: ## run every example of README.md and the guides, and compare; UPDATE=1 writes what they print, and the picture
	@bash -c "go test -count=1 -v -run 'TestGuide$$' ./cmd/snapctl $(if $(UPDATE),-update) | grep -v '^==='; exit \$${PIPESTATUS[0]}"

.PHONY: release
release: ## what users install, for all systems, in dist: archives, packages, npm, formula, checksums; ONLY=linux/amd64
	go run ./internal/release -o dist -only '$(ONLY)'

.PHONY: release-test
release-test: release ## build it twice and compare, then install it each way that this machine can, as root on Linux
	go run ./internal/release -o dist-again -only '$(ONLY)'
	go run ./internal/gotest -- -count=1 -timeout $(TIMEOUT) -run 'TestRelease$$' ./internal/release -v -release $(CURDIR)/dist -again $(CURDIR)/dist-again
	rm -r dist-again

.PHONY: race
race: ## all tests under the race detector, in random order
	go test -race -shuffle=on -short -timeout $(TIMEOUT) ./...

.PHONY: lint
lint: ## gofmt, vet, types on macOS and Windows, staticcheck, licences
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	go vet ./...
	go vet -C faults/fuse ./...
	go vet -C web ./...
	go run -C internal/tools ./systems ../.. darwin,windows $(LIGHT)
	$(STATICCHECK) $(LIGHT)
	$(STATICCHECK) -tests=false ./checkpoint/... ./internal/dbpipe
	@.ci/licenses | cmp -s - THIRD_PARTY_LICENSES || { echo "THIRD_PARTY_LICENSES is not what is linked: make licenses"; exit 1; }

.PHONY: licenses
licenses: ## THIRD_PARTY_LICENSES, from the modules that are linked
	.ci/licenses > THIRD_PARTY_LICENSES

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what is called; asks vuln.go.dev, or the database GOVULNDB
	@.ci/vulncheck $(GOVULNCHECK) $(if $(GOVULNDB),-db $(GOVULNDB)) ./...

.PHONY: fuzz
fuzz: ## every fuzz target for T=30s
	@for pkg in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$pkg | grep ^Fuzz); do \
	    echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(T) -fuzzminimizetime 2s $$pkg || exit 1; \
	  done; \
	done

.PHONY: explore
explore: ## the protocol of remotes: all worlds, each for EXPLORE=10m at most, RUNS=100 random histories, 1,000 turns through faults
	go test -timeout 240m -run 'TestProtocol' ./internal/remote/lines -v -explore -explore.time $(or $(EXPLORE),10m)
	$(DISK) go test -timeout 60m -run 'TestPruneBeside' ./internal/exchange -beside $(or $(RUNS),100)
	go test -timeout 60m -run 'TestFaults' ./cmd/snapctl/internal/s3 -turns 250 -late 30s

.PHONY: tamper
tamper: ## each byte of a small remote is changed, one at a time: it is found, named and mended; some minutes
	$(DISK) go test -count=1 -timeout 60m -run 'TestRepairEvery' ./internal/exchange -v -bytes

.PHONY: clocks
clocks: ## two machines and a remote, all of whose clocks are wrong by ten years, this way and that; builds Go's library anew
	$(DISK) go test -count=1 -timeout 60m -run 'TestRemoteClocks' ./cmd/snapctl -v -clocks

.PHONY: remote
remote: ## a remote on MinIO of four processes, some of which are killed in the middle of pushes; builds it first, a quarter of an hour, once; Linux
	$(DISK) go test -count=1 -timeout 60m -run 'TestMinio' ./cmd/snapctl -v -minio

.PHONY: fleet
fleet: ## N=50 sandboxes of TURNS=20 turns each on this machine, with one directory and one bucket of versitygw; Linux
	$(DISK) go test -count=1 -timeout 60m -run 'TestFleet' ./cmd/snapctl -v -fleet $(or $(N),50) -fleet-turns $(or $(TURNS),20)

.PHONY: remote-bench
remote-bench: ## what a remote costs a turn, and pushes and clones of TREE=~/trees/linux, beside bare requests and restic
	$(DISK) go test -count=1 -timeout 60m -run 'TestRemote.*Cost' ./cmd/snapctl -v -remote-turns 250 -remote-tree '$(or $(TREE),$(HOME)/trees/linux)'

.PHONY: crash
crash: ## long fault loops: kill -9 in ROUNDS=200 rounds, 10,000 runs
	$(DISK) go test -timeout 60m -run 'Kill|Crash|Many|Interrupt$$' ./internal/cas ./manager ./cmd/snapctl -crash.rounds $(ROUNDS) -seed $(SEED)
	$(DISK) go test -timeout 60m -run 'Model' ./manager -runs 300 -seed $(SEED)
	$(DISK) go test -timeout 60m -run 'Fault|CutOff|RepairBesideWriter|Incident|PiSessions|SparseRandom' ./internal/cas ./internal/capture ./internal/audit ./manager -every
	$(DISK) go test -timeout 60m -run 'LocateOracle|Drift' ./patch -cases 100000 -seed $(SEED)
	$(DISK) go test -timeout 60m -run 'Fault|Kill' ./checkpoint -all -seed $(SEED)
	go test -timeout 60m -run 'ParseConfig|NearMisses' ./internal/gitrepo -every
	go test -timeout 60m -run 'RandomRepositories|Rules' ./internal/ignore -trees 30000 -seed $(SEED)
	$(DISK) go test -timeout 60m -run ResidentWild ./internal/capture -wild 5m -seed $(SEED)

.PHONY: faults
faults: ## power cuts, full disks and poor file systems, as root on Linux; CUTS=100
	$(DISK) go test -count=1 -timeout 120m ./faults -faults -cuts $(or $(CUTS),100) -images 100 -v -seed $(SEED)

.PHONY: damage
damage: ## 5,000 stores damaged at random, one in four in two places; DAMAGE=n
	$(DISK) go test -count=1 -timeout 60m -run DamageRandom ./cmd/snapctl -v -damage.runs $(or $(DAMAGE),5000) -seed $(SEED)

.PHONY: soak
soak: ## all kinds of processes on one store, killed at random, for SOAK=30m; CAPTURES=8: only captures, beside prunes
	$(DISK) go test -count=1 -timeout 0 -run 'TestSoak$$' ./cmd/snapctl -v -soak.time $(SOAK) -soak.captures $(CAPTURES) -seed $(SEED)

.PHONY: histories
histories: ## restores, undos, reverts and forks by the rules: HISTORIES=3000 in directories, a hundred times as many without; 400 days of reverts beside git
	go test -count=1 -timeout 120m -run 'TestRulesHold$$' ./manager -histories $(HISTORIES)00 -seed $(SEED)
	go test -count=1 -timeout 120m -run 'TestHistories$$' ./manager -histories $(HISTORIES) -steps 60 -seed $(SEED)
	go test -count=1 -timeout 120m -run 'TestLedger$$' ./manager -ledger.runs $(HISTORIES) -seed $(SEED)
	go test -count=1 -timeout 120m -run 'TestRevertAgreesWithGit$$' ./manager -v -revert.cases 400 -seed $(SEED)

.PHONY: merge
merge: ## 8,200 merges beside git merge-file, and how long those of long texts take; HISTORY=dir,dir: of these repositories, too
	go test -count=1 -timeout 60m -run 'TestMergeAgreesWithGit$$' ./patch -v -merge.cases 8200 -merge.history '$(HISTORY)' -seed $(SEED)
	go test -count=1 -timeout 60m ./internal/textdiff -every -git.pairs 4000 -seed $(SEED)
	go test -count=1 -timeout 60m -run 'TestMergeOfLongTexts$$' ./patch -v -merge.table
	go test -count=1 -timeout 60m -run 'TestHunksOfHistory$$' ./manager -v -hunks.cases 2000 -seed $(SEED)

.PHONY: revert
revert: ## processor time of reverts of a turn over 5,000 files, beside the same restore, and of hunks
	go test -count=1 -timeout 60m -run 'TestRevertCost$$' ./manager -v -revert.files 5000 -revert.rounds 7
	go test -run '^$$' -bench 'Hunks$$' ./manager

.PHONY: blame
blame: build ## blame beside git blame, cold, warm and as a process, of 10,000 turns and as many lines; TURNS=n
	go test -count=1 -timeout 60m -run 'TestBlameAsGit$$' ./manager -v -blame.runs 200
	go test -count=1 -timeout 60m -run 'TestBlameCost$$' ./manager -v -blame.turns $(or $(TURNS),10000) -blame.command $(CURDIR)/snapctl

.PHONY: find
find: ## find beside git log -S, of 10,000 turns; TURNS=n
	go test -count=1 -timeout 60m -run 'TestFindCost$$' ./manager -v -find-turns $(or $(TURNS),10000)

.PHONY: bisect
bisect: ## a step of bisect among 11,478 files: processor time beside a look at each of them, bytes beside those that differ
	go test -count=1 -run '^$$' -bench 'BenchmarkStep$$' -benchtime 50x ./internal/scratch

.PHONY: web
web: ## the page of 'snapctl timeline', from web/src into the sources; needs npm, and 'go build' does not
	cd web && npm ci --no-audit --no-fund --silent && npx tsc --noEmit
	go run -C web ./build

.PHONY: web-test
web-test: ## the page in a real Chromium, with the bytes on the disk compared; RUN=name: these tests only
	go test -C web -count=1 -timeout 20m ./... -run '$(RUN)'

.PHONY: web-shots
web-shots: ## the pictures of the page in docs/timeline, light and dark: look at them; SCREENS=DIR: all other screens, too
	go test -C web -count=1 ./test -run 'TestShots|TestScreens' -shots docs/timeline -screens '$(SCREENS)'

.PHONY: web-bench
web-bench: ## how long the page takes with 10,000 turns, a file of 5,000 lines and a turn of 5,000 files, on a quiet machine
	go test -C web -count=1 -timeout 60m ./test -run 'TestMany' -v -measure

.PHONY: wine
wine: ## tests as windows/amd64 under Wine (Debian's wine64), some of which fail: docs/platforms.md
	.ci/wine

.PHONY: house
house: ## the counts that keep the code readable: lines, exported identifiers, long functions, what a snapshot asks of the disk, how long the tests take
	go test -count=1 -v -run 'TestHouse$$' .
	go test -count=1 -v -run 'TestNatural$$' ./manager | grep natural_test
	go test -count=1 -v -run 'TestNaturalCommand$$' ./cmd/snapctl | grep natural_test
	@go test -exec true ./... >/dev/null # compiled beforehand
	@bash -c 'TIMEFORMAT="all tests: %R s, processor %U + %S s"; time go test -count=1 -timeout $(TIMEOUT) ./... | grep -v "^ok\|no test files"; exit $${PIPESTATUS[0]}'

.PHONY: mutants
mutants: ## break the code in the places that count, one at a time: a test must fail each time, half an hour; ONLY='^prune'
	nice go run ./internal/mutants -only '$(ONLY)' $(if $(JOBS),-jobs $(JOBS))

.PHONY: cost
cost: ## sizes, start time beside a hello in Go, and what a first command from the sources costs, one table; FIRST=no without that
	@FIRST=$(FIRST) .ci/cost

.PHONY: years
years: build ## what a store costs after 1,000, 10,000 and 100,000 snapshots, one table
	go run ./bench/years -snapctl ./snapctl

# The first command, the first prune, feature "moved", notes on turns, groups by themselves, compaction.
REVS ?= 8e48a4f6 f5d37cd3 ab9d652e d2fdec58 5dc69ebf ce0691b1
.PHONY: upgrade
upgrade: build ## one store written by an old version after the other, from the first on, TURNS=1000: all must stay whole; REVS=commits
	@d=$$(mktemp -d) && trap 'rm -rf $$d' EXIT && set -e && for r in $(REVS); do \
	  mkdir $$d/src && git archive $$r | tar -x -C $$d/src && go build -C $$d/src -o $$d/snapctl-$$r ./cmd/snapctl && rm -r $$d/src; done && \
	  go run -C internal/tools ./upgrade -turns $(or $(TURNS),1000) $(foreach r,$(REVS),$$d/snapctl-$(r)) $(CURDIR)/snapctl

.PHONY: e2e
e2e: ## the integrations inside of real agents, from the npm registry
	go test -count=1 -timeout 30m ./e2e -e2e -v

.PHONY: trees
trees: ## the trees to measure on, in TREES=~/trees
	bench/trees.sh $(or $(TREES),$(HOME)/trees)

.PHONY: bench
ifdef REF
bench:
	bench/ref.sh $(REF)
else
bench: ## snapctl beside git, restic, borg, kopia and the floors, an hour; less with ARGS='-tree linux -runs 1'; REF=main: the Go benchmarks there and here
	go run ./bench -json bench/results.json $(ARGS)
endif

.PHONY: benchdocs
benchdocs: ## docs/benchmarks.md and its plots, from bench/results.json
	go run ./bench -report bench/results.json
