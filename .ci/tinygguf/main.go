// Command tinygguf writes very small model files for an Ollama server:
//
//	tinygguf -kind random -seed 1 -o tiny.gguf      fluent nonsense; use it with a JSON schema
//	tinygguf -kind bert -seed 1 -o tiny.gguf        embeddings
//	tinygguf -kind script -o tiny.gguf -reply 'Hello.' -reply '<|plan|>={"actions":[]}'
//
// A script's first reply is the one to any prompt; each of the others is that to
// a prompt in which the text before the first = stands, the later one first.
// Print the template for a script's model with -template.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"mbox/agents/brain/ollamatest"
)

func main() {
	var lines []ollamatest.Line
	kind := flag.String("kind", "random", "random, script or bert")
	out := flag.String("o", "tiny.gguf", "file to write")
	seed := flag.Uint64("seed", 1, "seed of the random weights")
	template := flag.Bool("template", false, "print a script's template, and no more")
	flag.Func("reply", "`[WHEN=]TEXT` that a script says", func(reply string) error {
		if len(lines) == 0 {
			lines = append(lines, ollamatest.Line{Say: reply})
			return nil
		}
		when, say, ok := strings.Cut(reply, "=")
		if !ok {
			return errors.New("want WHEN=TEXT after the first reply")
		}
		lines = append(lines, ollamatest.Line{When: when, Say: say})
		return nil
	})
	flag.Parse()
	if *template {
		fmt.Print(ollamatest.Prompt)
		return
	}
	file, err := model(*kind, *seed, lines)
	if err == nil {
		err = os.WriteFile(*out, file, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tinygguf:", err)
		os.Exit(1)
	}
}

func model(kind string, seed uint64, lines []ollamatest.Line) ([]byte, error) {
	switch kind {
	case "random":
		return ollamatest.Random(seed), nil
	case "bert":
		return ollamatest.Embedder(seed), nil
	case "script":
		return ollamatest.Script(lines...)
	}
	return nil, fmt.Errorf("unknown kind %q: want random, script or bert", kind)
}
