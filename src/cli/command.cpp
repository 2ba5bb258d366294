// What reads the command line, with CLI11: the only source that includes it.
#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "fp4lab/error.h"

namespace fp4lab::cli {

Argument Argument::required() { return Argument(option_->required()); }
Argument Argument::expected(int values) { return Argument(option_->expected(values)); }
Argument Argument::capture_default_str() { return Argument(option_->capture_default_str()); }
Argument Argument::group(const std::string& heading) { return Argument(option_->group(heading)); }
Argument Argument::one_of(std::vector<std::string> values) {
  return Argument(option_->check(CLI::IsMember(std::move(values))));
}
Argument Argument::whole_number_from(unsigned first) {
  const auto check = [first](std::string& s) {
    const bool digits = !s.empty() && s.size() <= 19 && s.find_first_not_of("0123456789") == s.npos;
    if (digits && std::stoull(s) >= first) return std::string();
    return fmt::format("'{}' is not a whole number from {} on", s, first);
  };
  return Argument(option_->check(CLI::Validator(check, fmt::format("NUMBER >= {}", first))));
}

template <class T>
Argument Arguments::add_option(const std::string& name, T& value, const std::string& help) {
  return Argument(app_.add_option(name, value, help));
}
template Argument Arguments::add_option(const std::string&, std::string&, const std::string&);
template Argument Arguments::add_option(const std::string&, int&, const std::string&);
template Argument Arguments::add_option(const std::string&, unsigned&, const std::string&);
template Argument Arguments::add_option(const std::string&, uint64_t&, const std::string&);
template Argument Arguments::add_option(const std::string&, std::optional<std::string>&, const std::string&);
template Argument Arguments::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Argument Arguments::add_option(const std::string&, std::vector<unsigned>&, const std::string&);
template Argument Arguments::add_option(const std::string&, double&, const std::string&);

Argument Arguments::add_flag(const std::string& name, bool& value, const std::string& help) {
  return Argument(app_.add_flag(name, value, help));
}

std::vector<const Command*>& commands() {
  static std::vector<const Command*> list;
  return list;
}

Command::Command(std::string n, std::string s, std::function<std::function<int()>(Arguments&)> d)
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

int run_command_line(int argc, char** argv) {
  CLI::App app{"NVFP4 matrix products for B200 and Hopper: run, check, explain.", "fp4lab"};
  app.require_subcommand(1);
  auto list = commands();
  std::sort(list.begin(), list.end(), [](auto* a, auto* b) { return a->name < b->name; });
  int status = 0;
  for (const Command* command : list) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    Arguments arguments(*sub);
    sub->final_callback([run = command->declare(arguments), &status] { status = run(); });
  }
  const std::string name = argc > 1 ? argv[1] : "-";
  if (name[0] != '-' && std::ranges::none_of(list, [&](auto* c) { return c->name == name; })) {
    fmt::print(stderr, "fp4lab: no command '{}'; there are:", name);
    for (const Command* command : list) fmt::print(stderr, " {}", command->name);
    fmt::print(stderr, "\n");
    return 2;
  }
  const std::string option = name[0] == '-' ? "" : unknown_option(*app.get_subcommand(name), argc, argv);
  if (!option.empty()) fail("{0} has no option {1}; fp4lab {0} --help lists them", name, option);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return status;
}

}  // namespace fp4lab::cli
