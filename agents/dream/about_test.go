package dream

import (
	"strings"
	"testing"
)

// What a brain is shown of a long memory leaves room for its reply in the smallest context
// and in that of the default, whatever the memory is written in; the newest lines are it.
func TestDreamFitsTheContext(t *testing.T) {
	for context, shown := range map[int]string{2048: "- learned 4000\n", 4096: "- learned 4000\n", 0: "- learned 4000\n", 256: ""} {
		d := newborn(t, strings.Repeat("- 学んだ\n", 100)+numbered(4000))
		b := &brain{says: `{"summary":"x","tasks":[]}`}
		d.Brain, d.Context, d.Most = b, context, 500
		dreamt(t, d)
		text := ""
		for _, m := range b.asked[0].Messages {
			text += m.Content
		}
		whole := context
		if whole == 0 {
			whole = 4096 + mostSaid
		}
		if room := 2*(whole-min(mostSaid, whole/2)) - len(replySchema); len(text) > max(room, len(instruction)+200) {
			t.Errorf("context of %d tokens: %d bytes were sent, there is room for %d", context, len(text), room)
		}
		if got := b.asked[0].Messages[1].Content; !strings.HasSuffix(got, shown) || !strings.Contains(got, "(cut off: memory.md") || strings.Contains(got, "学") {
			t.Errorf("context of %d tokens: shown is %.80q … %d bytes", context, got, len(got))
		}
	}
}
