# What no test may say: bash passes over it when it fails, so that the test could not fail there.

repository=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

@test "no test demands something by '! command' or by '[ a ] && [ b ]', whose failures bash passes over" {
  local wrong
  # A line that goes on with || says what it does otherwise.
  wrong=$(cd "$repository" && grep -rnE --include='*.bats' '^ +(! [a-z"$]|\[\[? .*\]\]? && \[)' tests | grep -v '||' || true)
  echo "$wrong"
  [ -z "$wrong" ]
}
