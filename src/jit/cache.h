// The folder of artifacts. See fp4lab/jit.h for the layout and the promises.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "fp4lab/jit.h"

namespace fp4lab::jit {

// XXH3-128 in hexadecimal, as xxh128sum prints it.
std::string hash(std::string_view bytes);

// The entry of `artifact` (its name, arch and key are filled) in the cache.
std::filesystem::path entry_folder(const Artifact& artifact);

// Fills source, log, PTX, cubin and report from the entry. False when there is none; when it is damaged, a
// warning on stderr says how.
bool fetch(Artifact& artifact);

// Keeps the artifact and sets its folder. `replace` an existing entry. What goes wrong is a warning on
// stderr.
void keep(Artifact& artifact, bool replace);

// On stderr, each text once per process.
void warn_once(const std::string& text);

}  // namespace fp4lab::jit
