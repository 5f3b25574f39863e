#!/bin/sh
# member.sh - one of a colony: answers what it is told in a channel; any other task it
# does by saying who it is. For mbox agent birth NAME --exec …/member.sh, see mbox help
# colony.
test -n "$MBOX_MESSAGE" || { echo "I am $MBOX_AGENT."; exit; }
mbox post "$MBOX_CHANNEL" "$MBOX_AGENT is here." --reply-to "$MBOX_MESSAGE" >&2
