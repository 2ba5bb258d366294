// Measured times to compare with: tables of published points (CSV) and records of our own sweep and bench
// (.jsonl), each predicted by what its row says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fp4lab/model.h"

namespace fp4lab::model {

struct Point {
  // gemm: a whole kernel with its plan; bound: one whose plan is unknown; mainloop: one tile on one CTA;
  // mma_interval, mma_latency: one tcgen05.mma; tma: loads; span: an interval inside a kernel, named in the
  // note; plan: one of our own kernels.
  std::string kind, source, kernel, dtype, tile, cluster, stages, note;
  double m = 0, n = 0, k = 0, groups = 1;     // 0: unknown
  double clock_mhz = 0, measured_us = 0;      // 0: unknown
  std::string case_name, plan, arch, device;  // of our own kernels
  std::vector<std::string> cells;             // of the row, as it was
  std::string shape() const;                  // what points must share to be compared with each other
};

struct PointTable {
  std::vector<std::string> columns;
  std::vector<Point> points;
};
/// By the file's ending: .csv or .jsonl/.json (JSON lines). Fails with file and line on what it cannot read.
PointTable read_points(const std::string& path);

/// Nothing, and the reason, where the model has no answer for the row.
struct Answer {
  std::optional<Prediction> prediction;
  std::string why;
};
/// sm_mhz: of rows that name no clock; 0: the machine's own.
Answer predict(const Point& point, double sm_mhz = 0);

/// Whether the point was set aside before any constant was fitted: by a hash of its sizes, of our own kernels
/// by a hash of its plan.
bool set_aside(const Point& point);

/// How predictions of one source, kind and format compare with the measurements.
struct Score {
  std::string source, kind, dtype;
  int points = 0;
  double mape = 0, bias = 0;   // mean of |predicted / measured - 1|, of predicted / measured - 1
  int shapes = 0;              // with several points, over which the next two are means
  double tau = 0, regret = 0;  // Kendall's tau-b; measured time of the predicted best over the best, - 1
  double inside = 0;           // share of measurements inside the interval
  std::string machine;
};
/// Of one class of validation.cpp: its figures as measured on these points.
struct ClassErrors {
  std::string on;
  int points = 0, pairs = 0;
  double low = 0, high = 0;                                       // of measured / predicted
  double near_low = 0, near_high = 0, far_low = 0, far_high = 0;  // of ratios in a shape, see ErrorClass
};
std::vector<ClassErrors> class_errors(const std::vector<Point>& points, const std::vector<Answer>& answers);

std::vector<Score> score(const std::vector<Point>& points, const std::vector<Answer>& answers);

}  // namespace fp4lab::model
