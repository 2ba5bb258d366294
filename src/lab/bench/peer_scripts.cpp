#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fp4lab/jit.h"
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

void run_peer_script(const std::string& name, const PeerScripts& how,
                     const std::function<void(nlohmann::json)>& record) {
  const auto absent = [&](const std::string& reason) {
    record({{"type", "absent"}, {"kernel", name}, {"reason", reason}});
  };
  const std::string file = (fs::path(how.problems) / (name + ".json")).string();
  const std::string command = fmt::format(
      "PYTHONDONTWRITEBYTECODE=1 timeout -k 5 {} {} {} --problems {} --json {} --repeats {} --warmups {} "
      "--rounds "
      "{} --flush {} 2>&1",
      how.seconds, shell_word(how.python),
      shell_word((jit::project_root() / "bench/peers" / (name + ".py")).string()), shell_word(how.problems),
      shell_word(file), how.timing.repeats, how.timing.warmups, how.timing.rounds, how.timing.flush_bytes);
  const Ran ran = run_shell(command);
  if (ran.status == 0 && !ran.output.empty()) fmt::print(stderr, "{}: {}", name, ran.output);
  std::ifstream records(file);
  for (std::string line; std::getline(records, line);)
    if (auto parsed = nlohmann::json::parse(line, nullptr, false); parsed.is_object())
      record(std::move(parsed));
  if (ran.status == 124 || ran.status == 137) return absent(fmt::format("ended after {} s", how.seconds));
  if (ran.status == 126 || ran.status == 127)
    return absent(fmt::format("no interpreter {}: {}", how.python, ran.output));
  if (ran.status != 0) {
    std::string last = ran.output;
    while (!last.empty() && last.back() == '\n') last.pop_back();
    last = last.substr(last.size() > 600 ? last.size() - 600 : 0);
    absent(fmt::format("exit status {}: {}", ran.status, last));
  }
}

}  // namespace fp4lab
