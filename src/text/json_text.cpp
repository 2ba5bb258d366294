#include "fp4lab/json_text.h"

#include <nlohmann/json.hpp>

namespace fp4lab {

nlohmann::json parse_json(std::string_view text, bool allow_exceptions) {
  return nlohmann::json::parse(text, nullptr, allow_exceptions);
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace fp4lab
