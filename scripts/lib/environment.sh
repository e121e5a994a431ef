# Names the project's places and what uv is to know of the machine. Sourced by every script, wherever it is called from.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
state="$root/.local"      # what set-up keeps for itself
venv="$root/.venv"

# A machine's own certificates count where it has them, as behind a company's proxy.
if [[ -r /etc/ssl/certs/ca-certificates.crt ]]; then
  export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-1}
fi
