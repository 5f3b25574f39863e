#!/bin/sh
# worker.sh: an agent in POSIX shell. It needs mbox and sed, no jq.
#
#   worker.sh AGENT [COMMAND [ARGUMENT…]]
#
# It claims AGENT's tasks, one after another, in the mailbox that MBOX_HOME names.
# COMMAND gets a task's JSON on stdin; what it prints is the result, and any exit
# code but 0 ends the attempt. Without a COMMAND the result is the task's title.
#
#   WAIT=10s   how long one claim waits for a task
#   ONCE=yes   stop when there is nothing to claim
#
# SIGTERM lets it finish the task that it has. A command that takes longer than
# the lease (15 minutes) has to call mbox progress now and then: its id and token
# are in MBOX_TASK_ID and MBOX_TOKEN.
set -u

[ $# -ge 1 ] || { echo 'usage: worker.sh AGENT [COMMAND [ARGUMENT...]]' >&2; exit 2; }
agent=$1
shift
[ $# -ge 1 ] || set -- sed -n 's/^    "title": "\(.*\)",*$/\1/p'

tmp=$(mktemp -d) || exit 74
trap 'rm -rf "$tmp"' EXIT
stop=
trap 'stop=yes' TERM INT HUP

while [ -z "$stop" ]; do
	mbox claim --agent "$agent" --wait "${WAIT:-10s}" >"$tmp/task" 2>"$tmp/why"
	case $? in
	0) ;;
	5) [ "${ONCE:-}" = yes ] && exit 0; continue ;; # nothing to claim
	75) continue ;;                                 # busy: it has waited already
	*) cat "$tmp/why" >&2; exit 1 ;;
	esac

	# mbox writes one field a line, two spaces a level: these two lines are these
	# two fields, whatever text the task brings.
	MBOX_TASK_ID=$(sed -n 's/^  "id": "\(.*\)",*$/\1/p' "$tmp/task")
	MBOX_TOKEN=$(sed -n '/^    "lease": {/,/^    }/s/^      "token": "\(.*\)",*$/\1/p' "$tmp/task")
	export MBOX_TASK_ID MBOX_TOKEN

	mbox progress "$MBOX_TASK_ID" --message 'begun'
	if result=$("$@" <"$tmp/task"); then
		printf %s "$result" | mbox complete "$MBOX_TASK_ID" --output-file -
	else
		mbox fail "$MBOX_TASK_ID" --code exit --reason "$1 ended with exit code $?"
	fi || echo "worker.sh: $MBOX_TASK_ID was not handed in; it will be done again" >&2
done
