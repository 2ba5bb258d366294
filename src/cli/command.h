// A subcommand is a file of this folder: it defines one static Command, which puts itself on the list.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "fp4lab/error.h"

namespace fp4lab::cli {

struct Command {
  std::string name, summary;
  // Declares the options on the subcommand; returns what runs when it was chosen: the process's exit status.
  std::function<std::function<int()>(CLI::App&)> declare;

  Command(std::string name, std::string summary, std::function<std::function<int()>(CLI::App&)> declare);
};

std::vector<const Command*>& commands();

// Takes whole numbers from `first` on, of up to 19 digits.
inline CLI::Validator whole_number(unsigned first) {
  return {[first](std::string& s) {
            const bool digits = !s.empty() && s.size() <= 19 && s.find_first_not_of("0123456789") == s.npos;
            if (digits && std::stoull(s) >= first) return std::string();
            return fmt::format("'{}' is not a whole number from {} on", s, first);
          },
          fmt::format("NUMBER >= {}", first)};
}

}  // namespace fp4lab::cli
