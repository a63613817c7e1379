// Text in JSON (RFC 8259), read strictly and written so that people can read it too.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace haloconv::tuning {

// One value. Objects are sorted by name, so that equal values are equal texts.
struct Json {
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  std::variant<std::nullptr_t, bool, double, std::string, Array, Object> value;

  // The value as that type, or a std::runtime_error that names what was expected: "an object".
  const std::string& string() const;
  double number() const;
  const Array& array() const;
  const Object& object() const;
  // A member of an object; an error if there is none of that name.
  const Json& at(std::string_view name) const;
};

// Raises std::runtime_error, with line and column, if the text is anything but one value, and also
// if a name comes twice in an object, a string is not UTF-8, a number is too large for a double, or
// values are nested more than 64 deep.
Json parse_json(std::string_view text);

// Indented by two spaces, a line for each member. Numbers must be finite.
std::string to_text(const Json& json);

}  // namespace haloconv::tuning
