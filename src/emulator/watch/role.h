// What a warp does in a warp-specialised kernel, told from what it issues.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/core/async.h"

namespace fp4lab::emu {

struct Role {
  uint64_t loads = 0, products = 0, tmem = 0, stores = 0;

  void issued(const AsyncOp& op, const Source& source) {
    const std::string_view name = op.name();
    if (name == "tcgen05.mma" || name == "wgmma.mma_async")
      ++products;
    else if (name == "tcgen05.ld" || name == "tcgen05.st")
      ++tmem;
    else if (source.has("bulk_group"))
      ++stores;
    else if (name.starts_with("cp.async"))
      ++loads;
  }
  // "load", "load + MMA", "epilogue", ...; empty when it issued nothing.
  std::string name() const {
    std::string text;
    const auto add = [&](bool does, const char* what) {
      if (does) text += (text.empty() ? "" : " + ") + std::string(what);
    };
    add(loads, "load");
    add(products, "MMA");
    add(tmem || stores, "epilogue");
    return text;
  }
};

}  // namespace fp4lab::emu
