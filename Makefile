# mvbench: synchronisation strategies of distributed SGD.
#   make demo    from nothing to plots          make test    everything checked
CC       ?= cc
ARCH     ?= -march=native
OPT      ?= -O3
WARN     ?= -Wall -Wextra -Wshadow -Wmissing-prototypes
CFLAGS   ?= -g
PREFIX   ?= /usr/local
B        ?= build
LANES    ?= 1
SUDO     ?= $(shell [ "$$(id -u)" = 0 ] || echo sudo)
PACKAGES := gcc libc6-dev make git libopenmpi-dev openmpi-bin libdnnl-dev libsqlite3-dev sqlite3 libinih-dev \
	libpmix-dev libsimgrid-dev pkgconf procps zlib1g-dev check gnuplot-nox fonts-dejavu-core dataset-fashion-mnist
NVCC     ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
NVCC_ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
CUDA     := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
PACKAGES += $(if $(CUDA),g++)
COMMIT    = $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || echo unknown)

override CFLAGS += -std=c11 -D_GNU_SOURCE $(OPT) $(ARCH) $(WARN) -fopenmp-simd -fPIC -fvisibility=hidden -MMD -MP
LIBS     := -ldnnl -lgomp -lsqlite3 -linih -lz -lm
export OMPI_CC = $(CC)
export MVBENCH_HOME = $(CURDIR)
export OMPI_ALLOW_RUN_AS_ROOT = 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 1

SIMULATED := $(addprefix sim/,world.c device.c allreduce.c)
SRC  := $(filter-out runtime/libmvbench% runtime/rendezvous% runtime/cuda.c runtime/cuda_image.c,$(wildcard runtime/*.c strategies/*.c workloads/*.c results/*.c plots/*.c) \
	$(filter-out $(SIMULATED),$(wildcard sim/*.c)))
OBJ  := $(SRC:%.c=$(B)/%.o)
TEST := $(patsubst %.c,$(B)/%.o,$(wildcard tests/check_*.c) $(addprefix tests/,fixture.c trained.c browser.c))
TOOL := $(patsubst tests/tool_%.c,$(B)/tests/tool_%,$(wildcard tests/tool_*.c))
SIM_TOOL := $(B)/tests/sim_train $(patsubst %.c,$(B)/%,$(wildcard tests/sim_*.c))
CORE := $(filter-out %_vec.c,$(wildcard runtime/libmvbench*.c runtime/table*.c $(addprefix runtime/, \
	updater.c stats.c trace.c world.c mpi.c panic.c rendezvous.c)))
USER := $(patsubst %.c,$(B)/%,$(wildcard tests/seed_*.c tests/lib_*.c))
# The CUDA device, where there is all that it is made of; else the program says what is missing.
HAVE  = $(wildcard $(addsuffix /$(1),$(CUDA)/include /usr/include /usr/include/$(shell uname -m)-linux-gnu))
MODULE := $(if $(and $(CUDA),$(call HAVE,cudnn.h),$(call HAVE,nccl.h)),$(B)/mvbench_cuda.so)
FAKE   := $(if $(MODULE),$(if $(filter x86_64,$(shell uname -m)),$(B)/fake/mvbench_cuda.so))
FAKE_FLAGS = -std=c++17 -g -O3 $(ARCH) -Wall -Wextra -fPIC -fvisibility=hidden -MMD -MP \
	-isystem $(CUDA)/include
LIB   = $(addprefix $(B)/libmvbench,.so .a)
# The same program in the simulated world: other files for the world, SMPI for MPI.
SIM  := $(filter-out $(B)/runtime/mpi.o $(B)/runtime/world.o,$(OBJ)) \
	$(SIMULATED:%.c=$(B)/%.o) $(B)/sim/mpi.o

all: $(B)/mvbench $(B)/mvbench-sim $(LIB) $(MODULE) ## build build/mvbench, its simulator beside it, and build/libmvbench.so

demo: $(B)/mvbench $(B)/mvbench-sim $(MODULE) ## train, compare and draw on real data, in three minutes
	@tests/demo.sh $(B)

programs: all $(B)/check $(TOOL) $(SIM_TOOL) $(USER)

test: programs $(FAKE) ## every test (Check); LANES=2: in two processes, side by side
	@tests/lanes.sh $(B) $(LANES)

gpu-test: programs ## the tests that use a GPU, on a real one; fails where there is none
	@cd $(B) && MVBENCH_GPU_TEST=1 ./check

bench: $(B)/mvbench $(TOOL) ## speed: the tables of one worker and two, beside PyTorch's if it is installed
	@tests/bench.sh $(B)

gpu-bench: $(B)/mvbench $(MODULE) $(TOOL) ## speed on a GPU, beside PyTorch's; fails where there is none
	@tests/gpu_bench.sh $(B)

shapes: $(B)/mvbench $(B)/mvbench-sim ## the ten teaching simulations, and whether each shows what it must; SHAPES="1 7" for some
	@tests/shapes.sh $(B) $(SHAPES)

tutorial: $(B)/mvbench $(B)/mvbench-sim ## the commands of plots/TUTORIAL.md, in order; their figures go to plots/tutorial
	@tests/tutorial.sh $(B)

reproduce: $(B)/mvbench $(B)/mvbench-sim ## Multiverso's published epoch times, simulated from two of them
	@tests/reproduce.sh $(B)

gate-proof: $(B)/mvbench ## mvbench check, held to planted bugs and to unchanged code; REPEAT=50 times
	@tests/gate.sh $(B)

bundle: ## pack all that is needed into build/bundle, for a machine where nothing can be installed
	@$(MAKE) --no-print-directory B=$(B)/bundle-objects ARCH=-march=x86-64-v3 programs
	@tests/bundle.sh $(B)/bundle-objects $(B)/bundle

sanitize: ## the same tests under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory B=build/sanitize MODULE= FAKE=$(FAKE:$(B)/%=build/sanitize/%) OPT=-O1 \
		CFLAGS='-g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer' \
		LDFLAGS=-fsanitize=address,undefined test
sanitize: export LSAN_OPTIONS = suppressions=$(CURDIR)/tests/lsan.txt:print_suppressions=0
sanitize: export CK_TIMEOUT_MULTIPLIER = 3

lint: layers ## formatting, static analysis, who may include whom
	@clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h' '*.cu' '*.cc')
	@cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
		--suppressions-list=tests/cppcheck.txt -D_GNU_SOURCE $$(git ls-files '*.c')
	@shellcheck $$(git ls-files '*.sh') .ci/run

layers: $(OBJ) ## the include rules between folders, and no mutable state in plug-ins
	@tests/layers.sh $(B)

install: all ## put the program, its figures, its manual page and the library under PREFIX (/usr/local)
	install -Dt $(DESTDIR)$(PREFIX)/bin $(B)/mvbench $(B)/mvbench-sim
	$(if $(MODULE),install -Dm 755 $(MODULE) $(DESTDIR)$(PREFIX)/lib/mvbench/mvbench_cuda.so)
	install -d $(DESTDIR)$(PREFIX)/share/mvbench/plots $(DESTDIR)$(PREFIX)/share/mvbench/workloads/sweeps
	install -m 644 plots/*.sql plots/*.gp $(DESTDIR)$(PREFIX)/share/mvbench/plots
	install -m 644 workloads/sweeps/*.ini $(DESTDIR)$(PREFIX)/share/mvbench/workloads/sweeps
	install -Dm 644 -t $(DESTDIR)$(PREFIX)/share/mvbench/sim/platforms sim/platforms/*.xml
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,man/man1 bash-completion/completions)
	$(B)/mvbench help --man >$(DESTDIR)$(PREFIX)/share/man/man1/mvbench.1
	$(B)/mvbench help --completion=bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/mvbench
	install -Dm 644 runtime/libmvbench.h $(DESTDIR)$(PREFIX)/include/libmvbench.h
	install -Dm 644 $(B)/libmvbench.a $(DESTDIR)$(PREFIX)/lib/libmvbench.a
	install -m 755 $(B)/libmvbench.so $(DESTDIR)$(PREFIX)/lib/libmvbench.so.0
	ln -sf libmvbench.so.0 $(DESTDIR)$(PREFIX)/lib/libmvbench.so
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: libmvbench' \
		'Description: keeps the workers of a training loop in step' \
		"Version: $$(sed -n 's/.*MVB_VERSION "\(.*\)"/\1/p' runtime/libmvbench.h)" \
		'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -lmvbench' \
		"Libs.private: $$(mpicc --showme:link) -lpmix -lm -pthread" \
		>$(DESTDIR)$(PREFIX)/lib/pkgconfig/libmvbench.pc
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true # the loader then finds it; root only

deps: ## install what is missing (Debian packages; root or sudo)
	@rm -f $(B)/deps; $(MAKE) --no-print-directory $(B)/deps

clean: ## remove what was built
	rm -rf $(B)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 12

$(B)/deps: Makefile
	@mkdir -p $(B)
	@missing=$$(for p in $(PACKAGES); do dpkg -s $$p 2>/dev/null | grep -q '^Status: .* installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then echo "installing" $$missing; \
		$(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq \
		--no-install-recommends $$missing >$(B)/apt.log 2>&1 || { tail -5 $(B)/apt.log; exit 1; }; fi
	@touch $@

$(B)/%.o: %.c | $(B)/deps
	@mkdir -p $(@D)
	@echo "  CC $<"
	@$(if $(filter runtime/mpi.c tests/lib_mpi.c tests/tool_%,$<),mpicc,$(CC)) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(B)/runtime/machine.o: CPPFLAGS += -DMVBENCH_COMMIT='"$(COMMIT)"'
$(B)/runtime/machine.o: $(B)/commit
$(B)/results/store.o: results/schema.sql
$(B)/results/table.o: results/table.sql
$(B)/results/advise.o: results/advise.sql
$(B)/plots/report.o: $(addprefix plots/report,.sql .css .js)
# What the page's policy names: only the script of this hash runs.
$(B)/plots/report.o: CPPFLAGS += -DREPORT_SCRIPT='"sha256-$(shell env printf \
	"$$(sha256sum plots/report.js | sed 's/ .*//; s/../\\x&/g')" | base64)"'
$(B)/commit: FORCE
	@mkdir -p $(B); echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' >$@

LINK = mpicc $(CFLAGS) $(LDFLAGS) $(WRAP) $^ -o $@ $(LIBS)
$(B)/mvbench: $(OBJ) $(B)/mvbench.o
	@echo "  LD $@"; $(LINK)
# Its header would redefine malloc, exit and the clock, as for programs that know nothing of it.
SMPI := -isystem /usr/include/smpi -DSMPI_HELPERS_H -DSMPI_HELPERS_INTERNAL_H
$(B)/sim/mpi.o: runtime/mpi.c
	@mkdir -p $(@D)
	@echo "  CC $< (SMPI)"; $(CC) $(SMPI) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(B)/sim/world.o: CPPFLAGS += $(SMPI)
$(B)/mvbench-sim: $(SIM) $(B)/mvbench.o
	@echo "  LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS) -lsimgrid
$(B)/check: $(OBJ) $(TEST)
	@echo "  LD $@"; $(LINK) -lcheck -lsubunit -lrt -pthread
$(B)/tests/sim_train: $(B)/tests/tool_train.o
$(filter-out %/sim_train,$(SIM_TOOL)): %: %.o
$(SIM_TOOL): $(SIM)
	@echo "  LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) $(WRAP) $^ -o $@ $(LIBS) -lsimgrid
$(B)/tests/tool_train $(B)/tests/sim_train: WRAP = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
$(B)/tests/tool_%: $(OBJ) $(B)/tests/tool_%.o
	@echo "  LD $@"; $(LINK)
$(B)/runtime/cuda.o $(B)/runtime/cuda_image.o: CPPFLAGS += -isystem $(CUDA)/include
$(B)/runtime/kernels.o: runtime/kernels.cu
	@mkdir -p $(@D)
	@echo "  NVCC $<"; $(NVCC) -O3 $(NVCC_ARCH) -MMD -MP -Xcompiler -fPIC,-fvisibility=hidden,-Wall -c $< -o $@
$(B)/mvbench_cuda.so: $(addprefix $(B)/runtime/,cuda.o cuda_image.o kernels.o)
	@echo "  LD $@"; $(CC) -shared $(CFLAGS) $(LDFLAGS) $(if $(findstring sanitize,$(LDFLAGS)),,-Wl,-z,defs) $^ -o $@ \
		-L$(CUDA)/lib64 -Wl,-rpath,'$$ORIGIN:$(CUDA)/lib64' -lcudart -lcublas -lcudnn -lnccl -lstdc++ -lm
# The same host code with CUDA's libraries emulated on the CPU, for tests: MVBENCH_CUDA=$(FAKE).
$(B)/tests/fake_cuda/%.o: tests/fake_cuda/%.cc
	@mkdir -p $(@D)
	@echo "  CXX $<"; $(CXX) $(FAKE_FLAGS) -c $< -o $@
$(B)/fake/kernels.o: runtime/kernels.cu
	@mkdir -p $(@D)
	@echo "  CXX $<"; $(CXX) -x c++ $(FAKE_FLAGS) -DFAKE_CUDA -Itests/fake_cuda -Wno-unknown-pragmas \
		-fsanitize=alignment,bounds -fsanitize-undefined-trap-on-error -c $< -o $@
$(B)/fake/mvbench_cuda.so: $(addprefix $(B)/,runtime/cuda.o runtime/cuda_image.o fake/kernels.o) \
		$(patsubst %.cc,$(B)/%.o,$(wildcard tests/fake_cuda/*.cc))
	@echo "  LD $@"; $(CXX) -shared $(LDFLAGS) $(if $(findstring sanitize,$(LDFLAGS)),,-Wl,-z,defs) $^ -o $@
$(B)/libmvbench.so: $(patsubst %.c,$(B)/%.o,$(CORE))
	@echo "  LD $@"; mpicc -shared $(CFLAGS) $(LDFLAGS) -Wl,-soname,$(@F).0 $^ -o $@ -lpmix -lm && ln -sf $(@F) $@.0
$(B)/libmvbench.a: $(patsubst %.c,$(B)/%.o,$(CORE)) # one object, that shows nothing but mvb_*
	@echo "  AR $@"; ld -r $^ -o $(@:.a=.o) && objcopy -wG 'mvb_*' $(@:.a=.o) && rm -f $@ && ar rcs $@ $(@:.a=.o)
$(USER:=.o): CPPFLAGS += -Iruntime
$(B)/runtime/rendezvous.o: CPPFLAGS += $(shell pkg-config --cflags pmix)
$(USER): LIBRARY = -L$(B) -lmvbench -Wl,-rpath,'$$ORIGIN/..'
$(filter %_params %_data_parallel %_mpi,$(USER)): LIBRARY = $(B)/libmvbench.a $$(mpicc --showme:link) -lpmix
$(USER): $(B)/%: $(B)/%.o $(LIB)
	@echo "  LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) $< -o $@ $(LIBRARY) -lz -lm

.PHONY: all demo programs test gpu-test bench gpu-bench shapes tutorial reproduce gate-proof bundle sanitize lint layers install deps clean help FORCE
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
