# fp4lab: bare `make` builds, `make help` lists the targets.
# Files are found by wildcard: a new source, test or benchmark is a dropped file.
# Whatever is missing for a build is set up first (.ci/setup): Debian packages, CUDA's headers and NVRTC.

BUILD     ?= build
MAKEFLAGS += -j$(shell nproc)
Q         := $(if $(V),,@) # V=1 shows the commands
CXX       := g++
OPTIMISE  := -O1# of most code; see below
CXXFLAGS   = -std=c++20 $(OPTIMISE) -g1 -fPIC -Wall -Wextra -Wno-stringop-overflow -Wno-restrict -fno-math-errno -ffp-contract=off $(SANITIZE)
CPPFLAGS   = -Iinclude -Isrc -isystem $(CUDA_HOME)/include -MMD -MP
LDLIBS    := -lfmt -lxxhash -ldl -lpthread

ifneq ($(filter-out help clean,$(or $(MAKECMDGOALS),build)),)
  override CUDA_HOME := $(shell CUDA_HOME='$(CUDA_HOME)' .ci/setup $(if $(filter check format,$(MAKECMDGOALS)),clang-format) $(if $(filter check,$(MAKECMDGOALS)),chromium) $(if $(filter check fuzz,$(MAKECMDGOALS)),clang++) $(if $(filter notes check-notes check,$(MAKECMDGOALS)),python3) $(if $(filter notes,$(MAKECMDGOALS)),matplotlib))
  ifneq ($(.SHELLSTATUS),0)
    $(error set-up did not finish)
  endif
  export CUDA_HOME
endif

find      = $(sort $(shell find $(1) -name '*.cpp' 2>/dev/null))
objects   = $(patsubst %.cpp,$(BUILD)/obj/%.o,$(call find,$(1)))
LAB       := $(call objects,src/text src/numerics src/reference src/problem src/jit src/device src/model src/lab)
EMULATOR  := $(call objects,src/emulator)
RUNTIME   := $(call objects,src/runtime)
CUBLAS    := $(call objects,src/cublas)
CLI       := $(call objects,src/cli)
TESTS     := $(call objects,tests)
BENCHES   := $(patsubst bench/%.cpp,$(BUILD)/bench/%,$(call find,bench))
FUZZERS   := $(patsubst tests/fuzz/%.cc,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/*.cc))
# Foreign-looking programs for the tests, where there is an nvcc: built as their users would, with PTX for both devices
# unless the line "// nvcc:", which holds more options, says another -gencode.
# Not for a sanitized emulator, which a program without the sanitizer's runtime cannot load.
NVCC       = $(wildcard $(CUDA_HOME)/bin/nvcc)
PROGRAMS   = $(if $(SANITIZE),,$(if $(and $(NVCC),$(wildcard $(CUDA_HOME)/nvvm/bin/cicc)),$(patsubst tests/%.cu,$(BUILD)/%,$(filter-out $(if $(wildcard $(CUDA_HOME)/include/cublasLt.h),,%/cublas.cu),$(wildcard tests/programs/*.cu)))))
NVCC_LINE  = $(shell sed -n 's,^// nvcc: ,,p' $(1))
NVCC_BOTH := -gencode arch=compute_90a,code=compute_90a -gencode arch=compute_100a,code=compute_100a
FORMATTED  = $(shell git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' '*.cc')

.PHONY: build setup run test matrix experiment sweep report notes check-notes gpu conformance fuzz check format bench clean help
build: $(BUILD)/fp4lab $(addprefix $(BUILD)/emulator/,libcuda.so.1 libcudart.so.13 libcublas.so.13 libcublasLt.so.13) ## compile everything (the default)

setup: ## only make what a build needs
	@echo "CUDA: $(CUDA_HOME)"

run: build ## run kernels on the device or the emulator: make run OP=dual KERNEL=v0_baseline CASE=dual-256-4096-7168
	$(BUILD)/fp4lab run $(or $(OP),group) --case $(or $(CASE),all) $(if $(KERNEL),--kernel $(KERNEL)) $(ARGS)

test: build $(BUILD)/tests $(PROGRAMS) ## run the test suite: make test ARGS=-tc='jit*'
	$(BUILD)/tests --jobs=$(shell nproc) $(ARGS)

matrix: build ## every rung, case, shape and distribution, then odd shapes under 50 schedules: some minutes
	set -e; for dist in task-group task-dual moderate full; do \
	  for what in 'group --case all' 'group --case correctness' 'dual --case all' 'dual --case correctness' 'gemm --case all'; do \
	    $(BUILD)/fp4lab run $$what --kernel all --dist $$dist; done; done
	set -e; for what in group:7,65/128/512 group:130/384/768 group:1,40,299/256,128,128/256 \
	  dual:77/128/512 dual:300/384/256 dual:131/256/768; do \
	    $(BUILD)/fp4lab run $${what%%:*} --case $$what --kernel all --dist full --schedules 50 --check; done

experiment: build ## run an experiment (or all) of notes/experiments and write its page: make experiment E=001
	$(BUILD)/fp4lab experiment run $(or $(E),all) --write $(ARGS)

sweep: build ## every legal plan of a case, verified: make sweep CASE=g2k1536 KERNEL=v2,v5 ARGS='--stages 1..6'
	$(BUILD)/fp4lab sweep $(or $(OP),group) --case $(or $(CASE),g2k1536) $(if $(KERNEL),--kernel $(KERNEL)) $(ARGS)

report: build ## pages and scorecard of the experiments, anew from their records
	$(BUILD)/fp4lab experiment show --write
	$(BUILD)/fp4lab scorecard --write

notes: build $(BUILD)/tests ## every generated page, table, quoted output and figure of notes/, anew
	BUILD=$(BUILD) python3 notes/make.py

check-notes: build ## is anything generated in notes/ stale, a link dead, a line too long?
	python3 tests/notes/make_test.py -q
	BUILD=$(BUILD) python3 notes/make.py --check

gpu: build ## on a machine with a B200 or H200: verify, time and predict everything, into one file to send to us
	$(BUILD)/fp4lab gpu $(ARGS)

conformance: build $(BUILD)/tests ## random PTX programs on a GPU and on the emulator, bit by bit: make conformance N=1000
	FP4LAB_CONFORMANCE=$(or $(N),200) $(BUILD)/tests -tc='conformance*,PTX programs: a GPU*,sweep: a GPU*' $(ARGS)

fuzz: $(FUZZERS:%=%.run) ## libFuzzer over PTX texts and module images, FUZZ_SECONDS (60) each
$(BUILD)/fuzz/%.run: $(BUILD)/fuzz/%
	@mkdir -p $(BUILD)/fuzz/corpus/$* $(BUILD)/fuzz/found
	$< -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=40000 -timeout=20 -rss_limit_mb=4000 -print_final_stats=1 -verbosity=0 \
	  -dict=tests/fuzz/ptx.dict -artifact_prefix=$(BUILD)/fuzz/found/$*- $(BUILD)/fuzz/corpus/$* tests/ptx tests/check tests/fuzz/fatbin

check: ## format, notes, the fuzzers for a moment, and the test suite under the address and undefined-behaviour sanitizers
	@clang-format --dry-run -Werror $(FORMATTED)
	$(MAKE) check-notes
	$(MAKE) fuzz FUZZ_SECONDS=$(or $(FUZZ_SECONDS),10)
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(MAKE) test \
	  BUILD=$(BUILD)/sanitized SANITIZE='-O1 -fsanitize=address,undefined'

format: ## rewrite the sources in the project's format
	@clang-format -i $(FORMATTED)

bench: build $(BENCHES) ## benchmarks of the CPU's work; kernels are timed on a GPU with: build/fp4lab bench all
	set -e; for b in $(BENCHES); do $$b; done

clean: ## remove what was built
	rm -rf $(BUILD)

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile

# Where a run spends its time. A precompiled header works only for sources of the same level: GCC crashes or, worse,
# compiles some functions at the header's.
$(patsubst %,$(BUILD)/obj/%,src/numerics/% src/reference/% src/cublas/% src/emulator/% bench/%): OPTIMISE := -O3
$(patsubst %,$(BUILD)/obj/src/emulator/%,driver/% ptx/% isa/%): OPTIMISE := -O1
$(BUILD)/obj/tests/%: OPTIMISE := -O0
$(BUILD)/obj/%.o: %.cpp
	$(compile)
define compile
	@mkdir -p $(@D)
	@echo "  $(@:$(BUILD)/%=%)"
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(if $(filter %.gch,$@),-x c++-header,$(if $(PCH),-include $(PCH)) -c) $< -o $@
endef
# Most of a compilation is headers: $(2)/precompiled.h, with what most sources of a folder $(1) include, is compiled once
# for them. They still include what they use: `make check` builds without.
define precompiled
$(BUILD)/obj/$(1)/%.o: PCH := $(BUILD)/obj/$(2)/precompiled.h
$(BUILD)/obj/$(1)/%.o: $(1)/%.cpp $(BUILD)/obj/$(2)/precompiled.h.gch
	$$(compile)
endef
PRECOMPILED := src/emulator src/emulator/driver src/emulator/ptx src/lab tests
$(PRECOMPILED:%=$(BUILD)/obj/%/precompiled.h.gch): $(BUILD)/obj/%.gch: %
	$(compile)
ifndef SANITIZE
  $(foreach folder,$(PRECOMPILED),$(eval $(call precompiled,$(folder),$(folder))))
  $(eval $(call precompiled,src/emulator/isa,src/emulator/ptx))
  $(foreach folder,src/cli src/jit src/device src/model,$(eval $(call precompiled,$(folder),src/lab)))
endif
# These compute themselves, hence -O1; the last one's weak definitions are of names that cuda.h declares.
$(BUILD)/obj/tests/numerics/%.o $(BUILD)/obj/tests/reference/%.o: OPTIMISE := -O1
$(BUILD)/obj/tests/numerics/%.o $(BUILD)/obj/tests/reference/%.o $(BUILD)/obj/src/emulator/driver/entry_points.o: PCH :=

$(BUILD)/obj/src/cli/html/assets.o: src/cli/html/page.css src/cli/html/page.js # .incbin: no compiler tells of it

$(BUILD)/libfp4lab.a: $(LAB)
# Without the weak definitions of what the driver lacks: in an archive they could be found first.
$(BUILD)/libemulator.a: $(filter-out %/driver/entry_points.o,$(EMULATOR))
$(BUILD)/%.a:
	@rm -f $@ # ar would keep the objects of deleted sources
	$(Q)ar rcs $@ $^
$(BUILD)/fp4lab: $(CLI) $(BUILD)/libfp4lab.a
	@echo "  $(@:$(BUILD)/%=%)"
	$(Q)$(CXX) $(CXXFLAGS) $^ $(LDLIBS) -o $@
$(BUILD)/emulator/libcuda.so.1: $(EMULATOR) $(BUILD)/libfp4lab.a src/emulator/exports.map
	@mkdir -p $(@D)
	@echo "  $(@:$(BUILD)/%=%)"
	$(Q)$(CXX) $(CXXFLAGS) -shared -Wl,-soname,libcuda.so.1 -Wl,-z,defs -Wl,--version-script=src/emulator/exports.map \
	  $(filter %.o %.a,$^) $(LDLIBS) -o $@
	$(Q)ln -sf $(@F) $(@D)/libcuda.so # the name that some programs give dlopen
# On the driver beside it, whatever else the library path holds: hence RPATH, which comes before the path.
$(BUILD)/emulator/libcudart.so.13: $(RUNTIME) $(BUILD)/emulator/libcuda.so.1 src/runtime/exports.map
	@echo "  $(@:$(BUILD)/%=%)"
	$(Q)$(CXX) $(CXXFLAGS) -shared -Wl,-soname,libcudart.so.13 -Wl,-z,defs -Wl,--version-script=src/runtime/exports.map \
	  -Wl,--disable-new-dtags,-rpath,'$$ORIGIN' $(RUNTIME) $(BUILD)/emulator/libcuda.so.1 -o $@
# Its sums are in an order of their own, so nobody counts on their bits, and an fma is twice as fast.
$(BUILD)/obj/src/cublas/%.o: CXXFLAGS += -ffp-contract=fast
$(BUILD)/emulator/libcublas.so.13: src/cublas/exports.map $(filter-out %/lt.o,$(CUBLAS))
$(BUILD)/emulator/libcublasLt.so.13: src/cublas/exports_lt.map $(filter-out %/cublas.o %/copies.o %/triangular.o,$(CUBLAS))
$(BUILD)/emulator/libcublas%so.13: $(BUILD)/libfp4lab.a $(BUILD)/emulator/libcuda.so.1
	@echo "  $(@:$(BUILD)/%=%)"
	$(Q)$(CXX) $(CXXFLAGS) -shared -Wl,-soname,$(@F) -Wl,-z,defs -Wl,--version-script=$(filter %.map,$^) \
	  -Wl,--disable-new-dtags,-rpath,'$$ORIGIN' $(filter %.o,$^) $(filter %.a,$^) $(filter %.so.1,$^) $(LDLIBS) -o $@
# Some tests load the emulator as programs do: never an older one than they are linked with.
$(BUILD)/tests: $(TESTS) $(BUILD)/libemulator.a $(BUILD)/libfp4lab.a | $(BUILD)/emulator/libcuda.so.1
	@echo "  $(@:$(BUILD)/%=%)"
	$(Q)$(CXX) $(CXXFLAGS) $(TESTS) $(BUILD)/libemulator.a $(BUILD)/libfp4lab.a $(LDLIBS) -o $@
$(BUILD)/programs/%: tests/programs/%.cu tests/programs/check.h
	@mkdir -p $(@D)
	@echo "  $(@:$(BUILD)/%=%)"
	$(Q)$(NVCC) -std=c++17 -cudart shared $(if $(filter -gencode,$(call NVCC_LINE,$<)),,$(NVCC_BOTH)) $< $(call NVCC_LINE,$<) -o $@
$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libemulator.a $(BUILD)/libfp4lab.a
	@mkdir -p $(@D)
	@echo "  $(@:$(BUILD)/%=%)"
	$(Q)$(CXX) $(CXXFLAGS) $^ -lbenchmark $(LDLIBS) -o $@

# What reads foreign text and images, once more with clang's sanitizers: the fuzzer finds its way by their
# instrumentation. The rest is the ordinary build's. Most of a compilation is the standard library's headers, so here
# (and not in the ordinary build, which shows what a source forgot to include) they are read once.
FUZZFLAGS := -std=c++20 -g1 -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
FUZZCXX    = clang++ -Iinclude -Isrc -isystem $(CUDA_HOME)/include $(FUZZFLAGS)
FUZZED_IN ?= src/emulator/ptx src/emulator/isa
FUZZED    := $(patsubst %.cpp,$(BUILD)/fuzz/obj/%.o,$(call find,$(FUZZED_IN)) src/emulator/driver/image.cpp)
FUZZPCH   := $(BUILD)/fuzz/obj/precompiled.pch
.SECONDARY: $(FUZZED) $(FUZZPCH) $(FUZZERS)
$(FUZZPCH): tests/fuzz/precompiled.h
	@mkdir -p $(@D)
	$(Q)$(FUZZCXX) -MMD -MP -MF $(@:.pch=.d) -MT $@ -fpch-instantiate-templates -x c++-header $< -o $@
$(BUILD)/fuzz/obj/%.o: %.cpp $(FUZZPCH)
	@mkdir -p $(@D)
	@echo "  $(@:$(BUILD)/%=%)"
	$(Q)$(FUZZCXX) -MMD -MP -include-pch $(FUZZPCH) -c $< -o $@
$(BUILD)/fuzz/%: tests/fuzz/%.cc tests/fuzz/load.h $(FUZZED) $(BUILD)/libemulator.a $(BUILD)/libfp4lab.a
	$(Q)$(FUZZCXX) -fsanitize=fuzzer $(filter-out %.h,$^) $(LDLIBS) -o $@

-include $(shell find $(BUILD)/obj $(BUILD)/fuzz/obj -name '*.d' 2>/dev/null)
