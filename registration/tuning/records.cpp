#include "registration/tuning/records.h"

#include <sstream>
#include <utility>

#include "registration/tuning/json.h"

namespace haloconv::tuning {
namespace {

constexpr double kFormat = 1;

struct Field {
  const char* name;
  std::string Environment::* text;
};

constexpr Field kFields[] = {{"haloconv", &Environment::haloconv},
                             {"torch", &Environment::torch},
                             {"cuda_driver", &Environment::cuda_driver},
                             {"cuda_runtime", &Environment::cuda_runtime},
                             {"cudnn", &Environment::cudnn},
                             {"device", &Environment::device}};

Json json_of(const Record& record) {
  return {Json::Object{{"family", {record.family}}, {"plan", {record.plan}}, {"ms", {record.ms}}}};
}

Json json_of(const Environment& environment, const Records& records) {
  Json::Object object, results;
  for (const Field& field : kFields) object[field.name] = {environment.*field.text};
  for (const auto& [problem, record] : records) results[problem] = json_of(record);
  object["results"] = {std::move(results)};
  return {std::move(object)};
}

Record record_of(const Json& json) {
  return {.family = json.at("family").string(),
          .plan = json.at("plan").string(),
          .ms = json.at("ms").number()};
}

}  // namespace

std::vector<std::string> differences(const Environment& theirs, const Environment& ours) {
  std::vector<std::string> all;
  for (const Field& field : kFields) {
    const std::string &they = theirs.*field.text, &we = ours.*field.text;
    const bool no_device = field.text == &Environment::device && (they.empty() || we.empty());
    if (no_device || they == we) continue;
    all.push_back(std::string(field.name) + ' ' + they + " instead of " + we);
  }
  return all;
}

std::string to_text(const RecordsByEnvironment& records) {
  Json::Array environments;
  for (const auto& [environment, of_it] : records) {
    environments.push_back(json_of(environment, of_it));
  }
  return to_text(Json{Json::Object{{"haloconv_tuning_format", {kFormat}},
                                   {"environments", {std::move(environments)}}}});
}

RecordsByEnvironment parse_records(std::string_view text) {
  const Json json = parse_json(text);
  const double format = json.at("haloconv_tuning_format").number();
  if (format != kFormat) {
    std::ostringstream what;
    what << "its format is " << format << ", but this library's is " << kFormat;
    throw OtherFormat(what.str());
  }
  RecordsByEnvironment records;
  for (const Json& each : json.at("environments").array()) {
    Environment environment;
    for (const Field& field : kFields) environment.*field.text = each.at(field.name).string();
    Records& of_it = records[environment];
    for (const auto& [problem, record] : each.at("results").object()) {
      of_it[problem] = record_of(record);
    }
  }
  return records;
}

}  // namespace haloconv::tuning
