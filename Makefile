# fp4lab: bare `make` builds, `make help` lists the targets.
# Files are found by wildcard: a new source, test or benchmark is a dropped file.

BUILD     ?= build
CUDA_HOME ?= /usr/local/cuda
CXX       := g++
CXXFLAGS  := -std=c++20 -O3 -g1 -fPIC -Wall -Wextra -Wno-stringop-overflow -fno-math-errno -ffp-contract=off $(SANITIZE)
CPPFLAGS  := -Iinclude -Isrc -isystem $(CUDA_HOME)/include -MMD -MP
LDLIBS    := -lfmt -lxxhash -ldl -lpthread

find      = $(sort $(shell find $(1) -name '*.cpp' 2>/dev/null))
objects   = $(patsubst %.cpp,$(BUILD)/obj/%.o,$(call find,$(1)))
LAB       := $(call objects,src/numerics src/reference src/problem src/jit src/device src/lab)
EMULATOR  := $(call objects,src/emulator)
CLI       := $(call objects,src/cli)
TESTS     := $(call objects,tests)
BENCHES   := $(patsubst bench/%.cpp,$(BUILD)/bench/%,$(call find,bench))

.PHONY: build test bench clean help
build: $(BUILD)/fp4lab $(BUILD)/emulator/libcuda.so.1 ## compile everything (the default)

test: build $(BUILD)/tests ## run the test suite
	$(BUILD)/tests

bench: $(BENCHES) ## run the benchmarks
	set -e; for b in $(BENCHES); do $$b; done

clean: ## remove what was built
	rm -rf $(BUILD)

help: ## print this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

$(BUILD)/obj/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c $< -o $@

$(BUILD)/libfp4lab.a: $(LAB)
	ar rcs $@ $^
$(BUILD)/libemulator.a: $(EMULATOR)
	ar rcs $@ $^
$(BUILD)/fp4lab: $(CLI) $(BUILD)/libfp4lab.a
	$(CXX) $(CXXFLAGS) $^ $(LDLIBS) -o $@
$(BUILD)/emulator/libcuda.so.1: $(EMULATOR) $(BUILD)/libfp4lab.a
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -shared -Wl,-soname,libcuda.so.1 $^ $(LDLIBS) -o $@
$(BUILD)/tests: $(TESTS) $(BUILD)/libemulator.a $(BUILD)/libfp4lab.a
	$(CXX) $(CXXFLAGS) $(TESTS) $(BUILD)/libemulator.a $(BUILD)/libfp4lab.a $(LDLIBS) -o $@
$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libemulator.a $(BUILD)/libfp4lab.a
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $^ -lbenchmark $(LDLIBS) -o $@

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
