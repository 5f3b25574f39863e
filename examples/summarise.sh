#!/bin/sh
# summarise.sh: a command for mbox worker --exec.
#
#   mbox worker --agent writer --exec "$PWD/examples/summarise.sh"
#
# It shows all that such a command has to know: the task's JSON is on stdin, what
# it prints is the result, what it leaves in MBOX_ARTIFACTS is kept with the
# result, a line "mbox:progress …" on stderr tells how far it is, other lines go
# to the agent's log, and exit code 0 means done. Exit code 75 would mean: not
# now, try again later.
#
# It does no JSON: mbox writes one field a line, so sed finds them.
set -eu

task=$(cat)

# field NAME: a text field of the object "task", as JSON writes it
field() {
	printf '%s\n' "$task" | sed -n "/^  \"task\": {/,/^  }/s/^    \"$1\": \"\(.*\)\",*\$/\1/p"
}

title=$(field title)
description=$(field description)
echo "mbox:progress 50% read the task" >&2

words=$(printf '%s\n' "$description" | wc -w | tr -d ' ')
echo "$MBOX_TASK_ID has a description of $words words" >&2

printf '%s\n' "$task" >"$MBOX_ARTIFACTS/task.json"
echo "$title: $words words, attempt $MBOX_ATTEMPT"
