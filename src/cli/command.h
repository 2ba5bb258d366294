// A subcommand is a file of this folder: it defines one static Command, which puts itself on the list.
#pragma once

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

}  // namespace fp4lab::cli
