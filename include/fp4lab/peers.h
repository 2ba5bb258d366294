// Peers that are other programs: the Python scripts of bench/peers.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fp4lab/timing.h"

namespace fp4lab {

struct PeerScripts {
  std::string python = "python3";
  std::string problems;  // folder with one folder per case, see InputSets::write
  int seconds = 300;     // each script may take
  TimingOptions timing;
};

/// Names of the scripts: bench/peers/*.py of the project, less those that start with '_'.
std::vector<std::string> peer_scripts();

/// Why none of them can measure anything here (no interpreter, no PyTorch, no GPU for it); empty when they
/// can. Asking first saves writing the problems for nobody.
std::string peer_scripts_trouble(const std::string& python);

/// Runs one and hands over the records that it left, also when it failed or was ended. What it cannot measure
/// is a record of type "absent" with the reason; so is a script that fails, with its last words.
void run_peer_script(const std::string& name, const PeerScripts& how,
                     const std::function<void(nlohmann::json)>& record);

}  // namespace fp4lab
