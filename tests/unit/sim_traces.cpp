// Trace formats: the rows that are read, the rows that are left out, and the messages about damaged
// rows.
#include <doctest/doctest.h>

#include <filesystem>

#include "planner/cli/simulate_trace_file.hpp"
#include "planner/sim/traces/rows.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;
using sim::TraceFormat;

namespace {

// The fault that is noted for the only row after `header`.
std::string damage(const std::string& header, const std::string& row, TraceFormat format) {
  const sim::Trace trace = sim::parse_trace(header + row + "\n", format);
  CHECK(trace.jobs.empty());
  REQUIRE(trace.damaged.size() == 1);
  CHECK(trace.damaged[0].line == (header.empty() ? 1 : 2));
  return trace.damaged[0].why;
}

std::string csv(const std::string& row) { return damage("id,submit,seconds,gpus\n", row, TraceFormat::csv); }
std::string sacct(const std::string& row) {
  return damage("JobID|Submit|Start|End|AllocTRES\n", row, TraceFormat::sacct);
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("steps of a training may stand in a trace, or be left open") {
    const sim::Trace trace =
        sim::parse_trace("id,submit,seconds,gpus,model,steps\na,1,2,1,m,300\nb,2,2,1,m,\n", TraceFormat::csv);
    REQUIRE(trace.jobs.size() == 2);
    CHECK(trace.jobs[0].steps == 300);
    CHECK(trace.jobs[1].steps == 0);
  }

  TEST_CASE("time limits are read where a trace has them") {
    const sim::Trace own =
        sim::parse_trace("id,submit,seconds,gpus,limit\na,1,2,1,60\nb,2,2,1,\nc,3,2,1,-1\n", TraceFormat::csv);
    REQUIRE(own.jobs.size() == 2);
    CHECK(own.jobs[0].limit == 60);
    CHECK(own.jobs[1].limit == 0);
    const auto limit_of = [](const std::string& text) {
      const sim::Trace trace = sim::parse_trace(
          "JobID|Submit|Start|End|AllocTRES|Timelimit\n1|2026-01-01T00:00:00|2026-01-01T00:00:00|"
          "2026-01-01T00:00:01|gres/gpu=1|" +
              text + "\n",
          TraceFormat::sacct);
      return trace.jobs.empty() ? -1.0 : trace.jobs[0].limit;
    };
    CHECK(limit_of("02:30:05") == 9005);
    CHECK(limit_of("2-00:00:00") == 172800);
    CHECK(limit_of("UNLIMITED") == 0);
    CHECK(limit_of("") == 0);
    CHECK(limit_of("soon") == -1);
    CHECK(limit_of("1:2") == -1);
  }

  TEST_CASE("a plain CSV is read, and sorted by submission") {
    const std::string text =
        "id,submit,seconds,gpus,model\r\nb,20,5.5,8,gpt2-15b\r\n\r\na,2026-01-01 00:00:01,7,1,\r\nc,3,1,0,\r\n";
    CHECK(sim::detect_trace_format(text) == TraceFormat::csv);
    const sim::Trace trace = sim::parse_trace(text, TraceFormat::csv);
    REQUIRE(trace.jobs.size() == 2);
    CHECK(trace.jobs[0].id == "b");
    CHECK(trace.jobs[0].submit == 20);
    CHECK(trace.jobs[0].seconds == 5.5);
    CHECK(trace.jobs[0].gpus == 8);
    CHECK(trace.jobs[0].model == "gpt2-15b");
    CHECK(trace.jobs[0].line == 2);
    CHECK(trace.jobs[1].submit == 1767225601);
    CHECK(trace.left_out == 1);
    CHECK(trace.damaged.empty());
  }

  TEST_CASE("each damaged row of a plain CSV is told by line and reason") {
    CHECK(damage("id,submit,seconds,gpus,steps\n", "a,1,2,1,0", TraceFormat::csv) == "steps \"0\" is not above zero");
    CHECK(damage("id,submit,seconds,gpus,steps\n", "a,1,2,1,few", TraceFormat::csv) == "steps \"few\" is no number");
    CHECK(csv("a,1,2") == "3 columns instead of 4");
    CHECK(csv("a,soon,2,1") == "submit \"soon\" is no time");
    CHECK(csv("a,2026-13-01 00:00:00,2,1") == "submit \"2026-13-01 00:00:00\" is no time");
    CHECK(csv("a,1,x,1") == "seconds \"x\" is no number");
    CHECK(csv("a,1,,1") == "seconds \"\" is no number");
    CHECK(csv("a,1,inf,1") == "seconds \"inf\" is no number");
    CHECK(csv("a,1,0,1") == "seconds \"0\" is not above zero");
    CHECK(csv("a,1,-3,1") == "seconds \"-3\" is not above zero");
    CHECK(csv("a,1,2,1.5") == "gpus \"1.5\" is no count");
    CHECK(csv("a,1,2,-1") == "gpus \"-1\" is no count");
    CHECK(csv("a,1,2,99999999") == "gpus \"99999999\" is no count");
    CHECK(csv("\"a,1,2,1") == "its quotes are not closed, or stand inside a field");
    CHECK(csv("a\"b\",1,2,1") == "its quotes are not closed, or stand inside a field");
  }

  TEST_CASE("quoted fields may hold separators") {
    const sim::Trace trace = sim::parse_trace("id,submit,seconds,gpus\n\"a, \"\"b\"\"\",1,2,3\n", TraceFormat::csv);
    REQUIRE(trace.jobs.size() == 1);
    CHECK(trace.jobs[0].id == "a, \"b\"");
  }

  TEST_CASE("a text of another format is an error") {
    CHECK(error_of([] { sim::parse_trace("id,submit,gpus\n", TraceFormat::csv); }) ==
          "csv: the first line has no column \"seconds\"; name its format, or add the column");
    CHECK(error_of([] { sim::parse_trace("", TraceFormat::csv); }) ==
          "csv: the file is empty; it must name columns and jobs");
    CHECK(error_of([] { sim::parse_trace("\"id,submit\n", TraceFormat::csv); }) ==
          "csv: the first line cannot be read; it must name the columns");
    CHECK(error_of([] { sim::detect_trace_format("what,ever\n1,2\n"); }) ==
          "its first line is that of no known format of traces; name it by --format");
    CHECK(error_of([] { sim::trace_format("xls"); }) ==
          "\"xls\": no such format of traces; use one of csv, philly, philly-json, helios, pai, arena, sacct");
    CHECK(sim::trace_format("pai") == TraceFormat::pai);
  }

  TEST_CASE("Slurm's accounting: steps, CPU jobs and jobs that run still are left out") {
    const std::string text =
        "JobID|JobName|Submit|Start|End|AllocTRES|State\n"
        "7|a "
        "\"b|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|cpu=8,gres/gpu:h100=4,gres/gpu=4|COMPLETED\n"
        "7.batch|x|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|cpu=8|COMPLETED\n"
        "8|x|2026-01-01T00:00:00|2026-01-01T00:01:00|Unknown|gres/gpu=4|RUNNING\n"
        "9|x|2026-01-01T00:00:00|None|None||CANCELLED\n"
        "10|x|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|cpu=8|COMPLETED\n"
        "11|x|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:01:30|gres/gpu:a100=2,gres/gpu:h100=1|FAILED\n";
    CHECK(sim::detect_trace_format(text) == TraceFormat::sacct);
    const sim::Trace trace = sim::parse_trace(text, TraceFormat::sacct);
    CHECK(trace.damaged.empty());
    CHECK(trace.left_out == 4);
    REQUIRE(trace.jobs.size() == 2);
    CHECK(trace.jobs[0].id == "7");
    CHECK(trace.jobs[0].seconds == 3600);
    CHECK(trace.jobs[0].gpus == 4);
    CHECK(trace.jobs[1].gpus == 3);
    CHECK(trace.cluster_gpus == 0);
  }

  TEST_CASE("each damaged row of Slurm's accounting is told") {
    CHECK(sacct("|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:01|gres/gpu=1") == "JobID is empty");
    CHECK(sacct("1|x|2026-01-01T00:00:00|2026-01-01T00:00:01|gres/gpu=1") == "Submit \"x\" is no time");
    CHECK(sacct("1|2026-01-01T00:00:00|2026-01-01T00:00:02|2026-01-01T00:00:01|gres/gpu=1") ==
          "it ends before it starts");
    CHECK(sacct("1|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:01|gres/gpu=many") ==
          "AllocTRES \"gres/gpu=many\" has no count");
    CHECK(sacct("1|2026-01-01T00:00:00") == "2 columns instead of 5");
  }

  TEST_CASE("Philly, as in the artifact of Sia and as published") {
    const std::string table = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,2,132.0,11cb48\n";
    CHECK(sim::detect_trace_format(table) == TraceFormat::philly);
    const sim::Trace trace = sim::parse_trace(table, TraceFormat::philly);
    REQUIRE(trace.jobs.size() == 1);
    CHECK(trace.jobs[0].seconds == 66);
    CHECK(trace.jobs[0].id == "2");
    CHECK(trace.cluster_gpus == 2490);
    CHECK(damage("timestamp,duration,num_gpus\n", "2017-10-09,66,1", TraceFormat::philly) ==
          "timestamp \"2017-10-09\" is no time");
    const auto philly = [](const std::string& row) {
      return damage("timestamp,duration,num_gpus\n", row, TraceFormat::philly);
    };
    CHECK(philly("2017-10-09 07:01:55,0,1") == "duration \"0\" is not above zero");
    CHECK(philly("2017-10-09 07:01:55,x,1") == "duration \"x\" is no number");
    CHECK(philly("2017-10-09 07:01:55,66,1.5") == "num_gpus \"1.5\" is no count");
    CHECK(philly("2017-10-09 07:01:55,66") == "2 columns instead of 3");

    const std::string json = R"([
      {"jobid": "a", "submitted_time": "2017-10-09 07:00:00", "attempts": [
        {"start_time": "2017-10-09 07:10:00", "end_time": "2017-10-09 07:11:00",
         "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]},
        {"start_time": "2017-10-09 08:00:00", "end_time": "2017-10-09 08:00:30", "detail": [{"gpus": ["gpu0"]}]}]},
      {"jobid": "b", "submitted_time": "2017-10-09 07:00:00", "attempts": []},
      {"jobid": "c", "submitted_time": "2017-10-09 07:00:00", "attempts": [
        {"start_time": "2017-10-09 07:10:00", "end_time": null, "detail": []}]},
      {"jobid": "d", "submitted_time": "then", "attempts": []},
      {"jobid": "e"},
      {"jobid": "f", "submitted_time": "2017-10-09 07:00:00", "attempts": [
        {"start_time": "2017-10-09 07:10:00", "end_time": "2017-10-09 07:00:00", "detail": []}]}])";
    CHECK(sim::detect_trace_format(json) == TraceFormat::philly_json);
    const sim::Trace published = sim::parse_trace(json, TraceFormat::philly_json);
    REQUIRE(published.jobs.size() == 1);
    CHECK(published.jobs[0].gpus == 3);
    CHECK(published.jobs[0].seconds == 90);
    CHECK(published.left_out == 2);
    REQUIRE(published.damaged.size() == 3);
    CHECK(published.damaged[0].why == "submitted_time is no time");
    CHECK(published.damaged[1].line == 5);
    CHECK(published.damaged[1].why ==
          "jobid, submitted_time, attempts, start_time, end_time, detail or gpus is missing");
    CHECK(published.damaged[2].why == "an attempt's times are none");
    CHECK(error_of([] { sim::parse_trace("[{", TraceFormat::philly_json); }) ==
          "philly-json: the file is no JSON list of jobs; give cluster_job_log as published");
  }

  TEST_CASE("Helios as published") {
    const std::string header =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";
    const std::string text = header +
                             "1,u,v,8,16,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:01,2020-04-01 00:00:11,10,1\n"
                             "2,u,v,0,16,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:01,2020-04-01 00:00:11,10,1\n"
                             "3,u,v,1,16,1,CANCELLED,2020-04-01 00:00:00,2020-04-01 00:00:01,2020-04-01 00:00:01,0,1\n";
    CHECK(sim::detect_trace_format(text) == TraceFormat::helios);
    const sim::Trace trace = sim::parse_trace(text, TraceFormat::helios);
    REQUIRE(trace.jobs.size() == 1);
    CHECK(trace.jobs[0].gpus == 8);
    CHECK(trace.left_out == 2);
    CHECK(damage(header, "1,u,v,8,16,1,X,2020-04-01 00:00:00,,,-5,1", TraceFormat::helios) == "duration is below zero");
    CHECK(damage(header, "1,u,v,-8,16,1,X,2020-04-01 00:00:00,,,5,1", TraceFormat::helios) ==
          "gpu_num \"-8\" is no count");
    CHECK(damage(header, "1,u,v,8,16,1,X,then,,,5,1", TraceFormat::helios) == "submit_time \"then\" is no time");
    CHECK(damage(header, "1,u,v,8,16,1,X,2020-04-01 00:00:00,,,long,1", TraceFormat::helios) ==
          "duration \"long\" is no number");
  }

  TEST_CASE("PAI as published: no header, GPUs in hundredths") {
    const std::string text =
        "j1,worker,4,Terminated,100,160,600,29,50,V100\nj2,ps,1,Failed,100,160,600,29,,\nj3,worker,1,Running,100,,600,"
        "29,100,T4\n";
    CHECK(sim::detect_trace_format(text) == TraceFormat::pai);
    const sim::Trace trace = sim::parse_trace(text, TraceFormat::pai);
    REQUIRE(trace.jobs.size() == 1);
    CHECK(trace.jobs[0].gpus == 2);
    CHECK(trace.jobs[0].seconds == 60);
    CHECK(trace.jobs[0].id == "j1/worker");
    CHECK(trace.left_out == 2);
    CHECK(damage("", "j,w,1,T,100,60,1,1,100,V", TraceFormat::pai) == "it ends before it starts");
    CHECK(damage("", "j,w,1,T,100,160,1,1,much,V", TraceFormat::pai) == "plan_gpu \"much\" is no number");
    CHECK(damage("", "j,w,1,T,100", TraceFormat::pai) == "5 columns instead of 10");
    CHECK(damage("", "j,w,-1,T,100,160,1,1,100,V", TraceFormat::pai) == "inst_num x plan_gpu is no number of GPUs");
  }

  TEST_CASE("dates count from 1970, leap years included") {
    CHECK(sim::parse_time("1970-01-02 00:00:00") == 86400);
    CHECK(sim::parse_time("2020-02-29T12:00:00Z") == 1582977600);
    CHECK(sim::parse_time_or_date("2020-02-29") == 1582934400);
    CHECK(!sim::parse_time("2020-02-29"));
    CHECK(!sim::parse_time_or_date("2019-02-29"));
    CHECK(sim::parse_time("12.5") == 12.5);
    for (const char* wrong : {"", "2019-02-29 00:00:00", "2020-01-01 24:00:00", "2020-01-01 00:00:00x", "1e999", "now"})
      CHECK(!sim::parse_time(wrong));
  }

  TEST_CASE("the busiest window has most submissions, and is the first of equal ones") {
    sim::Trace trace;
    for (const double at : {0.0, 10.0, 100.0, 105.0, 109.0, 300.0, 305.0, 309.0})
      trace.jobs.push_back({at, 1, 1, {}, {}, 0});
    CHECK(sim::busiest_window(trace, 10) == 100);
    CHECK(sim::busiest_window(trace, 11) == 100);
    CHECK(sim::busiest_window(trace, 1) == 0);
    CHECK(sim::busiest_window({}, 10) == 0);
  }

  TEST_CASE("the public traces are read whole") {
    const std::string folder = "../shared/data/";
    if (!std::filesystem::exists(folder + "traces/philly.csv.gz")) {
      MESSAGE("skipped: no ../shared/data");
      return;
    }
    const auto read = [&](const std::string& name) {
      const std::string text = cli::read_maybe_gzipped(folder + name);
      return sim::parse_trace(text, sim::detect_trace_format(text));
    };
    const sim::Trace philly = read("traces/philly.csv.gz");
    CHECK(philly.jobs.size() + static_cast<std::size_t>(philly.left_out) == 82247);
    CHECK(philly.damaged.empty());
    const double from = sim::busiest_window(philly, 8 * 3600);
    CHECK(from == *sim::parse_time("2017-10-04 23:41:46"));
    long jobs = 0;
    double gpu_hours = 0;
    for (const sim::TraceJob& job : philly.jobs)
      if (job.submit >= from && job.submit < from + 8 * 3600) ++jobs, gpu_hours += job.seconds * job.gpus / 3600;
    CHECK(jobs == 2335);
    CHECK(gpu_hours == doctest::Approx(7244).epsilon(0.001));
    CHECK(read("arena/trace_pai.csv").jobs.size() == 125);
    CHECK(read("arena/trace_helios_venus.csv").jobs.size() == 438);
    CHECK(read("arena/trace_philly.csv").jobs.size() == 1938);
  }
}
