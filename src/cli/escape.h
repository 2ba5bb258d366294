// Text in HTML and XML: names of files and kernels may hold anything.
#pragma once

#include <string>
#include <string_view>

namespace fp4lab::cli {

// Good between tags and in quoted attributes. Control characters, which XML cannot hold, are left out.
inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if (static_cast<unsigned char>(c) >= 32 || c == '\n' || c == '\t')
      out += c;
  }
  return out;
}

}  // namespace fp4lab::cli
