#!/bin/sh
# demo.sh MBOX - agents at work in a mailbox of their own, from init to verify.
#
# Exit code 0 means that every task has ended as it should and that mbox verify
# found nothing wrong. KEEP=1 leaves the mailbox for you to look at.
set -u

PATH=$(cd "$(dirname "${1:?usage: demo.sh MBOX}")" && pwd):$PATH
cd "$(dirname "$0")/.." || exit 1
EXAMPLES=$PWD/examples # for the agents, which work elsewhere
dir=$(mktemp -d "${TMPDIR:-/tmp}/mbox-demo.XXXXXX") || exit 1
MBOX_HOME=$dir/agents
export EXAMPLES MBOX_HOME
up='' tail='' porter=''

# shellcheck disable=SC2329 # the traps call it
leave() {
	for pid in $porter $tail $up; do kill "$pid" 2>/dev/null; done
	test -n "${KEEP:-}" || rm -rf "$dir"
}
trap leave EXIT
trap 'exit 1' INT TERM

say() { printf '\n%s\n' "$*"; }
show() { # a command as one would type it
	printf '$'
	for word; do
		case $word in
		*[!A-Za-z0-9_./=-]*) printf ' "%s"' "$word" ;;
		*) printf ' %s' "$word" ;;
		esac
	done
	echo
}
run() { show "$@"; "$@"; }
die() {
	echo "demo: $*" >&2
	test ! -s "$dir/up.log" || sed 's/^/demo: mbox up: /' "$dir/up.log" >&2
	exit 1
}
# within SECONDS WHAT COMMAND…: repeat a command until it succeeds
within() {
	deadline=$(($(date +%s) + $1)) what=$2
	shift 2
	until "$@"; do
		test "$(date +%s)" -lt "$deadline" || die "waited too long for $what"
		sleep 0.1
	done
}
is_up() { kill -0 "$up" 2>/dev/null || die "mbox up ended"; grep -q '^mbox: ready' "$dir/up.log"; }
all_ended() { test -z "$(mbox ls --state pending,in-progress --json)"; }
drop() {
	name=${1##*/}
	echo "$ cp $1 tasks/pending/.new && mv tasks/pending/.new tasks/pending/$name"
	cp "$1" "$MBOX_HOME/tasks/pending/.new" && mv "$MBOX_HOME/tasks/pending/.new" "$MBOX_HOME/tasks/pending/$name" ||
		die "cannot drop $1"
}
watch() { sleep 1; } # for the reader: mbox tail tells what happens

say '# A mailbox is a folder.'
run mbox init || die 'no mailbox'

say '# Three agents, each a command that reads a task and prints the result.'
echo '$ cat >> mbox.toml'
tee -a "$MBOX_HOME/mbox.toml" <<'END'
[agents.coder]
only_named = true
exec = '"$EXAMPLES"/summarise.sh'

[agents.researcher]
types = ["research", "analysis"]
exec = '"$EXAMPLES"/summarise.sh'

[agents.clerk]
types = ["other"]
exec = '"$EXAMPLES"/summarise.sh'
END

say '# The router and the agents run in one process; mbox tail shows what is written into the ledger.'
echo '$ mbox up &'
mbox up --log-level warn 2>"$dir/up.log" &
up=$!
within 10 'mbox up' is_up
cat "$dir/up.log"
echo '$ mbox tail &'
mbox tail &
tail=$!
watch

say '# Anybody may leave a task: with mbox send, or by moving a file into a folder.'
run mbox send 'Water the plants' --to coder --description 'All of them, the cactus too.' || die 'not sent'
watch
for task in examples/tasks/*.json; do drop "$task"; done
watch

say '# A drop with a mistake is not lost: it fails, with the reason.'
echo '{"task":{"title":"Sweep the floor","priority":"hi"}}' >"$dir/sweep.json"
cd "$dir" && drop sweep.json && cd "$EXAMPLES/.." || exit 1
watch

say '# mv alone is an agent, too: this one never calls mbox.'
run mbox send 'Carry the parcels upstairs' --to porter --id parcels || die 'not sent'
echo '$ examples/mv-worker.sh porter &'
WAIT=0.2 examples/mv-worker.sh porter &
porter=$!

within 20 'the tasks' all_ended
watch
kill "$porter" "$tail"
wait "$porter" "$tail" 2>/dev/null
porter='' tail=''

say '# All have ended.'
run mbox ls || die 'mbox ls'
run mbox why release-notes || die 'mbox why'
run mbox show sweep || die 'mbox show'
failed=$(mbox ls --state failed --json | wc -l)
test "$failed" -eq 1 || die "$((failed)) tasks have failed, not just the one with a mistake"

say '# Stop the router, and compare every byte with the ledger.'
echo '$ kill %1'
kill "$up"
wait "$up" || die "mbox up ended with exit code $?"
up=''
run mbox verify || die 'mbox verify found something'
if command -v python3 >/dev/null; then
	say '# The same by a checker that shares no code with mbox.'
	run python3 .ci/lint.py "$MBOX_HOME" || die 'lint.py found something'
fi

if [ -n "${KEEP:-}" ]; then
	say "The mailbox is $MBOX_HOME."
	echo "Next: export MBOX_HOME=$MBOX_HOME; mbox show fix-login; cat \$MBOX_HOME/audit/shared/*.jsonl"
else
	say "The mailbox was $MBOX_HOME, and is gone now: KEEP=1 make demo keeps it."
	echo 'Next: make install, mbox init, mbox send "Hello", and mbox --help.'
fi
