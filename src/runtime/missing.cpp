// Entry points that are not implemented: each says its name once and fails. They are weak: a file of this
// folder that defines one takes its place, so that no list says what there is. (Their real signatures do not
// matter: they read no argument, and the caller only looks at the code.)
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
