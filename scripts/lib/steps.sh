# Steps that show how long they take, log what they print, and end cleanly when interrupted.
#
# Sourced. Wants $root and $state; knows nothing of what the steps do.

log="$state/setup.log"
step_process=""
attempt_result=0

# Tells in words what went wrong and what to do, then ends the script: fail WHAT WHAT_TO_DO
fail() {
  printf '\n%s stopped: %s\n  What to do: %s\n' "${0##*/}" "$1" "$2" >&2
  exit 1
}

# Runs one step: step TITLE WHAT_TO_DO_IF_IT_FAILS COMMAND...
# The command runs in the background, in a process group of its own, so that an interrupt ends all of it.
step() {
  local title=$1 remedy=$2
  shift 2
  attempt "$title" "$@"
  if ((attempt_result)); then
    printf '  the end of %s:\n' "$log" >&2
    tail -n 15 "$log" | sed 's/^/  | /' >&2
    fail "$title did not work" "$remedy Then run it again: it goes on from here."
  fi
}

# Like step, but a failure is only an answer, left in attempt_result: attempt TITLE COMMAND...
# Never call it in a condition: there bash would let COMMAND go on after an error in the middle of it.
attempt() {
  local title=$1
  shift
  attempt_result=0
  printf '\n== %s: %s\n' "$title" "$*" >>"$log"
  [[ -t 1 ]] || printf '%5d s  %s\n' "$SECONDS" "$title"
  set -m
  "$@" >>"$log" 2>&1 </dev/null &
  step_process=$!
  set +m
  show_while_running "$title"
  wait "$step_process" || attempt_result=$?
  step_process=""
  if [[ -t 1 ]]; then
    printf '\r%5d s  %s\033[K\n' "$SECONDS" "$title"
  fi
}

# Keeps the elapsed seconds in sight: in place on a terminal, a line every 15 seconds elsewhere.
show_while_running() {
  local title=$1 told=$SECONDS
  while kill -0 "$step_process" 2>/dev/null; do
    if [[ -t 1 ]]; then
      printf '\r%5d s  %s ...\033[K' "$SECONDS" "$title"
    elif ((SECONDS - told >= 15)); then
      told=$SECONDS
      printf '%5d s  ... still at it\n' "$SECONDS"
    fi
    sleep 0.2
  done
}

stop_step() {
  trap - INT TERM HUP
  [[ -z $step_process ]] || kill -TERM -- "-$step_process" 2>/dev/null || true
  printf '\nInterrupted. Nothing is broken: run it again.\n' >&2
  exit 130
}
trap stop_step INT TERM HUP
