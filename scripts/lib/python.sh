# Finds a Python that Home Assistant accepts, and brings one where the machine has none.
#
# Sourced. Wants $state and $uv; knows nothing of the packages that are installed with it.

# A Python that uv downloads lies in the project, too.
export UV_PYTHON_INSTALL_DIR="$state/uv_python"

python_wanted='>=3.14.2,<3.15'
unpacked_python="$state/python/usr/bin/python3.14"

# Whether PYTHON runs, is new enough, and has the headers that packages are built with.
usable_python() {
  "$1" - 2>/dev/null <<'PYTHON'
import bz2, ctypes, lzma, pathlib, sqlite3, ssl, sys, sysconfig
header = pathlib.Path(sysconfig.get_path("include"), "Python.h")
sys.exit(not ((3, 14, 2) <= sys.version_info[:3] < (3, 15) and header.is_file()))
PYTHON
}

# Prints the first usable Python: unpacked here before, of the machine, or of uv.
find_python() {
  local candidate
  for candidate in "$unpacked_python" "$(command -v python3.14)" \
    "$("$uv" python find --system --no-python-downloads "$python_wanted" 2>/dev/null)"; do
    if [[ -n $candidate ]] && usable_python "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

# A machine that may download gets Python this way; elsewhere it fails within seconds.
install_python_with_uv() {
  UV_HTTP_RETRIES=1 timeout 300 "$uv" python install --no-bin "$python_wanted"
}

# Whether unpack_debian_python can work here: Debian, with its keys and an archive to ask.
debian_can_help() {
  [[ -r /etc/os-release ]] && grep -qx 'ID=debian' /etc/os-release \
    && command -v apt-get >/dev/null && [[ -n "$(debian_archives)" && -n "$(debian_keyring)" ]]
}

debian_keyring() {
  local keyring
  for keyring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
    [[ ! -r $keyring ]] || { printf '%s\n' "$keyring"; return; }
  done
}

# The archives that the machine's own sources name, each once; security archives hold no suite of their own.
debian_archives() {
  shopt -s nullglob
  local deb822=(/etc/apt/sources.list.d/*.sources) lines=(/etc/apt/sources.list.d/*.list)
  shopt -u nullglob
  [[ ! -r /etc/apt/sources.list ]] || lines+=(/etc/apt/sources.list)
  {
    sed -nE 's/^[[:space:]]*URIs:[[:space:]]*//p' "${deb822[@]}" /dev/null | tr -s '[:space:]' '\n'
    sed -nE 's/^[[:space:]]*deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+).*/\2/p' "${lines[@]}" /dev/null
  } | grep -v security | awk 'NF && !seen[$0]++' || true
}

# What Python 3.14 needs to run beside an older system, down to its own C library.
debian_packages=(
  python3.14 python3.14-minimal libpython3.14-minimal libpython3.14-stdlib libpython3.14 libpython3.14-dev
  python3.14-dev libc6 libssl3t64 libexpat1 libffi8 libsqlite3-0 zlib1g libbz2-1.0 liblzma5 libzstd1
  libncursesw6 libtinfo6 libreadline8t64 libuuid1 libdb5.3t64 libgcc-s1 libstdc++6 libgomp1 libatomic1 patchelf
)

# Unpacks Debian's newer Python into $state/python. Changes nothing of the machine and needs no root: apt gets a
# folder of its own for all that it reads and writes.
unpack_debian_python() (
  set -euo pipefail
  local partial="$state/python.partial" prefix="$state/python" archive
  rm -rf "$partial" "$prefix"
  mkdir -p "$partial"/apt/{lists/partial,cache/archives/partial,debs}
  cd "$partial/apt/debs"
  for archive in $(debian_archives); do
    if update_debian_lists "$partial/apt" "$archive"; then
      private_apt "$partial/apt" download "${debian_packages[@]}"
      for package in ./*.deb; do
        dpkg-deb -x "$package" "$partial"
      done
      break
    fi
  done
  cd "$state"
  rm -rf "$partial/apt"
  if [[ ! -e $partial/usr/bin/python3.14 ]]; then
    printf 'None of the archives in /etc/apt gave the packages of Debian forky: %s\n' "$(debian_archives | paste -s -d ' ')"
    exit 1
  fi
  bind_to_own_libraries "$partial" "$prefix"
  mv "$partial" "$prefix"
  usable_python "$unpacked_python"
)

update_debian_lists() {
  printf 'Types: deb\nURIs: %s\nSuites: forky\nComponents: main\nSigned-By: %s\n' "$2" "$(debian_keyring)" \
    >"$1/debian.sources"
  private_apt "$1" update
}

private_apt() {
  local folder=$1
  shift
  apt-get -o Dir::State="$folder" -o Dir::State::lists="$folder/lists" -o Dir::State::status=/dev/null \
    -o Dir::Cache="$folder/cache" -o Dir::Etc::sourcelist="$folder/debian.sources" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o Acquire::Languages=none -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any "$@"
}

# Makes the Python under PARTIAL use its own loader and libraries once it stands at PREFIX.
bind_to_own_libraries() {
  local partial=$1 prefix=$2 loader libraries patch headers
  loader=$(cd "$partial" && printf '%s\n' usr/lib/*-linux-gnu/ld-linux-*.so.*)
  libraries=${loader%/*}
  # patchelf too is newer than the machine's C library.
  patch=("$partial/$loader" --library-path "$partial/$libraries" "$partial/usr/bin/patchelf")
  # The loader last: patchelf 0.18 breaks the file in the other order.
  "${patch[@]}" --force-rpath --set-rpath "$prefix/$libraries" "$partial/usr/bin/python3.14"
  "${patch[@]}" --set-interpreter "$prefix/$loader" "$partial/usr/bin/python3.14"
  # Debian's header forwards to a folder that compilers search in /usr only.
  headers="$partial/usr/include"
  cp "$headers/${libraries##*/}/python3.14/pyconfig.h" "$headers/python3.14/pyconfig.h"
}
