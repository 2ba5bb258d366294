// How a subcommand declares what it takes. CLI11 reads the command line, behind this interface: its headers
// take longer to compile than any command.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fp4lab::cli {

// What is said further of an option or positional argument, under CLI11's names.
class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}

  Argument required();
  Argument expected(int values);
  Argument capture_default_str();                    // the help shows the value that it has now
  Argument group(const std::string& heading);        // of the help
  Argument one_of(std::vector<std::string> values);  // all others are refused
  Argument whole_number_from(uint64_t first);
  Argument whole_number(uint64_t first, uint64_t last);
  Argument existing_file();
  Argument one_each();                       // a vector's option takes one value each time that it is given
  Argument not_with(const Argument& other);  // refused when the other one is given, too
  // Refused with the text that the function gives; empty: good.
  Argument check(std::function<std::string(const std::string&)> trouble);

 private:
  CLI::Option* option_;
};

class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  // "--name" is an option, "name" a positional argument; `value` must outlive the run. T: std::string, int,
  // unsigned, uint64_t, double, std::optional<std::string>, or a vector of strings or unsigned, which holds
  // all that was given.
  template <class T>
  Argument add_option(const std::string& name, T& value, const std::string& help);
  // "!--name" makes it false.
  Argument add_flag(const std::string& name, bool& value, const std::string& help);
  // The end of the command's --help. Every command has some; `note` stands before them.
  void examples(std::initializer_list<const char*> lines, const std::string& note = "");

 private:
  CLI::App& app_;
};

}  // namespace fp4lab::cli
