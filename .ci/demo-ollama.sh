#!/bin/sh
# demo-ollama.sh MBOX - the coordinator, the coder and the tester think with a model.
#
# It takes the Ollama server that OLLAMA_HOST names, or the one on this machine, and
# the model MBOX_MODEL, or the one that was installed last. TINY=1 starts a server of
# its own (.ci/ollama) with a model of some hundred kilobytes that has its replies by
# heart: for those who have no model, and for tests.
#
# Exit code 0 means that the task was done; 1 that there is no server or no model,
# with what to do, or that the model was not up to it. KEEP=1 leaves the mailbox.
set -u

PATH=$(cd "$(dirname "${1:?usage: demo-ollama.sh MBOX}")" && pwd):$PATH
cd "$(dirname "$0")/.." || exit 1
. .ci/show.sh

# tiny starts a server with the scripted model. Ollama's grammar wants the required
# fields of an object before the others.
tiny() {
	bin=$(.ci/ollama) || die 'there is no Ollama server, and none could be built'
	say '# An Ollama server of our own, with a tiny model that has its replies by heart.'
	HOME=$dir OLLAMA_HOST=127.0.0.1:0 OLLAMA_MODELS=$dir/models OLLAMA_NO_CLOUD=1 GIN_MODE=release \
		"$bin" serve >"$dir/ollama.log" 2>&1 &
	jobs=$!
	within 60 'the Ollama server' listens
	OLLAMA_HOST=$(sed -n 's/^.*Listening on \(127\.0\.0\.1:[0-9]*\).*$/\1/p' "$dir/ollama.log" | head -n 1)
	export OLLAMA_HOST
	go run ./.ci/tinygguf -kind script -o "$dir/tiny.gguf" \
		-reply '{"actions":[],"answer":"I have learnt nothing about this."}' \
		-reply 'the coordinator of a mailbox={"actions":[{"action":"delegate","params":{"role":"coder","title":"Write a note into note.md","name":"note"}},{"action":"delegate","params":{"role":"tester","title":"Check that coder:note.md is there","after":["note"]}}],"answer":"The coder writes it, then the tester looks."}' \
		-reply 'You are coder,={"actions":[{"action":"write_file","params":{"path":"note.md","content":"# A note\n\nWritten by a model.\n"}}],"answer":"It is written."}' \
		-reply 'You are tester,={"actions":[{"action":"file_check","params":{"path":"coder:note.md"}}],"answer":"Checked."}' \
		-reply 'handed work to have ended={"actions":[],"answer":"The note was written by the coder, and the tester has found it."}' ||
		die 'no tiny model'
	{
		echo "FROM $dir/tiny.gguf"
		printf 'TEMPLATE """'
		go run ./.ci/tinygguf -template
		echo '"""'
		echo 'PARAMETER num_thread 1'
	} >"$dir/Modelfile"
	HOME=$dir "$bin" create tiny -f "$dir/Modelfile" >"$dir/create.log" 2>&1 || { cat "$dir/create.log" >&2; die 'the server did not take the tiny model'; }
	MBOX_MODEL=tiny
}
listens() {
	kill -0 "$jobs" 2>/dev/null || { cat "$dir/ollama.log" >&2; die 'the Ollama server ended'; }
	grep -q 'Listening on 127' "$dir/ollama.log"
}

test -z "${TINY:-}" || tiny
export MBOX_MODEL="${MBOX_MODEL:-auto}"

say '# A mailbox, with nothing configured. mbox doctor tells whether its agents can think.'
run mbox init || die 'no mailbox'
show mbox doctor
mbox doctor | grep '^[a-z]* *brain' -A 1 | grep -v -e '^--' -e '^[a-z]* *writable' || die 'mbox doctor tells nothing of brains'
if ! mbox doctor | grep -q 'coordinator can think'; then
	cat >&2 <<END

demo: there is no model to think with. One of these helps:

   ollama serve &                      a server on this machine (https://ollama.com),
   ollama pull qwen3:1.7b              and a model for it

   OLLAMA_HOST=HOST:PORT MBOX_MODEL=NAME make demo-ollama     a server and a model of yours
   TINY=1 make demo-ollama             a tiny model that has its replies by heart
   make demo                           no model at all
END
	exit 1
fi

go_up
say '# A task in plain words. The coordinator hands parts of it on, and waits; the coder and the'
echo '# tester think what to do, and do it by actions that mbox has checked.'
run mbox send 'Write a note and check that it is there' --to coordinator --id note \
	--description 'The coder writes a few words into note.md. Then the tester checks coder:note.md.' || die 'not sent'
within "${WAIT:-900}" 'the task' all_ended
quiet

say '# What came of it.'
run mbox why note || die 'mbox why'
run mbox show note || die 'mbox show'
run mbox audit delegation || die 'mbox audit delegation'
done=$(mbox ls --state completed --json | grep -c '"id": *"note"')
if [ -f "$MBOX_HOME/agents/coder/workspace/projects/note.md" ]; then run cat "$MBOX_HOME/agents/coder/workspace/projects/note.md"; fi

go_down
test -z "${KEEP:-}" || say "The mailbox is $MBOX_HOME."
test "$done" -eq 1 || die "the task was not completed: mbox show tells why. A larger model may do better: MBOX_MODEL=NAME make demo-ollama"
