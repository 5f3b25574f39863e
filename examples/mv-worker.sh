#!/bin/sh
# mv-worker.sh: an agent that works with mv alone. It never calls mbox.
#
#   mbox up &
#   mv-worker.sh AGENT
#
# It shows that the folders are the interface: moving a file from pending to
# in-progress takes a task, moving it on to completed hands it in, with what has
# been written into result.output. mbox sees each move and writes it down, in the
# name of the agent that the task is for. Somebody has to look, so mbox up runs.
#
# It takes only tasks that name AGENT, that mbox has admitted (they have a tx),
# and that wait for nothing: mv knows no dates and no dependencies. There is no
# lease file, so a task that takes longer than the lease goes back to pending.
#
#   WAIT=1     seconds between two looks
#   ONCE=yes   stop when there is nothing to take
set -u

[ $# -eq 1 ] || { echo 'usage: mv-worker.sh AGENT' >&2; exit 2; }
agent=$1
cd "${MBOX_HOME:-$HOME/agents}/tasks" || exit 4

# The work: one line of text without quotes and backslashes, from the task's file.
work() {
	echo "$(sed -n 's/^    "title": //p' "$1" | wc -w | tr -d ' ') words in the title"
}

# ours FILE: may we take it?
ours() {
	grep -q "^    \"target_agent\": \"$agent\"" "$1" 2>/dev/null &&
		grep -q '^    "tx": ' "$1" &&
		! grep -q -e '^    "not_before": ' -e '^    "depends_on": ' "$1"
}

take() {
	name=${1##*/}
	mv "$1" "in-progress/$name" 2>/dev/null || return 0 # somebody was faster
	# Now mbox writes lease and claimant into the file. Until it has, the file is not
	# ours to change.
	until grep -q '^    "lease": {' "in-progress/$name" 2>/dev/null; do
		[ -e "in-progress/$name" ] || return 0 # cancelled
		sleep 0.1
	done
	result=$(work "in-progress/$name")
	# mbox ignores names with a dot in front. It is one rename that puts the result
	# in place, so nobody ever sees half of it.
	sed "s/^    \"output\": null/    \"output\": \"$result\"/" "in-progress/$name" >"in-progress/.$name" || return 1
	[ -e "in-progress/$name" ] || { rm -f "in-progress/.$name"; return 0; } # cancelled, or too late
	mv "in-progress/.$name" "in-progress/$name" && mv "in-progress/$name" "completed/$name"
}

while :; do
	found=
	for file in pending/*.json; do
		if ours "$file"; then
			found=yes
			take "$file"
		fi
	done
	[ -n "$found" ] && continue
	[ "${ONCE:-}" = yes ] && exit 0
	sleep "${WAIT:-1}"
done
