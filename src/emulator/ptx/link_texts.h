// Links several PTX texts to one module, as text.
#pragma once

#include <span>
#include <string>

namespace fp4lab::emu {

struct PtxText {
  std::string name;  // for messages
  std::string text;
};

// The result has the newest .version and .target of the texts. Symbols without a linking directive stay local
// to their text, renamed if two texts have one. Of several .weak or .common definitions one is taken, a
// strong one first (PTX ISA 5.4.4, 11.6). Undefined symbols stay .extern. Debug sections are removed. Throws
// PtxError for malformed PTX, fp4lab::Error if a symbol has two strong definitions.
std::string link_texts(std::span<const PtxText>);

}  // namespace fp4lab::emu
