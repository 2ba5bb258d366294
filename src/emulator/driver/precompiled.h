// Headers that most of this folder's sources include, precompiled (see the Makefile).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/driver/state.h"
#include "fp4lab/error.h"
