// The page of supported instructions.
#pragma once

#include <string>

namespace fp4lab::emu {

// Markdown, generated from the opcode table: a section for each chapter of the manual, a line for each row.
std::string support_page();

}  // namespace fp4lab::emu
