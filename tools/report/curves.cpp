#include "tools/report/curves.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tools/report/markup.hpp"

namespace parplan::tools {
namespace {

constexpr double kCurveWidth = 560.0;
constexpr double kHeight = 220.0;
constexpr double kLeft = 58.0;
constexpr double kRight = 10.0;
constexpr double kTop = 12.0;
constexpr double kBottom = 36.0;

struct Frame {
  double x_low = 0.0, x_high = 1.0, y_low = 0.0, y_high = 1.0;

  double x(double value) const {
    return kLeft + (value - x_low) / (x_high - x_low) * (kCurveWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (value - y_low) / (y_high - y_low) * (kHeight - kTop - kBottom);
  }
};

std::string tick_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string frame_markup(const Frame& frame, const CurveAxes& axes) {
  std::string out;
  for (const double tick : nice_ticks(frame.y_low, frame.y_high, 4)) {
    const std::string y = number_text(frame.y(tick));
    out += "<line class=\"grid\" x1=\"" + number_text(kLeft) + "\" x2=\"" +
           number_text(kCurveWidth - kRight) + "\" y1=\"" + y + "\" y2=\"" + y +
           "\"></line><text x=\"" + number_text(kLeft - 6) + "\" y=\"" + y +
           "\" text-anchor=\"end\" dominant-baseline=\"middle\">" + tick_text(tick) + "</text>";
  }
  for (const double tick : nice_ticks(frame.x_low, frame.x_high, 6)) {
    out += "<text x=\"" + number_text(frame.x(tick)) + "\" y=\"" +
           number_text(kHeight - kBottom + 14) + "\" text-anchor=\"middle\">" + tick_text(tick) +
           "</text>";
  }
  out += "<text x=\"" + number_text((kLeft + kCurveWidth - kRight) / 2) + "\" y=\"" +
         number_text(kHeight - 5) + "\" text-anchor=\"middle\">" + escaped(axes.x_title) +
         "</text><text x=\"12\" y=\"" + number_text((kTop + kHeight - kBottom) / 2) +
         "\" text-anchor=\"middle\" transform=\"rotate(-90 12 " +
         number_text((kTop + kHeight - kBottom) / 2) + ")\">" + escaped(axes.y_title) + "</text>";
  return out;
}

std::string svg_open(const std::string& label) {
  return "<svg class=\"curves\" viewBox=\"0 0 " + number_text(kCurveWidth) + " " +
         number_text(kHeight) + "\" role=\"img\" aria-label=\"" + escaped(label) + "\">";
}

std::string curve_markup(const Curve& curve, const Frame& frame) {
  std::string path, out;
  for (std::size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i) {
    if (!std::isfinite(curve.x[i]) || !std::isfinite(curve.y[i])) continue;
    const std::string x = number_text(frame.x(curve.x[i]));
    const std::string y = number_text(frame.y(curve.y[i]));
    if (curve.dots) {
      out +=
          "<circle class=\"" + curve.css + "\" cx=\"" + x + "\" cy=\"" + y + "\" r=\"3\"></circle>";
    } else {
      path += (path.empty() ? "M" : "L") + x + " " + y;
    }
  }
  if (!path.empty()) out += "<path class=\"" + curve.css + "\" d=\"" + path + "\"></path>";
  return out;
}

}  // namespace

std::string curves_svg(const std::vector<Curve>& curves, const CurveAxes& axes) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  Frame frame{kNone, -kNone, kNone, -kNone};
  for (const Curve& curve : curves) {
    for (std::size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i) {
      if (!std::isfinite(curve.x[i]) || !std::isfinite(curve.y[i])) continue;
      frame.x_low = std::min(frame.x_low, curve.x[i]);
      frame.x_high = std::max(frame.x_high, curve.x[i]);
      frame.y_low = std::min(frame.y_low, curve.y[i]);
      frame.y_high = std::max(frame.y_high, curve.y[i]);
    }
  }
  if (!(frame.x_low <= frame.x_high)) return {};
  if (axes.from_zero) frame.y_low = std::min(0.0, frame.y_low);
  if (frame.x_high == frame.x_low) frame.x_high = frame.x_low + 1.0;
  // Room above, and below unless zero is the floor.
  const double room = frame.y_high > frame.y_low ? 0.08 * (frame.y_high - frame.y_low)
                                                 : std::abs(frame.y_low) + 1.0;
  frame.y_high += room;
  if (!axes.from_zero) frame.y_low -= room;
  std::string out = svg_open(axes.y_title) + frame_markup(frame, axes);
  for (const Curve& curve : curves) out += curve_markup(curve, frame);
  return out + "</svg>\n";
}

std::string stack_svg(const Stack& stack, double x_end, double y_top, const CurveAxes& axes) {
  const Frame frame{0.0, std::max(x_end, 1e-12), 0.0, std::max(y_top, 1e-12)};
  std::string out = svg_open(stack.title) + frame_markup(frame, axes);
  std::vector<double> floor(stack.x.size(), 0.0);
  for (std::size_t k = 0; k < stack.layers.size(); ++k) {
    std::string up, down;
    for (std::size_t i = 0; i < stack.x.size(); ++i) {
      const double until = i + 1 < stack.x.size() ? stack.x[i + 1] : x_end;
      const std::string from_x = number_text(frame.x(stack.x[i]));
      const std::string to_x = number_text(frame.x(std::max(until, stack.x[i])));
      const std::string low = number_text(frame.y(floor[i]));
      floor[i] += stack.layers[k][i];
      const std::string high = number_text(frame.y(floor[i]));
      up += (up.empty() ? "M" : "L") + from_x + " " + high + "L" + to_x + " " + high;
      down = "L" + to_x + " " + low + "L" + from_x + " " + low + down;
    }
    if (!up.empty()) {
      out += "<path class=\"" + stack.css[k] + "\" d=\"" + up + down + "Z\"></path>";
    }
  }
  return out + "</svg>\n";
}

}  // namespace parplan::tools
