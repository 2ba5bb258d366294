// The page that says which instructions the emulator has.
#pragma once

#include <string>

namespace fp4lab::emu {

// Markdown, made from the opcode table: a chapter for each of the manual's, a line for each row.
std::string support_page();

}  // namespace fp4lab::emu
