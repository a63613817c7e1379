// JSON read strictly, and written so that it reads back.
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "registration/tuning/json.h"

namespace haloconv::tuning {
namespace {

// What parse_json says of a text; "" where it takes it.
std::string error_of(std::string_view text) {
  try {
    parse_json(text);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(TuningJson, ReadsEachKindOfValue) {
  EXPECT_EQ(parse_json("\"text\"").string(), "text");
  EXPECT_EQ(parse_json(" -12.5e+1\n").number(), -125);
  EXPECT_TRUE(std::get<bool>(parse_json("true").value));
  EXPECT_FALSE(std::get<bool>(parse_json("false").value));
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(parse_json("null").value));
  const Json json = parse_json(R"({"a": [1, {"b": []}], "c": {}})");
  EXPECT_EQ(json.at("a").array().size(), 2);
  EXPECT_TRUE(json.at("a").array()[1].at("b").array().empty());
  EXPECT_TRUE(json.at("c").object().empty());
}

TEST(TuningJson, ReadsEscapes) {
  EXPECT_EQ(parse_json(R"("\"\\\/\b\f\n\r\t")").string(), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(parse_json(R"("\u0041\u00e9\u20AC\ud83d\ude00")").string(), "A\u00e9\u20ac\U0001f600");
  EXPECT_EQ(parse_json(R"("a\u0000b")").string(), std::string("a\0b", 3));
}

TEST(TuningJson, TakesNothingElse) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "[1",
                           "[1,",
                           "[1,]",
                           "[1 2]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{1:1}",
                           "\"",
                           "\"a",
                           "\"\\",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "'a'",
                           "01",
                           "+1",
                           "-",
                           ".5",
                           "1.",
                           "1e",
                           "1e999",
                           "nan",
                           "Infinity",
                           "nul",
                           "truex",
                           "1 1",
                           "{} {}",
                           "[1]]",
                           "// no\n1",
                           "\"a\nb\"",
                           "\xef\xbb\xbf{}"}) {
    EXPECT_NE(error_of(text), "") << text;
  }
}

TEST(TuningJson, TakesUtf8Only) {
  for (const char* text : {"\"\u00e9\"", "\"\u20ac\"", "\"\U0001f600\"", "\"\U0010ffff\""}) {
    EXPECT_EQ(error_of(text), "") << text;
  }
  // A byte that follows nothing, one that nothing follows, longer forms than needed, a surrogate,
  // more than Unicode has.
  for (const char* text :
       {"\"\x80\"", "\"\xc3\"", "\"\xe2\x82\"", "\"\xc0\xaf\"", "\"\xe0\x80\xaf\"",
        "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xf0\x80\x80\xaf\"", "\"\xff\""}) {
    EXPECT_NE(error_of(text), "") << text;
  }
}

TEST(TuningJson, SaysWhere) {
  EXPECT_EQ(error_of("{\"a\": 1,\n \"b\": x}"), "line 2, column 7: expected a value");
  EXPECT_EQ(error_of("[1 2]"), "line 1, column 4: expected ]");
  EXPECT_NE(error_of("{\"a\": 1, \"a\": 2}").find("\"a\" comes twice"), std::string::npos);
}

TEST(TuningJson, BoundsTheDepth) {
  EXPECT_EQ(error_of(std::string(60, '[') + std::string(60, ']')), "");
  EXPECT_NE(error_of(std::string(100000, '[')).find("too deep"), std::string::npos);
}

TEST(TuningJson, SaysWhatWasExpected) {
  const Json json = parse_json("{\"a\": 1}");
  EXPECT_THROW(json.string(), std::runtime_error);
  EXPECT_THROW(json.array(), std::runtime_error);
  EXPECT_THROW(json.at("a").object(), std::runtime_error);
  try {
    json.at("b");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "expected an object with \"b\"");
  }
}

TEST(TuningJson, WritesWhatPeopleCanRead) {
  const Json json = {Json::Object{{"name", {"a\"b\\c\n"}},
                                  {"list", {Json::Array{{1.5}, {true}, {nullptr}}}},
                                  {"none", {Json::Array{}}}}};
  EXPECT_EQ(to_text(json), R"({
  "list": [
    1.5,
    true,
    null
  ],
  "name": "a\"b\\c\u000a",
  "none": []
}
)");
}

TEST(TuningJson, ReadsWhatItWrote) {
  std::string every_byte = "\u00e9\u20ac\U0001f600";
  for (char c = 0x7f; c >= 0; --c) every_byte += c;
  EXPECT_EQ(parse_json(to_text({every_byte})).string(), every_byte);
  for (const double number : {0.0, -1.0, 0.1, 1e-300, 1e300, 1.0 / 3}) {
    EXPECT_EQ(parse_json(to_text({number})).number(), number);
  }
  EXPECT_THROW(to_text({std::numeric_limits<double>::infinity()}), std::logic_error);
}

// Whatever byte is changed or missing, it is read or refused, by one kind of error.
TEST(TuningJson, SurvivesAnyChange) {
  const std::string text = "{\"a\": [1.5e3, \"\\u00e9\u20ac\"], \"b\": null}";
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_NE(error_of(text.substr(0, i)), "");
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = text;
      changed[i] = static_cast<char>(byte);
      error_of(changed);
    }
  }
}

}  // namespace
}  // namespace haloconv::tuning
