package mcp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/mailbox"
)

// One server serves an identity over stateless HTTP: what a request claimed, the next one
// completes.
func TestStatelessHTTP(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	servers := map[string]*Server{"coder": as(box, "coder"), "": as(box, "")}
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		servers[r.URL.Query().Get("agent")].Handler().ServeHTTP(w, r)
	}))
	defer at.Close()
	over := func(agent string) *peer {
		p := dial(t, &sdk.StreamableClientTransport{Endpoint: at.URL + "?agent=" + agent, DisableStandaloneSSE: true}, nil)
		t.Cleanup(func() { p.Close() })
		return p
	}
	person, coder := over(""), over("coder")
	id := call[outcome](person, "send_task", args{"title": "x", "to": "coder"}).ID
	first := call[claimOutput](coder, "claim_task", nil)
	if again := call[claimOutput](over("coder"), "claim_task", nil); !again.Again || again.Token != first.Token {
		t.Errorf("another request claimed %+v", again)
	}
	call[stateOutput](over("coder"), "complete_task", args{"id": id, "output": 1})
	if w := call[outcome](person, "wait_for_task", args{"id": id}); !w.Ended {
		t.Errorf("came to %+v", w)
	}
	if text, err := person.read(taskURI(id)); err != nil || text == "" {
		t.Error(err)
	}
}
