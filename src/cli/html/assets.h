#pragma once

#include <string_view>

namespace fp4lab::cli {

std::string_view page_style();   // page.css
std::string_view page_script();  // page.js

}  // namespace fp4lab::cli
