# Names the project's places and what uv is to know of the machine. Sourced by every script, wherever it is called from.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
state="$root/.local"      # what set-up keeps for itself
venv="$root/.venv"

# A machine's own certificates count where it has them, as behind a company's proxy.
if [[ -r /etc/ssl/certs/ca-certificates.crt ]]; then
  export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-1}
fi

# Where help is asked for, shows the comment that a script begins with.
show_help() {
  local argument
  for argument in "$@"; do
    if [[ $argument == -h || $argument == --help ]]; then
      sed -n -e '2,/^[^#]/s/^# \{0,1\}//p' "$0"
      exit 0
    fi
  done
}

# For a script that takes none: any other argument is a mistake, which would go unseen.
take_no_arguments() {
  show_help "$@"
  if (($#)); then
    printf 'scripts/%s takes no arguments; right is --help or none, not %s.\n' "${0##*/}" "$1" >&2
    exit 2
  fi
}
