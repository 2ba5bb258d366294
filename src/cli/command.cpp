// What reads the command line, with CLI11: the only source that includes it.
#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>

#include "cli/table.h"
#include "fp4lab/driver.h"
#include "fp4lab/error.h"
#include "fp4lab/jit.h"
#include "fp4lab/store.h"
#include "fp4lab/suggest.h"

namespace fp4lab::cli {

Argument Argument::required() { return Argument(option_->required()); }
Argument Argument::expected(int values) { return Argument(option_->expected(values)); }
Argument Argument::capture_default_str() { return Argument(option_->capture_default_str()); }
Argument Argument::group(const std::string& heading) { return Argument(option_->group(heading)); }
Argument Argument::one_of(std::vector<std::string> values) {
  return Argument(option_->check(CLI::IsMember(std::move(values))));
}
Argument Argument::whole_number_from(uint64_t first) {
  return whole_number(first, std::numeric_limits<uint64_t>::max());
}
Argument Argument::whole_number(uint64_t first, uint64_t last) {
  const bool open = last == std::numeric_limits<uint64_t>::max();
  const std::string range =
      open ? fmt::format("from {} on", first) : fmt::format("from {} to {}", first, last);
  return check([=](const std::string& s) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    const bool digits = end == s.data() + s.size();
    if (digits && error == std::errc::result_out_of_range)
      return fmt::format("'{}' is more than {}", s, last);
    if (digits && error == std::errc() && value >= first && value <= last) return std::string();
    return fmt::format("'{}' is not a whole number {}", s, range);
  });
}
Argument Argument::existing_file() { return Argument(option_->check(CLI::ExistingFile)); }
Argument Argument::one_each() { return Argument(option_->allow_extra_args(false)); }
Argument Argument::not_with(const Argument& other) { return Argument(option_->excludes(other.option_)); }
Argument Argument::check(std::function<std::string(const std::string&)> trouble) {
  return Argument(option_->check(
      CLI::Validator([trouble = std::move(trouble)](std::string& s) { return trouble(s); }, "")));
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

void Arguments::examples(std::initializer_list<const char*> lines, const std::string& note) {
  std::string text = note.empty() ? "Examples:" : note + "\nExamples:";
  for (const char* line : lines) text += fmt::format("\n  {}", line);
  app_.footer(text);
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

// Descriptions folded to the terminal's width.
class Help : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    return fold(option->get_description());
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    std::string out;
    for (const char c : fmt::format("  {:<{}}{}", sub->get_name(), kIndent - 2, fold(sub->get_description())))
      out += c == '\n' ? "\n" + std::string(kIndent, ' ') : std::string(1, c);
    return out + "\n";
  }
  // CLI11 would name a flag that sets false "--no-x{false}".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));
  }
  // What it takes, and in brackets what it is without: "NUMBER [1]".
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_items_expected_max() == 0) return {};  // a flag
    const std::string type = option->get_type_name();
    std::string text = type.starts_with("UINT") || type.starts_with("INT") ? " NUMBER" : " TEXT";
    if (!option->get_default_str().empty()) text += fmt::format(" [{}]", option->get_default_str());
    return text + (option->get_required() ? " (required)" : "");
  }
  Help() { column_width(kIndent); }

 private:
  static constexpr size_t kIndent = 26;
  static std::string fold(std::string text) {
    const size_t terminal = terminal_width(STDOUT_FILENO);
    const size_t width = (terminal ? std::clamp<size_t>(terminal, 60, 100) : 100) - kIndent;
    std::string out;
    while (text.size() > width) {
      size_t at = text.rfind(' ', width);
      if (at == text.npos) at = width;
      out += text.substr(0, at) + "\n";
      text.erase(0, text.find_first_not_of(' ', at));
    }
    return out + text;
  }
};

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

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The emulator's reports name the kernels' files: from the project's folder, wherever the command is called.
void show_paths_from_the_project() {
  try {
    setenv("FP4LAB_SOURCES", jit::project_root().c_str(), 0);
  } catch (const Error&) {  // a copy of the program alone
  }
}

void print_version() {
  fmt::print("fp4lab, commit {}\n", commit());
  std::string nvrtc;
  try {
    nvrtc = jit::nvrtc_identity();
  } catch (const std::exception& e) {
    nvrtc = e.what();
  }
  std::vector<std::string> looked_at;
  const std::string library = emulator_library(looked_at);
  fmt::print("NVRTC: {}\nemulator: {}\n", nvrtc, library.empty() ? "not built" : library);
}

// "help", "--help", "--version" and names that are none.
bool answered(const CLI::App& app, const std::string& name, int argc, char** argv, int& status) {
  std::vector<std::string> names;
  for (const Command* command : commands()) names.push_back(command->name);
  if (name == "--version" || name == "-V") {
    print_version();
    return true;
  }
  const std::string asked = name == "help" && argc > 2 ? argv[2] : name;
  if (asked == "help") {
    fmt::print("{}", app.help());
    return true;
  }
  if (asked.starts_with("-")) return false;
  if (std::ranges::find(names, asked) == names.end()) {
    std::ranges::sort(names);
    fmt::print(stderr, "fp4lab: no command '{}'{}\n  there are: {}\n", asked, did_you_mean(asked, names),
               fmt::join(names, " "));
    status = 2;
    return true;
  }
  if (name == "help") fmt::print("{}", app.get_subcommand(asked)->help("fp4lab"));
  return name == "help";
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{"NVFP4 matrix products for NVIDIA Blackwell and Hopper: run, check, time, explain.", "fp4lab"};
  app.formatter(std::make_shared<Help>());
  app.footer(
      "'fp4lab COMMAND --help' shows options and examples. Most commands take\n"
      "  OPERATION --case CASE --kernel KERNEL, as in: fp4lab run group --case g2k1536 --kernel v2\n"
      "Exit status: 0 success, 1 a check failed, 2 bad input or no result, 128 + N ended by signal N.");
  bool version = false;  // answered before
  app.add_flag("-V,--version", version, "print commit, NVRTC and emulator, and exit");
  app.require_subcommand(1);
  show_paths_from_the_project();
  auto list = commands();
  std::sort(list.begin(), list.end(), [](auto* a, auto* b) { return a->name < b->name; });
  int status = 0;
  for (const Command* command : list) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    Arguments arguments(*sub);
    sub->final_callback([run = command->declare(arguments), &status] { status = run(); });
  }
  const std::string name = argc > 1 ? argv[1] : "-";
  if (answered(app, name, argc, argv, status)) return status;
  if (name[0] != '-') {
    const CLI::App& command = *app.get_subcommand(name);
    if (const std::string option = unknown_option(command, argc, argv); !option.empty())
      fail("{0} has no option {1}{2}\n  fp4lab {0} --help lists them", name, option,
           did_you_mean(option, option_names(command)));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return status;
}

}  // namespace fp4lab::cli
