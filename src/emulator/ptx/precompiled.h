// Headers that most sources of ptx and isa include, precompiled (see the Makefile).
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/image.h"
#include "fp4lab/error.h"
