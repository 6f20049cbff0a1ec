# make install puts everything in place, make uninstall takes all of it away again.
# limit: 300

setup() { cd "$BATS_TEST_DIRNAME/../.." || return 1; target=$BATS_TEST_TMPDIR/root; }
in_place() { make --no-print-directory "$1" BUILD="$BUILD" TORCH_HOME="$TORCH_HOME" DESTDIR="$target" PREFIX="$2"; }

@test "install honours DESTDIR and PREFIX, and every kind of file is there" {
  in_place install /opt/espalier
  for file in bin/espalier bin/espalier-launch bin/espalier-ranks bin/espalier-toy bin/espalier-train sbin/espalierd sbin/espalier-report \
    lib/slurm/espalier.so lib/slurm/job_submit_espalier.so lib/systemd/system/espalierd.service \
    lib/libespalier-worker.so.0 lib/libespalier-worker.so include/espalier/worker.h share/doc/espalier/examples/c/worker.c \
    lib/espalier/python/espalier/rendezvous.py lib/espalier/python/espalier-0.1.0.dist-info/entry_points.txt \
    share/man/man1/espalier.1 share/man/man5/espalier.toml.5 share/man/man7/espalier-security.7 share/man/man8/espalierd.8 share/doc/espalier/README.md share/doc/espalier/espalier-dashboard.json; do
    [ -e "$target/opt/espalier/$file" ] || { echo "$file is missing"; false; }
  done
  [ -x "$target/opt/espalier/sbin/espalierd" ]
  grep -q '^ExecStart=/opt/espalier/sbin/espalierd' "$target/opt/espalier/lib/systemd/system/espalierd.service"
  [ -z "$(grep -rl '@PREFIX@' "$target")" ]
}

@test "installed programs know their version and help" {
  in_place install /usr
  for program in bin/espalier bin/espalier-launch bin/espalier-ranks bin/espalier-toy bin/espalier-train sbin/espalierd sbin/espalier-report; do
    "$target/usr/$program" --version
    "$target/usr/$program" --help > /dev/null
  done
}

@test "uninstall leaves nothing" {
  in_place install /usr/local
  [ -n "$(find "$target" -type f)" ]
  in_place uninstall /usr/local
  [ -z "$(find "$target" ! -type d)" ]
}

@test "every installed command has a man page that formats without a warning" {
  for page in man/*.[1-9]; do
    run env MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z "$page"
    [ "$status" -eq 0 ]
  done
  [ -e man/espalier.1 ]
  [ -e man/espalier-launch.1 ]
  [ -e man/espalier-train.1 ]
  [ -e man/espalierd.8 ]
}

@test "the systemd unit takes from espalierd what it does not need" {
  make --no-print-directory "$BUILD/etc/espalierd.service" BUILD="$BUILD" PREFIX=/opt/espalier
  run systemd-analyze security --offline=true --threshold=20 "$BUILD/etc/espalierd.service"
  tail -n 1 <<< "$output"
  [ "$status" -eq 0 ] # an exposure of at most 2.0
}
