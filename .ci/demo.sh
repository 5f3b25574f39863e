#!/bin/sh
# demo.sh MBOX - agents at work in a mailbox of their own, from init to verify.
#
# It needs no model and no network. Exit code 0 means that every task has ended as
# it should and that mbox verify found nothing wrong. KEEP=1 leaves the mailbox
# for you to look at.
set -u

PATH=$(cd "$(dirname "${1:?usage: demo.sh MBOX}")" && pwd):$PATH
cd "$(dirname "$0")/.." || exit 1
. .ci/show.sh

answered() { mbox read office --json | grep -q 'ada is here'; }

say '# A mailbox is a folder.'
run mbox init || die 'no mailbox'

say '# A coordinator, a coder and a tester are there without any entry. An agent of your own
# is one: here a command that reads a task and prints the result. [serve] opens a door for
# programs on this machine.'
port=$((20000 + $$ % 20000)) url=http://127.0.0.1:$port
ngircd=$(command -v ngircd || ls /usr/sbin/ngircd 2>/dev/null) ircport=$((port + 1))
chat='[bridges.shell]
kind = "stdio"
to = "writer"
user = "anna"
allow = ["anna"]'
if [ -n "$ngircd" ] && command -v python3 >/dev/null; then
	chat="$chat

[bridges.irc]
kind = \"irc\"
to = \"writer\"
server = \"irc://127.0.0.1:$ircport\"
user = \"mbox\"
allow = [\"anna!~anna@127.0.0.1\"]"
	printf '[Global]\nName = irc.example.org\nListen = 127.0.0.1\nPorts = %s\n[Options]\nDNS = no\nIdent = no\nPAM = no\n' "$ircport" >"$dir/ngircd.conf"
	"$ngircd" -n -f "$dir/ngircd.conf" >"$dir/ngircd.log" 2>&1 &
	jobs="$jobs $!"
else
	ngircd=''
fi
echo '$ cat >> mbox.toml'
tee -a "$MBOX_HOME/mbox.toml" <<END
[serve]
address = "127.0.0.1:$port"

[agents.writer]
types = ["research", "analysis", "other"]
exec = '"$EXAMPLES"/summarise.sh'

$chat
END

say '# The router and the agents run in one process; mbox tail shows what is written into the ledger.'
go_up

say '# A task may carry an action; then no model is needed. The coder writes a note, and then
# the tester, which may read the coder'"'"'s files, checks that it is there.'
run cat examples/actions/check-note.json
run mbox send examples/actions/write-note.json || die 'not sent'
run mbox send examples/actions/check-note.json || die 'not sent'
watch

say '# The coordinator hands work on: a task of its own for the coder, for which it waits.'
run mbox send examples/actions/ask-coder.json || die 'not sent'
watch

say '# What the role does not allow is refused, and nothing is done.'
run mbox send examples/actions/tester-writes.json
code=$?
echo "exit code $code"
test "$code" -eq 73 || die "that had to be refused with exit code 73"
watch

say '# Tasks may also be dropped: by moving a file into a folder. These two are for the command.'
for task in examples/tasks/fix-login.json examples/tasks/release-notes.json; do drop "$task"; done
watch

say '# A drop with a mistake is not lost: it fails, with the reason.'
echo '{"task":{"title":"Sweep the floor","priority":"hi"}}' >"$dir/sweep.json"
cd "$dir" && drop sweep.json && cd "$EXAMPLES/.." || exit 1
watch

say '# mv alone is an agent, too: this one never calls mbox.'
run mbox send 'Carry the parcels upstairs' --to porter --id parcels || die 'not sent'
echo '$ examples/mv-worker.sh porter &'
WAIT=0.2 examples/mv-worker.sh porter &
jobs="$jobs $!"
within 20 'the tasks' all_ended
quiet

say '# Programs come in by HTTP, and MCP clients by HTTP or, as here, by mbox mcp.'
doors=1
if command -v curl >/dev/null; then
	doors=2
	task='{"id":"by-http","task":{"title":"Say hello by HTTP"},"assignment":{"target_agent":"writer"}}'
	echo "$ curl -s $url/task -H 'Content-Type: application/json' -d '$task'"
	curl -s "$url/task" -H 'Content-Type: application/json' -d "$task" || die 'no answer by HTTP'
	show curl -s "$url/tasks/by-http?wait=20s"
	curl -s "$url/tasks/by-http?wait=20s" | grep -o '"result":{"status":"[a-z-]*"' | grep completed || die 'the task by HTTP was not completed'
else
	echo '(There is no curl on this machine.)'
fi
echo '$ mbox mcp     # send_task {"title":"Say hello by MCP","to":"writer"}'
mbox mcp <<'END' | sed -n 's/.*"structuredContent":\(.*\)}}$/\1/p' | grep . || die 'no task by MCP'
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"demo","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"send_task","arguments":{"title":"Say hello by MCP","to":"writer"}}}
END
within 20 'the tasks' all_ended

say '# People ask from their chat, and get the answer there. A bridge to standard input and
# output is one for scripts; mbox up runs those to IRC, Telegram, Matrix, e-mail and others.'
echo '$ echo "Sum up the week" | mbox bridge shell'
echo 'Sum up the week' | mbox bridge shell | grep . || die 'no answer in the chat'
asked=1
if [ -n "$ngircd" ]; then
	asked=2
	echo "$ .ci/irc-ask.py 127.0.0.1 $ircport mbox 'Sum up the month'     # a person on a real ngircd"
	python3 .ci/irc-ask.py 127.0.0.1 "$ircport" mbox 'Sum up the month' | grep . || die 'no answer on IRC'
fi

say '# An agent may have a home of its own: it is born by one command, of which a running
# mbox up hears at once, talks in channels, tidies its memory in
# a dream, and is put away, home and all, by another.'
run mbox agent birth ada --exec "'$EXAMPLES/member.sh'" || die 'nobody was born'
run mbox create-channel office || die 'no channel'
run mbox post office '@ada who is there?' || die 'not posted'
within 20 'the answer' answered
run mbox read office || die 'mbox read'
within 20 'the tasks' all_ended
echo '$ for i in 1 2; do echo "- The office is open from nine to five." >>agents/ada/memory/memory.md; done'
for i in 1 2; do echo '- The office is open from nine to five.' >>"$MBOX_HOME/agents/ada/memory/memory.md"; done
run mbox dream ada || die 'ada has not dreamed'
run mbox agent kill ada --reason 'the demo is over' || die 'ada was not put away'

say "# People open $url in a browser: the dashboard."
if command -v curl >/dev/null; then
	echo "$ curl -s $url | grep -o '<h1>.*</h1>'"
	curl -s "$url" | grep -o '<h1>.*</h1>' || die 'no dashboard'
fi

say '# All have ended.'
run mbox ls || die 'mbox ls'
run mbox why ask-coder || die 'mbox why'
run mbox show check-note || die 'mbox show'
run mbox show sweep || die 'mbox show'
run mbox audit delegation --decision rejected || die 'mbox audit delegation'
run cat "$MBOX_HOME/agents/coder/workspace/projects/note.md" || die 'the coder wrote no note'

ended() { mbox ls --state "$1" --json | wc -l; }
test "$(ended completed)" -eq $((9 + doors + asked)) && test "$(ended failed)" -eq 1 ||
	die "$(($(ended completed))) tasks are completed and $(($(ended failed))) have failed, not $((9 + doors + asked)) and the one with a mistake"
mbox audit delegation --decision rejected --json | grep -q '"step": *"action"\|may not do' || die 'the refusal is not in the ledger'

go_down
if command -v python3 >/dev/null; then
	say '# The same by a checker that shares no code with mbox.'
	run python3 .ci/lint.py --whole "$MBOX_HOME" || die 'lint.py found something'
fi

if [ -n "${KEEP:-}" ]; then
	say "The mailbox is $MBOX_HOME."
	echo "Next: export MBOX_HOME=$MBOX_HOME; mbox show fix-login; cat \$MBOX_HOME/audit/shared/*.jsonl"
else
	say "The mailbox was $MBOX_HOME, and is gone now: KEEP=1 make demo keeps it."
	echo 'Next: make demo-ollama, or make install, mbox init --demo DIR to look around, mbox init, mbox send "Hello", and mbox --help.'
fi
