# mvbench: synchronisation strategies of distributed SGD.
#   make demo    from nothing to plots          make test    everything checked
CC       ?= cc
ARCH     ?= -march=native
OPT      ?= -O3
WARN     ?= -Wall -Wextra -Wshadow -Wmissing-prototypes -Werror=implicit-function-declaration -Werror=int-conversion
CFLAGS   ?= -g
PREFIX   ?= /usr/local
B        ?= build
SUDO     ?= $(shell [ "$$(id -u)" = 0 ] || echo sudo)
PACKAGES := gcc libc6-dev make git libopenmpi-dev openmpi-bin libdnnl-dev libsqlite3-dev sqlite3 libinih-dev libssl-dev libexpat1-dev \
	libpmix-dev libsimgrid-dev pkgconf procps iproute2 zlib1g-dev check gnuplot-nox fonts-dejavu-core dataset-fashion-mnist
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

# A module is a folder; each of its files belongs to it.
objects = $(patsubst %.c,$(B)/%.o,$(wildcard $(addsuffix /*.c,$(1))))
RUNTIME := $(addprefix runtime/,base world watch device device/cpu comm comm/mpi table config config/python cli train launch)
RESULTS := $(addprefix results/,db run ask gate share)
OBJ  := $(call objects,$(RUNTIME) strategies strategies/optimizers strategies/codecs workloads sim/model $(RESULTS) plots sim)
# Headers for users' plug-ins.
CONTRACT := mvbench.h runtime/base/common.h runtime/base/rng.h runtime/config/option_row.h runtime/config/plugin.h workloads/linear.h workloads/net.h workloads/datasets.h strategies/exchange.h strategies/fragment.h strategies/graph.h strategies/levels.h strategies/optimizers/optimizer.h strategies/codecs/codec.h
# The CUDA device, if all its headers are installed; otherwise the program reports what is missing.
HAVE  = $(wildcard $(addsuffix /$(1),$(CUDA)/include /usr/include /usr/include/$(shell uname -m)-linux-gnu))
MODULE := $(if $(and $(CUDA),$(call HAVE,cudnn.h),$(call HAVE,nccl.h)),$(B)/mvbench_cuda.so)
CUDA_OBJ := $(call objects,runtime/device/cuda)
KERNELS := $(patsubst %.cu,%.o,$(wildcard runtime/device/cuda/*.cu))
LIB   = $(addprefix $(B)/libmvbench,.so .a)
# Raised when programs have to be compiled again, because a struct or a function has changed.
SONAME := libmvbench.so.1
ABI   = $(addprefix $(B)/mvbench_abi,.lua .py)
# The same program on simulated platforms: sim/world in place of some files, SMPI in place of MPI.
SMPI_OBJ := $(patsubst %.c,$(B)/smpi/%.o,$(filter-out %/mailbox.c %/window.c,$(wildcard runtime/comm/mpi/*.c)))
SIM  := $(call objects,sim/world) $(SMPI_OBJ)

all: $(B)/mvbench $(B)/mvbench-sim $(LIB) $(ABI) $(MODULE) ## build build/mvbench, build/mvbench-sim (the simulator) and build/libmvbench.so

demo: $(B)/mvbench $(B)/mvbench-sim $(MODULE) ## train, compare and draw on real data, in two minutes
	@tests/scripts/demo.sh $(B)

include tests/Makefile # packages, lint, sanitizers, and all other checks and measurements

test: programs $(FAKE) | $(B)/test_deps ## every test (Check), in LANES=3 processes side by side
	@tests/scripts/lanes.sh $(B) $(LANES)

bench: $(B)/mvbench $(TOOL) $(LIB) $(ABI) ## speed with one worker and with two, next to PyTorch's if it is installed
	@tests/scripts/bench.sh $(B)

install: all ## put the program, its figures, its manual page and the library under PREFIX (/usr/local)
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" tests/scripts/install.sh $(B) "$(MODULE)" $(VERSION) $(SONAME) $(CONTRACT)

deps: ## install missing Debian packages (root or sudo)
	@rm -f $(B)/deps; $(MAKE) --no-print-directory $(B)/deps

clean: ## remove all built files
	rm -rf $(B)

help: ## this list
	@for f in Makefile tests/Makefile; do sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $$f; echo; done | expand -t 12

$(B)/deps $(B)/test_deps: Makefile tests/Makefile
	@mkdir -p $(B)
	@tests/scripts/deps.sh $(B) "$(SUDO)" $(if $(filter %test_deps,$@),$(TEST_PACKAGES),$(PACKAGES))
	@touch $@

$(B)/%.o: %.c | $(B)/deps
	@mkdir -p $(@D)
	@echo "  CC $<"
	@$(if $(filter runtime/comm/mpi/% tests/lib/mpi.c tests/tools/%,$<),mpicc,$(CC)) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(B)/runtime/config/machine.o: CPPFLAGS += -DMVBENCH_COMMIT='"$(COMMIT)"'
$(B)/runtime/config/machine.o: $(B)/commit
$(B)/runtime/config/plugin_file.o: CPPFLAGS += -DMVBENCH_ARCH='"$(ARCH)"' # also for plug-ins
$(B)/main.o: CPPFLAGS += -DMVBENCH_VERSION='"$(VERSION)"'
$(B)/main.o: runtime/lib/libmvbench.h
# Files compiled in as text: .sql, .bash, .css and .js in the folder of the file that names them.
$(B)/results/db/migrate.o: $(wildcard results/db/*.sql results/db/migrations/*.sql)
$(foreach room,$(RESULTS),$(eval $(call objects,$(room)): $(wildcard $(room)/*.sql)))
$(B)/runtime/cli/topic.o: README.md # the words
$(B)/runtime/cli/completion.o: runtime/cli/completion.bash
$(B)/sim/validate_report.o: sim/validate.sql
$(B)/runtime/config/python/interpreter.o: runtime/config/python/driver.py
$(B)/plots/report.o: $(addprefix plots/report,.sql .css .js)
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
$(addprefix $(B)/sim/world/,world.o engine.o mailbox.o window.o): CPPFLAGS += $(SMPI)
$(B)/mvbench-sim: $(B)/main.o $(SIM) $(B)/mvbench-objects.a
	@echo "  LD $@"; $(SIM_LINK)

$(B)/runtime/device/cuda/%.o: CPPFLAGS += -isystem $(CUDA)/include
$(B)/runtime/device/cuda/%.o: runtime/device/cuda/%.cu | $(B)/deps
	@mkdir -p $(@D)
	@echo "  NVCC $<"; $(NVCC) -O3 --extended-lambda -I. $(NVCC_ARCH) -MMD -MP -Xcompiler -fPIC,-fvisibility=hidden,-Wall -c $< -o $@
# Undefined symbols are functions of the program that loads the module (cuda_module.c).
$(B)/mvbench_cuda.so: $(CUDA_OBJ) $(KERNELS:%=$(B)/%)
	@echo "  LD $@"; $(CC) -shared -Wl,-Bsymbolic $(CFLAGS) $(LDFLAGS) $^ -o $@ \
		-L$(CUDA)/lib64 -Wl,-rpath,'$$ORIGIN:$(CUDA)/lib64' -lcudart -lcublas -lcudnn -lnccl -lstdc++ -lm

LIB_OBJ := $(call objects,runtime/lib)
$(B)/libmvbench.so: $(LIB_OBJ) $(B)/mvbench-objects.a runtime/lib/libmvbench.map
	@echo "  LD $@"; mpicc -shared -Wl,--exclude-libs,ALL,--version-script=$(filter %.map,$^) $(CFLAGS) $(LDFLAGS) -Wl,-soname,$(SONAME) $(filter-out %.map,$^) -o $@ -lpmix -lm && ln -sf $(@F) $(@D)/$(SONAME)
$(B)/libmvbench.a: $(LIB_OBJ) $(B)/mvbench-objects.a # one object that exports only mvb_*
	@echo "  AR $@"; ld -r $^ -o $(@:.a=.o) && objcopy -wG 'mvb_*' $(@:.a=.o) && rm -f $@ && ar rcs $@ $(@:.a=.o)
# The header's declarations for LuaJIT and Python.
$(ABI): $(B)/mvbench_abi.%: runtime/lib/libmvbench.h runtime/lib/declarations.sh | $(B)/deps
	@echo "  GEN $@"; CC="$(CC)" runtime/lib/declarations.sh $< $* >$@.new && mv $@.new $@
$(B)/runtime/lib/rendezvous.o: CPPFLAGS += $(shell pkg-config --cflags pmix)

ifeq ($(MAKELEVEL)$(word 2,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc)# single goal only: `make clean test` is ordered; the user's -j has precedence
endif
.PHONY: all demo test bench install deps clean help FORCE
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
