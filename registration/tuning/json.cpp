#include "registration/tuning/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace haloconv::tuning {
namespace {

template <class T>
const T& as(const Json& json, const char* what) {
  if (const T* const found = std::get_if<T>(&json.value)) return *found;
  throw std::runtime_error(std::string("expected ") + what);
}

// How many bytes from `text` on are one character of UTF-8; 0 if they are none. By Unicode's table
// 3-7 there is no longer form than needed, no surrogate, and nothing above U+10FFFF.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) -> uint8_t { return i < text.size() ? text[i] : 0; };
  const auto follows = [&](size_t i, uint8_t least = 0x80, uint8_t most = 0xbf) {
    return byte(i) >= least && byte(i) <= most;
  };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  if (lead < 0xe0) return follows(1) ? 2 : 0;
  if (lead < 0xf0) {
    const bool second = follows(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && follows(2) ? 3 : 0;
  }
  const bool second = follows(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
  return second && follows(2) && follows(3) ? 4 : 0;
}

void append_utf8(std::string& text, uint32_t point) {
  if (point < 0x80) {
    text += static_cast<char>(point);
    return;
  }
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;  // bytes after the first
  const uint32_t mark = 0xff00 >> (more + 1) & 0xff;             // 0xc0, 0xe0 or 0xf0
  text += static_cast<char>(mark | point >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (point >> (6 * i) & 0x3f));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json document() {
    Json json = value(0);
    skip_space();
    if (at_ != text_.size()) fail("expected the end");
    return json;
  }

 private:
  static constexpr int kMostDepth = 64;

  [[noreturn]] void fail(const std::string& what) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = at_ - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    throw std::runtime_error("line " + std::to_string(line) + ", column " + std::to_string(column) +
                             ": " + what);
  }

  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }

  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  void expect(const char* word) {
    if (!take(word)) fail(std::string("expected ") + word);
  }

  Json value(int depth) {
    if (depth > kMostDepth) fail("values lie too deep in each other");
    skip_space();
    switch (next()) {
      case '{':
        return {object(depth)};
      case '[':
        return {array(depth)};
      case '"':
        return {string()};
      default:
        if (take("null")) return {nullptr};
        if (take("true")) return {true};
        if (take("false")) return {false};
        return {number()};
    }
  }

  // The members between two brackets, each read by member().
  template <class Member>
  void members(const char* open, const char* close, const Member& member) {
    expect(open);
    skip_space();
    if (take(close)) return;
    do {
      member();
      skip_space();
    } while (take(","));
    expect(close);
  }

  Json::Object object(int depth) {
    Json::Object object;
    members("{", "}", [&] {
      skip_space();
      std::string name = string();
      if (object.contains(name)) fail("\"" + name + "\" comes twice");
      skip_space();
      expect(":");
      object.emplace(std::move(name), value(depth + 1));
    });
    return object;
  }

  Json::Array array(int depth) {
    Json::Array array;
    members("[", "]", [&] { array.push_back(value(depth + 1)); });
    return array;
  }

  std::string string() {
    expect("\"");
    std::string text;
    while (!take("\"")) {
      if (at_ == text_.size()) fail("expected the end of a string");
      if (take("\\")) {
        append_utf8(text, escaped());
        continue;
      }
      if (static_cast<uint8_t>(next()) < 0x20) fail("a string has a control character");
      const size_t length = utf8_length(text_.substr(at_));
      if (length == 0) fail("a string has bytes that are no UTF-8");
      text += text_.substr(at_, length);
      at_ += length;
    }
    return text;
  }

  // What follows a backslash.
  uint32_t escaped() {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const size_t name = next() == '\0' ? kNames.npos : kNames.find(next());
    if (name != kNames.npos) {
      ++at_;
      return kMeanings[name];
    }
    const uint32_t unit = utf16_unit();
    if (unit < 0xd800 || unit > 0xdfff) return unit;
    if (unit > 0xdbff || !take("\\")) fail("half of a surrogate pair");
    const uint32_t low = utf16_unit();
    if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
    return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
  }

  uint32_t utf16_unit() {
    uint32_t unit = 0;
    if (!take("u")) fail("expected an escaped character");
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), unit, 16);
    if (digits.size() < 4 || end != digits.end()) fail("expected four hexadecimal digits");
    at_ += 4;
    return unit;
  }

  void digits() {
    const size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    if (end == at_) fail("expected a value");
    at_ = end;
  }

  double number() {
    const size_t begin = at_;
    take("-");
    if (!take("0")) digits();
    if (take(".")) digits();
    if (take("e") || take("E")) {
      if (!take("+")) take("-");
      digits();
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + at_, value);
    if (error != std::errc()) fail("a number is out of range");
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

void print(const std::string& string, std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  text += '"';
  for (const char c : string) {
    const uint8_t byte = c;
    if (byte < 0x20) {
      text += "\\u00";
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  text += '"';
}

void print(double number, std::string& text) {
  if (!std::isfinite(number)) throw std::logic_error("JSON has no number that is not finite");
  char digits[32];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), number);
  text.append(digits, end);
}

void print(const Json& json, int depth, std::string& text);

// Members, each printed by member(), on lines of their own.
template <class Members, class Member>
void print(const Members& members, const char* brackets, int depth, std::string& text,
           const Member& member) {
  text += brackets[0];
  const char* separator = "\n";
  for (const auto& each : members) {
    text += separator;
    text.append(2 * (depth + 1), ' ');
    member(each);
    separator = ",\n";
  }
  if (!members.empty()) text.append("\n").append(2 * depth, ' ');
  text += brackets[1];
}

struct Printer {
  int depth;
  std::string& text;

  void operator()(std::nullptr_t) const { text += "null"; }
  void operator()(bool value) const { text += value ? "true" : "false"; }
  void operator()(double value) const { print(value, text); }
  void operator()(const std::string& value) const { print(value, text); }
  void operator()(const Json::Array& array) const {
    print(array, "[]", depth, text, [&](const Json& each) { print(each, depth + 1, text); });
  }
  void operator()(const Json::Object& object) const {
    print(object, "{}", depth, text, [&](const auto& each) {
      print(each.first, text);
      text += ": ";
      print(each.second, depth + 1, text);
    });
  }
};

void print(const Json& json, int depth, std::string& text) {
  std::visit(Printer{depth, text}, json.value);
}

}  // namespace

const std::string& Json::string() const { return as<std::string>(*this, "a string"); }
double Json::number() const { return as<double>(*this, "a number"); }
const Json::Array& Json::array() const { return as<Array>(*this, "an array"); }
const Json::Object& Json::object() const { return as<Object>(*this, "an object"); }

const Json& Json::at(std::string_view name) const {
  const auto found = object().find(name);
  if (found == object().end()) {
    throw std::runtime_error("expected an object with \"" + std::string(name) + '"');
  }
  return found->second;
}

Json parse_json(std::string_view text) { return Parser(text).document(); }

std::string to_text(const Json& json) {
  std::string text;
  print(json, 0, text);
  text += '\n';
  return text;
}

}  // namespace haloconv::tuning
