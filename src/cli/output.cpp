#include "cli/output.h"

#include <filesystem>

#include "fp4lab/error.h"

namespace fp4lab::cli {

void Output::declare(Arguments& app, bool with_shard) {
  app.add_option("--json", json,
                 "append each result to this file as a line of JSON as soon as it is finished");
  const Argument resumes =
      app.add_flag("--resume", resume, "continue the --json file: skip what it already has");
  app.add_flag("--force", force, "overwrite the --json file").not_with(resumes);
  if (with_shard)
    app.add_option(
        "--shard", shard_text,
        "i/n: every n-th point only, into a file of its own (FILE.i-of-n.json); 'fp4lab merge' joins them");
}

Shard Output::shard() const {
  if (shard_text.empty()) return {};
  if (json.empty()) fail("--shard {} needs --json FILE", shard_text);
  return parse_shard(shard_text);
}

Store Output::open(const Device& device, std::vector<std::string> inputs) const {
  return open([&] { return stamp_of(device); }, std::move(inputs));
}
Store Output::open(std::vector<std::string> inputs) const {
  return open(stamp_of_process, std::move(inputs));
}

Store Output::open(const std::function<Stamp()>& made, std::vector<std::string> inputs) const {
  if (json.empty()) {
    if (resume || force) fail("{} needs --json FILE", resume ? "--resume" : "--force");
    return Store();
  }
  const Shard part = shard();
  Stamp stamp = made();
  if (part.count > 1) stamp.emplace_back("shard", part.text());
  return Store({.path = part.path(json),
                .existing = resume  ? Existing::kResume
                            : force ? Existing::kForce
                                    : Existing::kRefuse,
                .stamp = std::move(stamp),
                .inputs = std::move(inputs)});
}

void refuse_overwriting(const std::string& output, const char* option,
                        const std::vector<std::string>& inputs) {
  std::error_code ignored;
  for (const std::string& input : inputs)
    if (!output.empty() && !input.empty() && std::filesystem::equivalent(output, input, ignored))
      fail("{} {}: the output cannot go to a file that this command reads ({})", option, output, input);
}

}  // namespace fp4lab::cli
