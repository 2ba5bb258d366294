// The page's style and script: files of their own here, part of the program when it is built.
#include "cli/html/assets.h"

#define FP4LAB_EMBED(name, file)                                          \
  asm(".pushsection .rodata\n.global fp4lab_" name "_begin, fp4lab_" name \
      "_end\n"                                                            \
      ".hidden fp4lab_" name "_begin, fp4lab_" name "_end\nfp4lab_" name  \
      "_begin:\n"                                                         \
      ".incbin \"src/cli/html/" file "\"\nfp4lab_" name "_end:\n.popsection\n")
FP4LAB_EMBED("style", "page.css");
FP4LAB_EMBED("script", "page.js");

extern "C" {
extern const char fp4lab_style_begin[], fp4lab_style_end[], fp4lab_script_begin[], fp4lab_script_end[];
}

namespace fp4lab::cli {

std::string_view page_style() { return {fp4lab_style_begin, fp4lab_style_end}; }
std::string_view page_script() { return {fp4lab_script_begin, fp4lab_script_end}; }

}  // namespace fp4lab::cli
