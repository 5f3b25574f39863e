package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"mbox/mailbox"
)

// The view has the latest that fit, in their order, each in a line of its own.
func TestLearnedText(t *testing.T) {
	var all []Learned // the latest first
	for i := range 400 {
		all = append(all, Learned{Agent: "ada", Task: mailbox.ID(fmt.Sprintf("t%d", 400-i)), Title: "a\nb", Text: strings.Repeat("\u0001", 200)})
	}
	text, err := learnedText(all)
	if err != nil || len(text) > mostLearnedSize || len(text) < mostLearnedSize/2 {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	for i, line := range lines {
		var l Learned
		if err := json.Unmarshal(line, &l); err != nil || string(l.Task) != fmt.Sprintf("t%d", 401-len(lines)+i) {
			t.Fatalf("line %d: %.80s: %v", i, line, err)
		}
	}
}
