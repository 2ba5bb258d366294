#pragma once

#include <cstdint>
#include <functional>

namespace fp4lab {

// f(i) for i in [0, count), over `threads` threads (0: one per core). An exception of any of them is rethrown
// here.
void parallel_for(int threads, std::int64_t count, const std::function<void(std::int64_t)>& f);

}  // namespace fp4lab
