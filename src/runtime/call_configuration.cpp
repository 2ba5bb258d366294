// Stores the <<<...>>> of a launch between the call and its host stub (crt/host_runtime.h).
#include <vector>

#include "runtime/runtime.h"

namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
// Never destroyed: the program's static objects may still launch.
std::vector<Configuration>& pushed() {
  static thread_local auto* stack = new std::vector<Configuration>;
  return *stack;
}

}  // namespace

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  pushed().push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (pushed().empty()) return fp4lab::cudart::finish(cudaErrorMissingConfiguration);
  const Configuration c = pushed().back();
  pushed().pop_back();
  *grid = c.grid, *block = c.block, *shared = c.shared;
  *static_cast<void**>(stream) = c.stream;
  return cudaSuccess;
}
}
