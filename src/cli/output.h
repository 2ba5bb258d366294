// Where a command's records go.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "fp4lab/store.h"

namespace fp4lab::cli {

// --json, --resume, --force, and where points are many --shard.
struct Output {
  std::string json, shard_text;
  bool resume = false, force = false;

  void declare(Arguments&, bool with_shard = false);
  Shard shard() const;  // fails on a bad one
  // Call it when nothing can be refused any more. `inputs`: files that the command reads.
  Store open(const Device&, std::vector<std::string> inputs = {}) const;
  Store open(std::vector<std::string> inputs = {}) const;  // of work that no device does

 private:
  Store open(const std::function<Stamp()>& stamp, std::vector<std::string> inputs) const;
};

// Fails when the output of `option` is one of the files that the command reads.
void refuse_overwriting(const std::string& output, const char* option,
                        const std::vector<std::string>& inputs);

}  // namespace fp4lab::cli
