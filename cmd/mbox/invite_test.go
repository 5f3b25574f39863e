package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// Who sits at a terminal gets a link that logs one browser in; an agent's command gets none.
func TestInvitation(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`to log in, once and within 10 minutes:\s+(http://127\.0\.0\.1:\d+/login\?key=[\w-]{43})`)
	p := newPane(t, "serve", "ZEROCLAW_GATEWAY_PORT=42681", "MBOX_AGENT=", "MBOX_TASK_ID=")
	p.shows(`key=[\w-\s]{43}`, "")
	found := link.FindStringSubmatch(strings.ReplaceAll(p.tmux("capture-pane", "-p", "-J"), "\n", " "))
	if found == nil {
		t.Fatal(p.tmux("capture-pane", "-p"))
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for i, status := range []int{http.StatusSeeOther, http.StatusUnauthorized} {
		answer, err := client.Get(found[1])
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != status || (len(answer.Cookies()) == 1) != (i == 0) {
			t.Errorf("time %d: %s, %v", i+1, answer.Status, answer.Cookies())
		}
	}
	p.keys("C-c")
	p.shows(`ENDED 0`, "")

	p = newPane(t, "serve", "ZEROCLAW_GATEWAY_PORT=42682", "MBOX_AGENT=coder")
	p.shows(`serving http://127\.0\.0\.1:42682`, "log in")
	p.keys("C-c")
	p.shows(`ENDED 0`, "log in")
}
