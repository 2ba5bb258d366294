// fp4lab: the command line. Exit status 0 = all well, 1 = a check failed, 2 = bad input or a broken
// environment.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "cli/command.h"

namespace fp4lab::cli {

std::vector<const Command*>& commands() {
  static std::vector<const Command*> list;
  return list;
}

Command::Command(std::string n, std::string s, std::function<std::function<int()>(CLI::App&)> d)
    : name(std::move(n)), summary(std::move(s)), declare(std::move(d)) {
  commands().push_back(this);
}

namespace {

// The first option that the command does not have, up to "--"; empty: none. CLI11 would name what stands
// behind it.
std::string unknown_option(const CLI::App& command, int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i], name = argument.substr(0, argument.find('='));
    if (argument == "--") break;
    if (argument.starts_with("--") && !command.get_option_no_throw(name)) return name;
  }
  return {};
}

}  // namespace

}  // namespace fp4lab::cli

int main(int argc, char** argv) {
  using namespace fp4lab::cli;
  CLI::App app{"NVFP4 matrix products for B200 and Hopper: run, check, explain.", "fp4lab"};
  app.require_subcommand(1);
  auto list = commands();
  std::sort(list.begin(), list.end(), [](auto* a, auto* b) { return a->name < b->name; });
  int status = 0;
  for (const Command* command : list) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    sub->final_callback([run = command->declare(*sub), &status] { status = run(); });
  }
  try {
    const std::string name = argc > 1 ? argv[1] : "-";
    if (name[0] != '-' && std::ranges::none_of(list, [&](auto* c) { return c->name == name; })) {
      fmt::print(stderr, "fp4lab: no command '{}'; there are:", name);
      for (const Command* command : list) fmt::print(stderr, " {}", command->name);
      fmt::print(stderr, "\n");
      return 2;
    }
    const std::string option = name[0] == '-' ? "" : unknown_option(*app.get_subcommand(name), argc, argv);
    if (!option.empty()) fp4lab::fail("{0} has no option {1}; fp4lab {0} --help lists them", name, option);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "fp4lab: {}\n", e.what());
    return 2;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fmt::print(stderr, "fp4lab: writing the output failed: is the disk full?\n");
    return 2;
  }
  return status;
}
