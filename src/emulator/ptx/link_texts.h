// Several PTX texts as one, as a linker would make one module of theirs.
#pragma once

#include <span>
#include <string>

namespace fp4lab::emu {

struct PtxText {
  std::string name;  // what messages call it
  std::string text;
};

// One text with the newest .version and .target among theirs. What is declared without a linking directive
// stays its text's own, under another name where two texts have one; of several .weak or .common definitions
// one is taken, a strong one first (PTX ISA 5.4.4, 11.6). What nobody defines stays .extern. Debug sections
// are left out. Throws PtxError for what is no PTX, fp4lab::Error where a symbol has two strong definitions.
std::string link_texts(std::span<const PtxText>);

}  // namespace fp4lab::emu
