// What a Blackwell kernel's machine code says about its time, counted in what nvdisasm prints.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace fp4lab {

struct MachineCode {
  int instructions = 0;
  // The thread that multiplies, from the wait for a full stage to the stage's commit, and to its first copy
  // of scales, both ends counted. On the way with the most MMAs, where there are several.
  struct Stage {
    int to_commit = 0, to_first_copy = 0;
  };
  std::optional<Stage> stage;
  // Fences (MEMBAR) at the scope of the GPU or wider, by the role that executes them: the word after "// -- "
  // in the kernel's file.
  std::map<std::string, int> gpu_fences;
  // Stores to global memory by the bytes that a thread stores, workspaces included.
  std::map<int, int> global_stores;
  // The loop that brings an accumulator out of TMEM: instructions for 16 columns of 32 lanes, of each
  // product.
  std::optional<double> epilogue;
};

// `assembly` is jit::disassemble's text of a cubin with one kernel, `source` the text of the kernel's file
// and `file` the end of its path ("group_gemm/v5_two_cta.cu"). `products` share a column of C.
MachineCode read_machine_code(std::string_view assembly, std::string_view source, std::string_view file,
                              int products);

}  // namespace fp4lab
