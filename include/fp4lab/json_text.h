// JSON as text. nlohmann's parser and printer take seconds to compile wherever they are used, so they are
// used here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace fp4lab {

/// Throws nlohmann::json::parse_error; or gives a discarded value if exceptions are not wanted.
nlohmann::json parse_json(std::string_view text, bool allow_exceptions = true);

/// On one line, or indented. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);

}  // namespace fp4lab
