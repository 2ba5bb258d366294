// Unimplemented entry points: each prints its name once and fails. They are weak, so a definition in another
// file replaces them and no list of the implemented ones is needed. (Their real signatures do not matter:
// they read no argument, and the caller only looks at the error code.)
#include <atomic>

namespace fp4lab::cudart {
int refuse(const char* name, std::atomic<bool>& said);  // runtime.cpp, which sees the real prototypes
}

extern "C" {
#define ENTRY(name)                             \
  __attribute__((weak)) int name() {            \
    static std::atomic<bool> said;              \
    return fp4lab::cudart::refuse(#name, said); \
  }
#include "runtime/entries.def"
#undef ENTRY
}
