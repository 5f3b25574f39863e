package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// What looks through the whole ledger, or a whole folder, takes turns: who asks while
// another one is answered waits.
func TestWhatReadsMuchTakesTurns(t *testing.T) {
	p := newPlace(t)
	for path, turn := range map[string]turns{
		"/audit/entries?agent=nobody": p.door.finding, "/audit/delegation": p.door.finding, "/log": p.door.finding,
		"/tasks": p.door.listing, "/list": p.door.listing, "/problems": p.door.listing, "/verify": p.door.proving,
	} {
		turn <- struct{}{}
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		r := httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:42617"+path, nil)
		r.RemoteAddr = "127.0.0.1:5"
		w := httptest.NewRecorder()
		p.door.ServeHTTP(w, r)
		stop()
		if w.Body.Len() > 0 {
			t.Errorf("%s answered %d bytes out of turn", path, w.Body.Len())
		}
		turn.leave()
		if w := p.ask("", "GET", path, ""); w.Code != http.StatusOK {
			t.Errorf("%s in its turn: %d %s", path, w.Code, w.Body)
		}
	}
}
