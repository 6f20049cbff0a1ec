#include "spank/elastic_option.h"

#include <doctest/doctest.h>

#include <string>

#include "spank/multi_prog.h"

namespace {

struct Parsed {
  int status = 0;
  espalier_elastic value{};
  std::string why;
};

Parsed parse(const char* text) {
  Parsed parsed;
  parsed.value = {-7, -7, -7, -7, "untouched", -7, -7, "untouched", -7, "untouched"};
  char why[ESPALIER_MESSAGE_MAX] = "";
  parsed.status = espalier_elastic_parse(text, &parsed.value, why, sizeof(why));
  parsed.why = why;
  return parsed;
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("an --elastic without an argument takes every default, however Slurm spells the absence") {
  for (const char* text : {static_cast<const char*>(nullptr), "", "(null)"}) {
    const auto parsed = parse(text);
    CHECK(parsed.status == 0);
    CHECK(parsed.value.min == 0);
    CHECK(parsed.value.max == 0);
    CHECK(parsed.value.accuracy_given == 0);
    CHECK(parsed.value.relaxed == 0);
    CHECK(std::string(parsed.value.deadline).empty());
  }
}

TEST_CASE("MIN:MAX is read, and either side may be left to its default") {
  CHECK(parse("2:8").value.min == 2);
  CHECK(parse("2:8").value.max == 8);
  CHECK(parse("4:4").status == 0);
  CHECK(parse("2:").value.min == 2);
  CHECK(parse("2:").value.max == 0);
  CHECK(parse(":8").value.min == 0);
  CHECK(parse(":8").value.max == 8);
}

TEST_CASE("keys follow MIN:MAX, or stand alone") {
  CHECK(parse("2:8,accuracy=relaxed").value.relaxed == 1);
  CHECK(parse("2:8,accuracy=bitwise").value.relaxed == 0);
  CHECK(parse("accuracy=relaxed").value.relaxed == 1);
  CHECK(parse("2:8").value.accuracy_given == 0);
  CHECK(parse("2:8,accuracy=bitwise").value.accuracy_given == 1);
  CHECK(parse("2:8,accuracy=relaxed").value.accuracy_given == 1);
  const auto both = parse("2:8,deadline=2030-02-28T12:30,accuracy=relaxed");
  CHECK(both.status == 0);
  CHECK(both.value.relaxed == 1);
  CHECK(std::string(both.value.deadline) == "2030-02-28T12:30:00");
  CHECK(std::string(parse("deadline=2030-12-31").value.deadline) == "2030-12-31T00:00:00");
  CHECK(std::string(parse("deadline=2028-02-29T23:59:59").value.deadline) == "2028-02-29T23:59:59");
}

TEST_CASE("each bad value is refused with its own text in the message, and nothing is changed") {
  for (const char* text : {"8:4",
                           "abc",
                           "0",
                           "4",
                           "-1:4",
                           "4:-1",
                           "0:4",
                           "4:0",
                           "1.5:4",
                           " 2:8",
                           "2:8 ",
                           "2:8:9",
                           "0x2:8",
                           "2,8",
                           "2:8,",
                           ",",
                           ",2:8",
                           "2:8,,accuracy=bitwise",
                           "2:8,foo=1",
                           "2:8,=",
                           "=",
                           "2:8,accuracy=",
                           "2:8,accuracy=Bitwise",
                           "2:8,accuracy=relaxedx",
                           "2:8,deadline=",
                           "2:8,deadline=tomorrow",
                           "2:8,deadline=2030-13-01",
                           "2:8,deadline=2030-00-01",
                           "2:8,deadline=2030-02-30",
                           "2:8,deadline=2030-01-01T24:00",
                           "2:8,deadline=2030-01-01T10:60",
                           "2:8,deadline=2030-01-01T10:00:60",
                           "2:8,deadline=1999-01-01",
                           "2:8,deadline=2030-01-01 10:00",
                           "99999999999999999999:4",
                           "1000001:1000001",
                           "accuracy=relaxed,2:8"}) {
    CAPTURE(text);
    const auto parsed = parse(text);
    CHECK(parsed.status == -1);
    CHECK(parsed.why.starts_with("espalier: elastic: \""));
    CHECK(contains(parsed.why, text));
    CHECK(contains(parsed.why, "; "));
    CHECK(parsed.value.min == -7);
    CHECK(std::string(parsed.value.deadline) == "untouched");
  }
}

TEST_CASE("a hostile value cannot put control characters or endless text into a message") {
  const auto control = parse("2:8\x1b[31m\n\"");
  CHECK(control.status == -1);
  CHECK(contains(control.why, "2:8?[31m??"));
  const auto endless = parse(std::string(100000, '9').c_str());
  CHECK(endless.status == -1);
  CHECK(endless.why.size() < ESPALIER_MESSAGE_MAX);
  CHECK(contains(endless.why, "...\": too long"));
}

TEST_CASE("a message is cut, never overrun, by a small buffer") {
  char why[8];
  espalier_elastic e{};
  CHECK(espalier_elastic_parse("8:4", &e, why, sizeof(why)) == -1);
  CHECK(std::string(why) == "espalie");
}

TEST_CASE("the site's limit bounds MIN and MAX") {
  char why[ESPALIER_MESSAGE_MAX];
  const auto check = [&why](const char* text, int site_max) {
    const auto parsed = parse(text);
    return espalier_elastic_fits_site(text, &parsed.value, site_max, why, sizeof(why));
  };
  CHECK(check("2:8", 8) == 0);
  CHECK(check("2:8", 0) == 0);
  CHECK(check("", 1) == 0);
  CHECK(check("2:9", 8) == -1);
  CHECK(contains(why, "9 GPUs are above this site's limit of 8"));
  CHECK(check("9:", 8) == -1);
}

TEST_CASE("the request bounds MIN from above and MAX from below") {
  char why[ESPALIER_MESSAGE_MAX];
  const auto check = [&why](const char* text, long gpus) {
    const auto parsed = parse(text);
    return espalier_elastic_fits_request(text, &parsed.value, gpus, why, sizeof(why));
  };
  CHECK(check("2:8", 2) == 0);
  CHECK(check("2:8", 8) == 0);
  CHECK(check("", 3) == 0);
  CHECK(check("2:8", 0) == -1);
  CHECK(contains(why, "no GPUs requested"));
  CHECK(check("4:8", 1) == -1);
  CHECK(contains(why, "MIN is 4, but the job requests 1 GPU;"));
  CHECK(check("2:8", 9) == -1);
  CHECK(contains(why, "MAX is 8, but the job requests 9 GPUs;"));
}

TEST_CASE("a --multi-prog step is told from others by its argument") {
  CHECK(espalier_is_multi_prog("0 master\n1-3 worker %t\n"));
  CHECK(espalier_is_multi_prog("# who does what\n\n  *\tworker\n"));
  for (const char* other : {"", "42", "1 2", "0 master\nworker\n", "0 master\n1", "0\n", "0 \n", "# only a comment\n",
                            "\n", "-c", "first line\nsecond line\n"}) {
    CAPTURE(other);
    CHECK_FALSE(espalier_is_multi_prog(other));
  }
  CHECK_FALSE(espalier_is_multi_prog(nullptr));
}

TEST_CASE("movable stands behind MIN:MAX, alone or with the GPU types that the job may run on") {
  const auto plain = parse("2:8,movable");
  CHECK(plain.status == 0);
  CHECK(plain.value.movable == 1);
  CHECK(std::string(plain.value.types).empty());
  const auto typed = parse("2:8,accuracy=relaxed,movable,types=h100+a100-80.sxm_4");
  CHECK(typed.status == 0);
  CHECK(typed.value.relaxed == 1);
  CHECK(std::string(typed.value.types) == "h100+a100-80.sxm_4");
  CHECK(parse("2:8,types=h100,movable").status == 0);
  CHECK(parse("4:,movable").status == 0);
  CHECK(parse("2:8").value.movable == 0);
}

TEST_CASE("time= of a movable job is read in each of Slurm's forms, in minutes") {
  const auto minutes = [](const char* time) {
    const auto parsed = parse((std::string("2:8,movable,time=") + time).c_str());
    CAPTURE(time);
    CHECK(parsed.status == 0);
    return parsed.value.minutes;
  };
  CHECK(parse("2:8,movable").value.minutes == 0);
  CHECK(minutes("90") == 90);
  CHECK(minutes("90:00") == 90);
  CHECK(minutes("0:01") == 1);  // no shorter than what was asked for
  CHECK(minutes("1:30:00") == 90);
  CHECK(minutes("1:30:30") == 91);
  CHECK(minutes("2-12") == 60 * 60);
  CHECK(minutes("2-12:05") == 60 * 60 + 5);
  CHECK(minutes("2-12:05:01") == 60 * 60 + 6);
  CHECK(minutes("36500-0") == 36500 * 1440L);
}

TEST_CASE("each wrong time= has its own message") {
  for (const char* time : {"", "-", "x", "1:", ":1", "1:2:3:4", "1-", "-1", "1-2:3:4:5", "1:2:x", "36501-0", "1.5",
                           "UNLIMITED", "99999999999999999999"}) {
    CAPTURE(time);
    const auto parsed = parse((std::string("2:8,movable,time=") + time).c_str());
    CHECK(parsed.status == -1);
    CHECK(contains(parsed.why, "the time is not one of Slurm's"));
    CHECK(parsed.value.minutes == -7);
  }
  CHECK(contains(parse("2:8,movable,time=0").why, "the time is 0"));
  CHECK(contains(parse("2:8,movable,time=0-0:0:0").why, "the time is 0"));
  CHECK(contains(parse("2:8,time=90").why, "time is for movable jobs"));
}

TEST_CASE("each wrong use of movable and types has its own message") {
  CHECK(contains(parse("movable").why, "not MIN:MAX"));
  CHECK(contains(parse(":8,movable").why, "a movable job needs MIN"));
  CHECK(contains(parse("2:8,types=h100").why, "types is for movable jobs"));
  CHECK(contains(parse("2:8,moveable").why, "neither key=value nor movable"));
  CHECK(contains(parse("2:8,movable=1").why, "unknown key"));
  for (const char* text : {"2:8,movable,types=+h100", "2:8,movable,types=h100+", "2:8,movable,types=h100++a100",
                           "2:8,movable,types=h 100", "2:8,movable,types=h100;rm"}) {
    CAPTURE(text);
    CHECK(parse(text).status == -1);
    CHECK(contains(parse(text).why, "types is not TYPE+TYPE"));
    CHECK(parse(text).value.movable == -7);
  }
  CHECK(contains(parse("2:8,movable,types=").why, "types is empty"));
  CHECK(contains(parse(("2:8,movable,types=" + std::string(70, 'a')).c_str()).why, "types is empty or too long"));
}

TEST_CASE("node_setup= is an absolute path, of movable jobs and of others") {
  CHECK(std::string(parse("2:8,node_setup=/opt/site/prepare.sh").value.node_setup) == "/opt/site/prepare.sh");
  CHECK(std::string(parse("2:8,movable,node_setup=/a=b").value.node_setup) == "/a=b");
  CHECK(std::string(parse("2:8").value.node_setup).empty());
  for (const char* text : {"2:8,node_setup=prepare.sh", "2:8,node_setup=./prepare.sh"}) {
    CAPTURE(text);
    CHECK(contains(parse(text).why, "node_setup is not an absolute path"));
  }
  for (const char* text :
       {"2:8,node_setup=/a b", "2:8,node_setup=/a\nb", "2:8,node_setup=/a\"b", "2:8,node_setup=/\xc3\xa4"}) {
    CAPTURE(text);
    CHECK(contains(parse(text).why, "node_setup has a space, a quote or no printable character"));
  }
  CHECK(contains(parse("2:8,node_setup=").why, "node_setup is empty or too long"));
  CHECK(parse(("2:8,node_setup=/" + std::string(254, 'a')).c_str()).status == 0);
  CHECK(contains(parse(("2:8,node_setup=/" + std::string(255, 'a')).c_str()).why, "node_setup is empty or too long"));
}

TEST_CASE("base= of a movable job is between MIN and MAX, and each wrong use has its own message") {
  CHECK(parse("1:8,movable,base=4").value.base == 4);
  CHECK(parse("4:4,base=4,movable").value.base == 4);
  CHECK(parse("2:,movable,base=6").value.base == 6);
  CHECK(parse("1:8,movable").value.base == 0);
  CHECK(contains(parse("1:8,base=4").why, "base is for movable jobs"));
  for (const char* text : {"1:8,movable,base=", "1:8,movable,base=0", "1:8,movable,base=-1", "1:8,movable,base=four",
                           "1:8,movable,base=1000001"}) {
    CAPTURE(text);
    CHECK(contains(parse(text).why, "base is not a number of GPUs from 1 up"));
  }
  CHECK(contains(parse("2:8,movable,base=1").why, "base is not between MIN and MAX"));
  CHECK(contains(parse("2:8,movable,base=9").why, "base is not between MIN and MAX"));
  const auto large = parse("2:,movable,base=9").value;
  char why[ESPALIER_MESSAGE_MAX] = "";
  CHECK(espalier_elastic_fits_site("2:,movable,base=9", &large, 8, why, sizeof(why)) == -1);
  CHECK(contains(why, "9 GPUs are above this site's limit of 8"));
}

TEST_CASE("a movable job that requests GPUs itself is refused, and one without GPUs is not") {
  const auto movable = parse("2:8,movable").value;
  char why[ESPALIER_MESSAGE_MAX] = "";
  CHECK(espalier_elastic_fits_request("2:8,movable", &movable, 0, why, sizeof(why)) == 0);
  CHECK(espalier_elastic_fits_request("2:8,movable", &movable, 2, why, sizeof(why)) == -1);
  CHECK(contains(why, "a movable job requests no GPUs itself, but this one requests 2"));
  CHECK(contains(why, "leave out --gres and --gpus"));
}
