package bluebubbles

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"mbox/agents/chat"
)

// A place fits, and read again it still knows of each message that it reaches that it
// was taken, however many there were.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(1_800_000_000_000)
		p, _ := restore("", now)
		at, all := now.UnixMilli(), []row{}
		for i := range rapid.IntRange(1, 150).Draw(t, "messages") {
			at += rapid.Int64Range(-1000, 60_000).Draw(t, "apart")
			r := row{GUID: fmt.Sprintf("%d-%s", i, strings.Repeat("x", rapid.IntRange(1, 120).Draw(t, "guid"))), Created: at}
			if r.Created < p.From {
				continue
			}
			p.add(r)
			all = append(all, r)
			p.pass(at, time.UnixMilli(at))
			text := p.String()
			if len(text) > 4<<10 {
				t.Fatalf("%d bytes", len(text))
			}
			var err error
			if p, err = restore(text, now); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range all {
			if r.Created >= p.From && !p.has(r.GUID) {
				t.Fatalf("%s at %d, behind %d, is forgotten", r.GUID[:5], r.Created, p.From)
			}
		}
	})
}

func FuzzRow(f *testing.F) {
	f.Add([]byte(`{"guid":"G","text":"x","handle":{"address":"a"},"dateCreated":1,"itemType":0,"associatedMessageType":"0","chats":[{"guid":"c","style":45}],"attachments":[{"guid":"f"}]}`), "")
	f.Add([]byte(`{"guid":"G","handle":null,"chats":[],"associatedMessageType":2000}`), `{"from":1,"taken":[{"guid":"a","at":2}]}`)
	f.Add([]byte(`{"type":"updated-message","data":{"guid":"G","isFromMe":true,"dateRead":7}}`), `{"from":-1}`)
	c := &channel{Settings: chat.Settings{Rooms: []string{"c"}}, chats: map[string]string{}}
	f.Fuzz(func(t *testing.T, body []byte, kept string) {
		for _, guid := range wasRead(strings.NewReader(string(body))) {
			if guid == "" || len(guid) > maxGUID {
				t.Errorf("guid %q", guid)
			}
		}
		p, err := restore(kept, time.Now())
		if err != nil {
			return
		}
		var r row
		if json.Unmarshal(body, &r) == nil && r.said() && c.listens(r) {
			if m := c.message(r); m.ID == "" || m.From == "" || m.In.Peer == "" || m.Text == "" && len(m.Files) == 0 {
				t.Errorf("%+v", m)
			}
			p.add(r)
		}
		p.pass(r.Created, time.Now())
		if text := p.String(); len(text) > maxPlace {
			t.Errorf("%d bytes", len(text))
		}
	})
}
