// The one exception type of the lab. A message shows the place and the values, never a bare condition.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace fp4lab {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace fp4lab
