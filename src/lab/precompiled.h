// What most sources of lab, cli, jit and device include, compiled once for them (see the Makefile).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fp4lab/error.h"
#include "fp4lab/run.h"
