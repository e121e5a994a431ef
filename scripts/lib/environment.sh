# Names the project's places. Sourced by every script, wherever it is called from.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
state="$root/.local"      # what set-up keeps for itself
venv="$root/.venv"
