# A newcomer site's path, etc/newcomer.md, from the first package to the last line taken out, on a real Slurm in the root that has nothing
# of Espalier. Run by tests/packages/run, as packages.bats is.
# each: 900

setup_file() { . "$CHECKOUT/tests/packages/packages.bash"; before; }
setup() { . "$CHECKOUT/tests/packages/packages.bash"; }

@test "install, configure, watch, switch on, first user, upgrade under a job, remove: nothing is left" {
  install_all "$PACKAGES"
  folder=/root/newcomer # a box has a /tmp of its own
  mkdir -p "$folder"
  cp /etc/espalier/espalier.toml "$folder/"
  # Without a build of the checkout: all is the packages'.
  BUILD=/none "$CHECKOUT/tests/cluster/box.sh" -p -n 2 -g 2 -k "$folder/logs" "$CHECKOUT/tests/packages/newcomer.sh" "$folder" 2 3>&- & box=$!
  for act in upgrade remove; do
    until [ -e "$folder/$act" ]; do
      [ -d "/proc/$box" ] || { wait "$box"; false; }
      sleep 0.2
    done
    case $act in
      upgrade) install_all "$NEWER"; touch "$folder/upgraded" ;;
      remove) dpkg -P libespalier-worker-dev libespalier-worker0 espalier-slurm-plugins espalierd espalier; touch "$folder/purged" ;;
    esac
  done
  wait "$box"
  nothing_is_left
}
