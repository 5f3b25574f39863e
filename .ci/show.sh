# show.sh - what the demos share: . .ci/show.sh, after cd to the checkout.
#
# It makes a temporary folder, $dir, and leave as its end: what is in $jobs is
# killed, and the folder goes unless KEEP is set.
# shellcheck shell=sh

dir=$(mktemp -d "${TMPDIR:-/tmp}/mbox-demo.XXXXXX") || exit 1
EXAMPLES=$PWD/examples # for the agents, which work elsewhere
MBOX_HOME=$dir/agents
export EXAMPLES MBOX_HOME
jobs='' up='' tail=''

# shellcheck disable=SC2329 # the traps call it
leave() {
	for pid in $tail $up $jobs; do kill "$pid" 2>/dev/null; done
	for pid in $tail $up $jobs; do wait "$pid" 2>/dev/null; done
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
# all_ended looks twice: a task that moves from one folder into the other while they
# are listed may be missing from the list.
all_ended() { none_waits && none_waits; }
none_waits() { waiting=$(mbox ls --state pending,in-progress --json) && test -z "$waiting"; }
drop() {
	name=${1##*/}
	echo "$ cp $1 tasks/pending/.new && mv tasks/pending/.new tasks/pending/$name"
	cp "$1" "$MBOX_HOME/tasks/pending/.new" && mv "$MBOX_HOME/tasks/pending/.new" "$MBOX_HOME/tasks/pending/$name" ||
		die "cannot drop $1"
}
watch() { sleep 1; } # for the reader: mbox tail tells what happens

is_up() { kill -0 "$up" 2>/dev/null || die "mbox up ended"; grep -q '^mbox: ready' "$dir/up.log"; }
go_up() { # the router and its agents, and the ledger on the screen
	echo '$ mbox up &'
	mbox up --log-level warn 2>"$dir/up.log" &
	up=$!
	within 10 'mbox up' is_up
	cat "$dir/up.log"
	echo '$ mbox tail &'
	mbox tail &
	tail=$!
	watch
}
quiet() { # no more of the ledger on the screen
	watch
	kill "$tail"
	wait "$tail" 2>/dev/null
	tail=''
}
go_down() { # and every byte compared
	say '# Stop the router, and compare every byte with the ledger.'
	echo '$ kill %1'
	kill "$up"
	wait "$up" || die "mbox up ended with exit code $?"
	up=''
	run mbox verify || die 'mbox verify found something'
}
