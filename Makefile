# mvbench: synchronisation strategies of distributed SGD.
#   make demo    from nothing to plots          make test    everything checked
CC       ?= cc
ARCH     ?= -march=native
OPT      ?= -O3
WARN     ?= -Wall -Wextra -Wshadow -Wmissing-prototypes -Werror=implicit-function-declaration -Werror=int-conversion
CFLAGS   ?= -g
PREFIX   ?= /usr/local
B        ?= build
LANES    ?= 3
COUNT    ?= 1000
SECONDS  ?= 60
SUDO     ?= $(shell [ "$$(id -u)" = 0 ] || echo sudo)
PACKAGES := gcc libc6-dev make git libopenmpi-dev openmpi-bin libdnnl-dev libsqlite3-dev sqlite3 libinih-dev libssl-dev libexpat1-dev \
	libpmix-dev libsimgrid-dev pkgconf procps iproute2 zlib1g-dev check gnuplot-nox fonts-dejavu-core dataset-fashion-mnist
TEST_PACKAGES := luajit python3-numpy
# Where Debian's python3 looks under PREFIX.
PYTHON_DIR = lib/$(if $(filter /usr,$(PREFIX)),python3,$(or $(notdir $(realpath /usr/bin/python3)),python3))/dist-packages
NVCC     ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
NVCC_ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
CUDA     := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
PACKAGES += $(if $(CUDA),g++)
COMMIT    = $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || echo unknown)
VERSION := $(shell sed -n 's/.*MVB_VERSION "\([^"]*\)".*/\1/p' runtime/lib/libmvbench.h)

override CFLAGS += -std=c11 -D_GNU_SOURCE $(OPT) $(ARCH) $(WARN) -fopenmp-simd -fno-math-errno -fPIC -fvisibility=hidden -fno-semantic-interposition -MMD -MP
LIBS     := -ldnnl -lgomp -lsqlite3 -linih -lcrypto -lz -lm
export OMPI_CC = $(CC)
export MVBENCH_HOME = $(CURDIR)
override CPPFLAGS += -I.
export OMPI_ALLOW_RUN_AS_ROOT = 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 1

# A module is a folder: all files in it belong to it.
objects = $(patsubst %.c,$(B)/%.o,$(wildcard $(addsuffix /*.c,$(1))))
RUNTIME := $(addprefix runtime/,base device device/cpu comm comm/mpi table config train launch)
RESULTS := $(addprefix results/,db run ask gate share help)
OBJ  := $(call objects,$(RUNTIME) strategies strategies/optimizers workloads sim/model $(RESULTS) plots sim)
TEST := $(call objects,tests tests/unit tests/run)
TOOL := $(filter-out %/sim_deadlock %/inject,$(patsubst %.o,%,$(call objects,tests/tools)))
SIM_TOOL := $(addprefix $(B)/tests/tools/sim_,train deadlock)
USER := $(patsubst %.o,%,$(call objects,tests/lib tests/seeds))
# Code that the explorer of tests/model runs: tables, and the mini-batch assignment of an epoch. Also with one fault each.
EXPLORED := $(addprefix runtime/table/,table vectors shared blocks rounds order apply updater) \
	$(addprefix runtime/train/,deal epoch) strategies/exchange runtime/base/rng
MODEL := $(B)/tests/model/model $(patsubst %.c,$(B)/%,$(wildcard tests/model/faults/*.c))
# Headers for users' plug-ins.
CONTRACT := mvbench.h runtime/config/run_options.def workloads/net.h workloads/datasets.h strategies/exchange.h strategies/optimizers/optimizer.h
# The CUDA device, if all its headers are installed; otherwise the program reports what is missing.
HAVE  = $(wildcard $(addsuffix /$(1),$(CUDA)/include /usr/include /usr/include/$(shell uname -m)-linux-gnu))
MODULE := $(if $(and $(CUDA),$(call HAVE,cudnn.h),$(call HAVE,nccl.h)),$(B)/mvbench_cuda.so)
FAKE   := $(if $(MODULE),$(if $(filter x86_64,$(shell uname -m)),$(B)/fake/mvbench_cuda.so))
FAKE_FLAGS = -std=c++17 -g -O3 $(ARCH) -Wall -Wextra -fPIC -fvisibility=hidden -MMD -MP \
	-isystem $(CUDA)/include
LIB   = $(addprefix $(B)/libmvbench,.so .a)
# Raised when programs have to be compiled again, because a struct or a function has changed.
SONAME := libmvbench.so.1
ABI   = $(addprefix $(B)/mvbench_abi,.lua .py)
# The same program on simulated platforms: sim/world in place of some files, SMPI in place of MPI.
SMPI_OBJ := $(patsubst %.c,$(B)/smpi/%.o,$(wildcard runtime/comm/mpi/*.c))
SIM  := $(call objects,sim/world) $(SMPI_OBJ)

all: $(B)/mvbench $(B)/mvbench-sim $(LIB) $(ABI) $(MODULE) ## build build/mvbench, build/mvbench-sim (the simulator) and build/libmvbench.so

demo: $(B)/mvbench $(B)/mvbench-sim $(MODULE) ## train, compare and draw on real data, in two minutes
	@tests/scripts/demo.sh $(B)

programs: all $(B)/check $(TOOL) $(SIM_TOOL) $(USER) $(MODEL) ## all, the tests, and the example programs of the library (tests/lib, tests/seeds)

test: programs $(FAKE) | $(B)/test_deps ## every test (Check), in LANES=3 processes side by side
	@tests/scripts/lanes.sh $(B) $(LANES)

gpu-test: programs ## the tests that use a GPU, on a real one; fails without one
	@cd $(B) && MVBENCH_GPU_TEST=1 ./check

lab-test: programs ## the tests on several virtual hosts, over real TCP; prints the reason if hosts are not possible here
	@cd $(B) && for s in lab wires; do CK_RUN_SUITE=$$s ./check || exit; done

slurm-test: $(B)/mvbench ## mvbench under a real Slurm on two virtual hosts, as root; installs Slurm if it is missing
	@tests/scripts/slurm.sh $(B)

bench: $(B)/mvbench $(TOOL) $(LIB) $(ABI) ## speed with one worker and with two, next to PyTorch's if it is installed
	@tests/scripts/bench.sh $(B)

gpu-bench: $(B)/mvbench $(MODULE) $(TOOL) ## speed on a GPU, next to PyTorch's; fails without one
	@tests/scripts/gpu_bench.sh $(B)

shapes: $(B)/mvbench $(B)/mvbench-sim ## the ten teaching simulations, and whether each shows the expected result; SHAPES="1 7" for some
	@tests/scripts/shapes.sh $(B) $(SHAPES)

tutorial: $(B)/mvbench $(B)/mvbench-sim ## the commands of plots/TUTORIAL.md, in order, in build/tutorial; PICTURES=plots/tutorial keeps the figures
	@tests/scripts/tutorial.sh $(B) $(PICTURES)

reproduce: $(B)/mvbench $(B)/mvbench-sim ## Multiverso's published epoch times, simulated from two of them
	@tests/scripts/reproduce.sh $(B)

gate-proof: $(B)/mvbench ## test mvbench check with planted bugs and with unchanged code; REPEAT=100 times
	@tests/scripts/gate.sh $(B)

bundle: ## pack all needed files into build/bundle, for machines where nothing can be installed
	@$(MAKE) --no-print-directory B=$(B)/bundle-objects ARCH=-march=x86-64-v3 programs
	@tests/scripts/bundle.sh $(B)/bundle-objects $(B)/bundle

deb: ## build/mvbench_VERSION_ARCH.deb, which apt installs on any Debian 12
	@$(MAKE) --no-print-directory B=$(B)/bundle-objects $(if $(filter x86_64,$(shell uname -m)),ARCH=-march=x86-64-v3,ARCH=) all
	@tests/scripts/deb.sh $(B)/bundle-objects $(B)

sanitize: ## the same tests under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory B=build/sanitize MODULE= FAKE=$(FAKE:$(B)/%=build/sanitize/%) OPT=-O1 \
		CFLAGS='-g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer' \
		LDFLAGS=-fsanitize=address,undefined test
sanitize: export LSAN_OPTIONS = suppressions=$(CURDIR)/tests/scripts/lsan.txt:print_suppressions=0
sanitize: export CK_TIMEOUT_MULTIPLIER = 5

tsan: ## all code that runs in several threads, under the thread sanitizer
	@$(MAKE) --no-print-directory B=build/tsan MODULE= FAKE= OPT=-O1 CFLAGS='-g -fsanitize=thread' \
		LDFLAGS=-fsanitize=thread threaded
	@for t in 'library CK_RUN_CASE=programs' 'store MVBENCH_TEST_ONLY=running_run_updates_heartbeat:0' \
		'lab MVBENCH_TEST_ONLY=every_strategy_runs_in_a_lab:1'; do \
		env CK_RUN_SUITE=$$t tests/scripts/lanes.sh build/tsan 1 >build/tsan/log 2>&1; s=$$?; cat build/tsan/log; \
		[ $$s = 0 ] && grep -q '^100%: Checks: [1-9]' build/tsan/log || exit 1; done
threaded: $(LIB) $(B)/mvbench $(B)/check $(USER)
tsan: export TSAN_OPTIONS = suppressions=$(CURDIR)/tests/scripts/tsan.txt:halt_on_error=1:exitcode=66
tsan: export CK_TIMEOUT_MULTIPLIER = 5

chaos: $(B)/mvbench $(B)/mvbench-sim ## COUNT=1000 sweeps that are killed, stopped, out of disk, and cut off at random instants; SEED=
	@tests/scripts/chaos.sh $(B) $(COUNT) $(SEED)

chaos-each: $(B)/mvbench $(B)/mvbench-sim $(B)/inject.so ## every file operation of each command fails once, every state that a power loss leaves; EVERY=9: each ninth; ONLY=
	@tests/scripts/chaos_each.py $(B) --every=$(or $(EVERY),1) --only=$(ONLY) $(if $(KEEP),--keep)

oracle: $(B)/mvbench $(B)/mvbench-sim ## COUNT=1000 random runs of every strategy, computed again by NumPy in float64; SEED=
	@PATH="/usr/bin:$$PATH" tests/oracle/oracle.py --mvbench=$(B)/mvbench --count=$(COUNT) --seed=$(or $(SEED),1)

fuzz: $(B)/mvbench $(B)/mvbench-sim ## SECONDS=60 of malformed files for each reader of foreign files (clang); READER=: only one
	@$(MAKE) --no-print-directory B=build/fuzz CC=clang OPT=-O1 \
		CFLAGS='-g -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow' \
		LDFLAGS=-fsanitize=fuzzer,address,undefined build/fuzz/tests/fuzz/fuzz
	@tests/scripts/fuzz.sh $(B) build/fuzz/tests/fuzz/fuzz $(SECONDS) $(READER)

model: $(MODEL) ## tables and mini-batch assignment of three workers in every order, with a failed worker at any point; SCENARIO=: only one
	@$(B)/tests/model/model $(SCENARIO)

clang: ## all programs and tests, built by clang
	@$(MAKE) --no-print-directory B=build/clang CC=clang CXX=clang++ WARN='$(WARN) -Werror -Wno-pass-failed \
		-Wno-bitwise-instead-of-logical -Wno-string-concatenation -Wno-missing-field-initializers -Wno-unused-variable' programs

nightly: ## what .ci/run leaves out: every test, most of them under the sanitizers too, chaos, clang, the bundle, the package
	@tests/scripts/nightly.sh $(B)

lint: layers $(B)/mvbench ## formatting, static analysis, allowed calls between modules, names in documents, licences of libraries
	@clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h' '*.cu' '*.cc')
	@for f in $$(git ls-files '*.c' '*.h' '*.cu' '*.cc' 'results/gate/*.sql' 'results/share/*.sql' 'results/run/*.sql'); do \
		expand -t 8 $$f | awk -v f=$$f 'length > 100 { print f ":" NR ": over 100 columns"; bad = 1 } \
			END { exit bad }' || bad=1; done; [ -z "$$bad" ]
	@cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
		--suppressions-list=tests/scripts/cppcheck.txt -D_GNU_SOURCE -I. $$(git ls-files '*.c')
	@shellcheck $$(git ls-files '*.sh') .ci/run
	@tests/scripts/readme.sh $(B)
	@tests/scripts/licences.sh $(B)
	@tests/scripts/sentences.sh
	@for t in $$(sed -n 's/^\t{"\([a-z0-9_]*\)", [0-9].*/\1/p' tests/select.c); do \
		grep -rqE "^TEST\($$t, " tests || { echo "tests/select.c: there is no loop of test $$t"; exit 1; }; done
	@! grep -rnE '^TEST\((an?|the|test|what|who|it|so)_' tests
	@n=$$(grep -rhoE '^TEST\(\w+' tests | sort | uniq -d); [ -z "$$n" ] || { echo "two tests: $$n"; exit 1; }

layers: all ## allowed calls between modules, by the symbols of the objects; no mutable state in plug-ins
	@tests/scripts/layers.sh $(B)

install: all ## put the program, its figures, its manual page and the library under PREFIX (/usr/local)
	install -Dt $(DESTDIR)$(PREFIX)/bin $(B)/mvbench $(B)/mvbench-sim
	$(if $(MODULE),install -Dm 755 $(MODULE) $(DESTDIR)$(PREFIX)/lib/mvbench/mvbench_cuda.so)
	install -d $(DESTDIR)$(PREFIX)/share/mvbench/plots $(DESTDIR)$(PREFIX)/share/mvbench/workloads/sweeps
	install -m 644 plots/*.sql plots/*.gp $(DESTDIR)$(PREFIX)/share/mvbench/plots
	install -m 644 workloads/sweeps/*.ini $(DESTDIR)$(PREFIX)/share/mvbench/workloads/sweeps
	install -Dm 644 -t $(DESTDIR)$(PREFIX)/share/mvbench/sim/platforms sim/platforms/*.xml
	install -Dm 644 -t $(DESTDIR)$(PREFIX)/share/mvbench/runtime/comm/mpi runtime/comm/mpi/tcp.rules
	for f in $(CONTRACT); do install -Dm 644 $$f $(DESTDIR)$(PREFIX)/share/mvbench/$$f || exit; done
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,man/man1 bash-completion/completions)
	$(B)/mvbench help --man >$(DESTDIR)$(PREFIX)/share/man/man1/mvbench.1
	$(B)/mvbench help --completion=bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/mvbench
	install -Dm 644 runtime/lib/libmvbench.h $(DESTDIR)$(PREFIX)/include/libmvbench.h
	install -Dm 644 -t $(DESTDIR)$(PREFIX)/share/lua/5.1 runtime/lib/mvbench*.lua $(B)/mvbench_abi.lua
	install -Dm 644 -t $(DESTDIR)$(PREFIX)/$(PYTHON_DIR) runtime/lib/mvbench.py runtime/lib/mvbench_layers.py $(B)/mvbench_abi.py
	install -Dm 644 $(B)/libmvbench.a $(DESTDIR)$(PREFIX)/lib/libmvbench.a
	install -m 755 $(B)/libmvbench.so $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libmvbench.so
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' \
		'includedir=$${prefix}/include' 'Name: libmvbench' \
		'Description: synchronises the workers of a training loop' \
		'Version: $(VERSION)' \
		'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lmvbench' \
		"Libs.private: $$(mpicc --showme:link) -lpmix -lm -pthread" \
		>$(DESTDIR)$(PREFIX)/lib/pkgconfig/libmvbench.pc
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true # lets the loader find it; needs root

deps: ## install missing Debian packages (root or sudo)
	@rm -f $(B)/deps; $(MAKE) --no-print-directory $(B)/deps

clean: ## remove all built files
	rm -rf $(B)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 12

$(B)/deps $(B)/test_deps: Makefile
	@mkdir -p $(B)
	@missing=$$(for p in $(if $(filter %test_deps,$@),$(TEST_PACKAGES),$(PACKAGES)); do dpkg -s $$p 2>/dev/null | grep -q '^Status: .* installed' || echo $$p; done); \
	if [ -n "$$missing" ] && [ -n "$(SUDO)" ] && ! command -v $(firstword $(SUDO)) >/dev/null; then \
		echo "packages are missing; type as root: apt-get install --no-install-recommends" $$missing >&2; exit 1; fi; \
	if [ -n "$$missing" ]; then echo "installing" $$missing; \
		$(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq \
		--no-install-recommends $$missing >$(B)/apt.log 2>&1 || { tail -5 $(B)/apt.log; exit 1; }; fi
	@touch $@

$(B)/%.o: %.c | $(B)/deps
	@mkdir -p $(@D)
	@echo "  CC $<"
	@$(if $(filter runtime/comm/mpi/% tests/lib/mpi.c tests/tools/%,$<),mpicc,$(CC)) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

# For test code, compile time matters more than speed.
$(call objects,tests tests/unit tests/run): OPT = -O1
$(B)/runtime/config/machine.o: CPPFLAGS += -DMVBENCH_COMMIT='"$(COMMIT)"'
$(B)/runtime/config/machine.o: $(B)/commit
$(B)/runtime/config/plugin_file.o: CPPFLAGS += -DMVBENCH_ARCH='"$(ARCH)"' # also for plug-ins
$(B)/main.o: CPPFLAGS += -DMVBENCH_VERSION='"$(VERSION)"'
$(B)/main.o: runtime/lib/libmvbench.h
# Files compiled in as text: .sql, .bash, .css and .js in the folder of the file that names them.
$(B)/results/db/migrate.o: $(wildcard results/db/*.sql results/db/migrations/*.sql)
$(foreach room,$(RESULTS),$(eval $(call objects,$(room)): $(wildcard $(room)/*.sql $(room)/*.bash)))
$(B)/sim/validate_report.o: sim/validate.sql
$(B)/plots/report.o: $(addprefix plots/report,.sql .css .js)
$(B)/tests/unit/check_store.o: tests/unit/tables_8.sql
$(B)/tests/unit/check_stats.o: results/db/student.sql
# The content security policy of the report: only the script with this hash runs.
$(B)/plots/report.o: CPPFLAGS += -DREPORT_SCRIPT='"sha256-$(shell env printf \
	"$$(sha256sum plots/report.js | sed 's/ .*//; s/../\\x&/g')" | base64)"'
$(B)/commit: FORCE
	@mkdir -p $(B); echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' >$@

# Programs link the objects that they use; objects of their own come first and take precedence.
$(B)/mvbench-objects.a: $(OBJ)
	@rm -f $@; ar rcsT $@ $^
# -rdynamic: loaded plug-ins find the functions of mvbench.h in the program.
LINK = mpicc -rdynamic $(CFLAGS) $(LDFLAGS) $(WRAP) $^ -o $@ $(LIBS)
SIM_LINK = $(CC) -rdynamic $(CFLAGS) $(LDFLAGS) $(WRAP) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIBS) -lsimgrid -lexpat
$(B)/mvbench: $(B)/main.o $(B)/mvbench-objects.a
	@echo "  LD $@"; $(LINK)
# Disables smpi_helpers.h, which redefines malloc, exit and the clock for programs not written for SMPI.
SMPI := -isystem /usr/include/smpi -DSMPI_HELPERS_H -DSMPI_HELPERS_INTERNAL_H
$(B)/smpi/%.o: %.c | $(B)/deps
	@mkdir -p $(@D)
	@echo "  CC $< (SMPI)"; $(CC) $(SMPI) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(B)/sim/world/world.o $(B)/sim/world/engine.o: CPPFLAGS += $(SMPI)
$(B)/mvbench-sim: $(B)/main.o $(SIM) $(B)/mvbench-objects.a
	@echo "  LD $@"; $(SIM_LINK)
$(B)/tests/main.o: $(B)/main.o # the list of commands, for tests that read it
	@mkdir -p $(@D); objcopy --redefine-sym main=mvbench_main $< $@
$(B)/check: $(TEST) $(B)/tests/main.o $(B)/mvbench-objects.a
	@echo "  LD $@"; $(LINK) -lcheck -lsubunit -lrt -pthread
$(B)/inject.so: $(B)/tests/tools/inject.o
	@$(CC) -shared $(CFLAGS) $(LDFLAGS) $^ -o $@ -ldl
$(B)/tests/tools/sim_train: $(B)/tests/tools/train.o
$(B)/tests/tools/sim_deadlock: $(B)/tests/tools/sim_deadlock.o
$(SIM_TOOL): $(SIM) $(B)/mvbench-objects.a
	@echo "  LD $@"; $(SIM_LINK)
$(addprefix $(B)/tests/tools/,train sim_train): WRAP = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
$(TOOL): %: %.o $(B)/mvbench-objects.a
	@echo "  LD $@"; $(LINK)
$(B)/tests/fuzz/fuzz: $(call objects,tests/fuzz) $(B)/mvbench-objects.a
	@echo "  LD $@"; $(LINK)

# The compiler reports each memory access to the explorer. Own flags: values left by vector instructions would add states.
$(B)/model/%.o: %.c | $(B)/deps
	@mkdir -p $(@D)
	@echo "  CC $< (model)"; $(CC) $(CPPFLAGS) -g -std=c11 -D_GNU_SOURCE -O1 $(WARN) -Wno-unused-parameter -fopenmp-simd -MMD -MP -ftrivial-auto-var-init=pattern \
		$(if $(filter-out $(wildcard tests/model/*.c),$<),-fsanitize=thread -include tests/model/seams.h) -c $< -o $@
$(B)/model/real.a: $(EXPLORED:%=$(B)/model/%.o)
	@rm -f $@; ar rcs $@ $^
$(MODEL): $(B)/%: $(patsubst %.c,$(B)/model/%.o,$(wildcard tests/model/*.c)) $(B)/model/real.a
	@mkdir -p $(@D); echo "  LD $@"; $(CC) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lm
$(filter $(B)/tests/model/faults/%,$(MODEL)): $(B)/%: $(B)/model/%.o

$(B)/runtime/device/cuda/%.o: CPPFLAGS += -isystem $(CUDA)/include
CUDA_OBJ := $(call objects,runtime/device/cuda)
$(B)/runtime/device/cuda/%.o: runtime/device/cuda/%.cu | $(B)/deps
	@mkdir -p $(@D)
	@echo "  NVCC $<"; $(NVCC) -O3 --extended-lambda -I. $(NVCC_ARCH) -MMD -MP -Xcompiler -fPIC,-fvisibility=hidden,-Wall -c $< -o $@
KERNELS := $(patsubst %.cu,%.o,$(wildcard runtime/device/cuda/*.cu))
# Undefined symbols are functions of the program that loads the module (cuda_module.c).
$(B)/mvbench_cuda.so: $(CUDA_OBJ) $(KERNELS:%=$(B)/%)
	@echo "  LD $@"; $(CC) -shared -Wl,-Bsymbolic $(CFLAGS) $(LDFLAGS) $^ -o $@ \
		-L$(CUDA)/lib64 -Wl,-rpath,'$$ORIGIN:$(CUDA)/lib64' -lcudart -lcublas -lcudnn -lnccl -lstdc++ -lm
# The same host code with CUDA's libraries emulated on the CPU, for tests: MVBENCH_CUDA=$(FAKE).
$(B)/tests/fake_cuda/%.o: tests/fake_cuda/%.cc | $(B)/deps
	@mkdir -p $(@D)
	@echo "  CXX $<"; $(CXX) $(FAKE_FLAGS) -c $< -o $@
$(B)/fake/%.o: %.cu | $(B)/deps
	@mkdir -p $(@D)
	@echo "  CXX $<"; $(CXX) -x c++ $(FAKE_FLAGS) -I. -DFAKE_CUDA -Itests/fake_cuda -Wno-unknown-pragmas \
		-fsanitize=alignment,bounds -fsanitize-undefined-trap-on-error -c $< -o $@
$(B)/fake/mvbench_cuda.so: $(CUDA_OBJ) $(KERNELS:%=$(B)/fake/%) \
		$(patsubst %.cc,$(B)/%.o,$(wildcard tests/fake_cuda/*.cc))
	@echo "  LD $@"; $(CXX) -shared -Wl,-Bsymbolic $(LDFLAGS) $^ -o $@

LIB_OBJ := $(call objects,runtime/lib)
$(B)/libmvbench.so: $(LIB_OBJ) $(B)/mvbench-objects.a
	@echo "  LD $@"; mpicc -shared -Wl,--exclude-libs,ALL $(CFLAGS) $(LDFLAGS) -Wl,-soname,$(SONAME) $^ -o $@ -lpmix -lm && ln -sf $(@F) $(@D)/$(SONAME)
$(B)/libmvbench.a: $(LIB_OBJ) $(B)/mvbench-objects.a # one object that exports only mvb_*
	@echo "  AR $@"; ld -r $^ -o $(@:.a=.o) && objcopy -wG 'mvb_*' $(@:.a=.o) && rm -f $@ && ar rcs $@ $(@:.a=.o)
# The header's declarations for LuaJIT and Python.
$(ABI): $(B)/mvbench_abi.%: runtime/lib/libmvbench.h runtime/lib/declarations.sh | $(B)/deps
	@echo "  GEN $@"; CC="$(CC)" runtime/lib/declarations.sh $< $* >$@.new && mv $@.new $@
$(USER:=.o): CPPFLAGS += -Iruntime/lib
$(B)/runtime/lib/rendezvous.o: CPPFLAGS += $(shell pkg-config --cflags pmix)
$(USER): LIBRARY = -L$(B) -lmvbench -Wl,-rpath,'$$ORIGIN/../..'
$(filter %/params %/data_parallel %/mpi,$(USER)): LIBRARY = $(B)/libmvbench.a $$(mpicc --showme:link) -lpmix
$(USER): $(B)/%: $(B)/%.o $(LIB)
	@echo "  LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) $< -o $@ $(LIBRARY) -lz -lm

ifeq ($(MAKELEVEL)$(word 2,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc)# single goal only: `make clean test` is ordered; the user's -j has precedence
endif
.PHONY: all demo programs test nightly gpu-test lab-test slurm-test bench gpu-bench shapes tutorial reproduce gate-proof bundle deb sanitize tsan threaded clang chaos oracle fuzz model lint layers install deps clean help FORCE
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
