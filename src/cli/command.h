// A subcommand is a file of this folder: it defines one static Command, which puts itself on the list.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/arguments.h"

namespace fp4lab::cli {

struct Command {
  std::string name, summary;
  // Declares the options on the subcommand; returns what runs when it was chosen: the process's exit status.
  std::function<std::function<int()>(Arguments&)> declare;

  Command(std::string name, std::string summary, std::function<std::function<int()>(Arguments&)> declare);
};

std::vector<const Command*>& commands();

// Reads the arguments and runs the command that they name: the process's exit status. Throws what the command
// throws.
int run_command_line(int argc, char** argv);

}  // namespace fp4lab::cli
