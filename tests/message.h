// What a call that must fail says.
#pragma once

#include <string>

#include "fp4lab/error.h"

namespace fp4lab {

// The message of the Error that `call` throws; empty when it throws none.
template <class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace fp4lab
