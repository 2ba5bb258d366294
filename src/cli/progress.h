// A progress line on stderr, for people: nothing is printed unless stderr is a terminal and the work has
// lasted longer than a moment.
#pragma once

#include <chrono>
#include <string>

namespace fp4lab::cli {

class Progress {
 public:
  // `seconds`: it is ended then; 0: when all is done.
  Progress(std::string what, size_t total, double seconds = 0);
  ~Progress();  // wipes the line
  void update(size_t done, const std::string& current);

 private:
  std::string what_;
  size_t total_;
  double seconds_;
  bool terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace fp4lab::cli
