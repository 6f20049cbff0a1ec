#!/bin/bash
# python.sh TREE: makes the unpacked torch wheel usable from Python without CUDA's libraries. TREE/bin/python runs the system's
# Python 3.11 with TREE's packages alone.
#
# The wheel's libraries are linked to two gigabytes of CUDA libraries of which the CPU part calls nothing, but the loader insists
# on finding each of them and its symbols. TREE/absent holds one small library under all their names, whose functions trap. Only
# TREE/bin/python looks there: programs that do use a GPU never load it.
set -euo pipefail
tree=$1
[ -e "$tree/torch/lib/libtorch_cpu.so" ] || { echo "espalier: deps: the torch wheel holds no libtorch_cpu.so; report this" >&2; exit 1; }
absent=$tree/absent
mkdir -p "$absent" "$tree/bin"
# "name@version" or "name" of every function that the wheel expects of them.
nm -D --undefined-only "$tree"/torch/lib/*.so | awk '$1 == "U" {print $2}' |
  grep -E '^(cu[A-Z]|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|nvshmem)' | grep -vE '@libcud?(art|pti)' | sort -u > "$absent/names"
awk -F@ '{print "void " $1 "(void); void " $1 "(void) { __builtin_trap(); }"}' "$absent/names" > "$absent/absent.c"
awk -F@ 'NF > 1 {of[$NF] = of[$NF] " " $1 ";"} END {for (version in of) print version " {" of[version] " };"}' "$absent/names" > "$absent/versions"
gcc -shared -fPIC -o "$absent/absent.so" "$absent/absent.c" -Wl,--version-script="$absent/versions"
rm "$absent/names" "$absent/absent.c" "$absent/versions"
readelf -d "$tree"/torch/lib/*.so | sed -n 's/.*NEEDED.*\[\(lib\(cu\|nccl\|nvshmem\)[^]]*\)\]/\1/p' | sort -u |
  while read -r name; do
    [ "$name" = libcuda.so.1 ] || [ -n "$(find "$tree/nvidia" -name "$name")" ] || ln -s absent.so "$absent/$name"
  done

cat > "$tree/bin/python" <<'END'
#!/bin/bash
# Made by Espalier's etc/deps/python.sh. PYTHON= names a Python 3.11 where the usual names have none.
tree=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
for python in ${PYTHON:+"$PYTHON"} python3 python3.11 /usr/bin/python3; do
  [ "$("$python" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null)" = '3 11' ] || continue
  export PYTHONPATH=$tree LD_LIBRARY_PATH=$tree/absent${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  exec "$python" -s "$@"
done
echo "espalier: python: the pinned torch is for Python 3.11, and there is none here; set PYTHON= to one" >&2
exit 127
END
chmod 755 "$tree/bin/python"
