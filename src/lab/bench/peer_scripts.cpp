#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fp4lab/jit.h"
#include "fp4lab/json_text.h"
#include "fp4lab/peers.h"
#include "lab/bench/shell.h"

namespace fp4lab {
namespace fs = std::filesystem;

std::vector<std::string> peer_scripts() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(jit::project_root() / "bench/peers", ignored))
    if (file.path().extension() == ".py" && !file.path().filename().string().starts_with('_'))
      names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

// The end of what a program said, without the newlines after it.
std::string last_words(std::string text, size_t most) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.size() > most ? text.size() - most : 0);
}

std::string trouble_of(const Ran& ran, const std::string& python) {
  if (ran.status == 126 || ran.status == 127) return fmt::format("no interpreter {}: {}", python, ran.output);
  return ran.status ? fmt::format("exit status {}: {}", ran.status, last_words(ran.output, 600)) : "";
}

}  // namespace

std::string peer_scripts_trouble(const std::string& python) {
  return trouble_of(run_shell(shell_word(python) + " -c 'import torch; torch.cuda.init()' 2>&1"), python);
}

void run_peer_script(const std::string& name, const PeerScripts& how,
                     const std::function<void(nlohmann::json)>& record) {
  const auto absent = [&](const std::string& reason) {
    record({{"type", "absent"}, {"kernel", name}, {"reason", reason}});
  };
  const std::string file = (fs::path(how.problems) / (name + ".json")).string();
  const std::string command = fmt::format(
      "PYTHONDONTWRITEBYTECODE=1 timeout -k 5 {} {} {} --problems {} --json {} --repeats {} --warmups {} "
      "--rounds {} --flush {} 2>&1",
      how.seconds, shell_word(how.python),
      shell_word((jit::project_root() / "bench/peers" / (name + ".py")).string()), shell_word(how.problems),
      shell_word(file), how.timing.repeats, how.timing.warmups, how.timing.rounds, how.timing.flush_bytes);
  std::error_code ignored;
  fs::remove(file, ignored);  // of an earlier run, when the folder is kept
  const Ran ran = run_shell(command);
  if (ran.status == 0 && !ran.output.empty()) fmt::print(stderr, "{}: {}", name, ran.output);
  std::ifstream records(file);
  for (std::string line; std::getline(records, line);)
    if (auto parsed = parse_json(line, false); parsed.is_object()) record(std::move(parsed));
  if (ran.status == 124 || ran.status == 137) return absent(fmt::format("ended after {} s", how.seconds));
  if (const std::string trouble = trouble_of(ran, how.python); !trouble.empty()) absent(trouble);
}

}  // namespace fp4lab
