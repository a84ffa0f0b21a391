#pragma once

#include <string>
#include <vector>

namespace parplan::tools {

/// A small SVG chart of one or more lines, or dots where `dots`, over a common x axis.
struct Curve {
  std::string name;
  std::string css;  ///< class that carries the colour
  std::vector<double> x;
  std::vector<double> y;
  bool dots = false;
};

struct CurveAxes {
  std::string x_title;
  std::string y_title;
  bool from_zero = false;  ///< y axis starts at 0 instead of the smallest value
};

/// Non-finite points are left out. Empty text when no point is left.
std::string curves_svg(const std::vector<Curve>& curves, const CurveAxes& axes);

/// Areas on top of each other; a value holds from its x to the next one, the last up to `x_end`.
struct Stack {
  std::string title;
  std::vector<double> x;                    ///< ascending
  std::vector<std::string> css;             ///< by layer, lowest first
  std::vector<std::vector<double>> layers;  ///< by layer and point
};
std::string stack_svg(const Stack& stack, double x_end, double y_top, const CurveAxes& axes);

}  // namespace parplan::tools
