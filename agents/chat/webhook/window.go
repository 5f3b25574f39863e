package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mbox/agents/chat"
)

const (
	windowTime = 5 * time.Minute
	maxWindow  = 100 // messages in it: as many as a place has room for
)

// A window knows which messages without an id came in the last five minutes, and
// gives them one. It is what the channel keeps: a line "<hash of the body>
// <seconds since 1970>" each.
type window struct {
	came []arrival
	now  func() time.Time
}

type arrival struct {
	sum string
	at  int64
}

// restore reads what was kept. What is no line of ours is left out.
func restore(kept string, remark func(string, ...any)) *window {
	w := &window{now: time.Now}
	for line := range strings.Lines(kept) {
		sum, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseInt(at, 10, 64)
		if raw, bad := base64.RawURLEncoding.DecodeString(sum); err != nil || bad != nil || len(raw) != 16 {
			remark("the place that was kept is not one: a message of the last minutes may be taken twice")
			continue
		}
		w.came = append(w.came, arrival{sum, seconds})
	}
	return w
}

func (w *window) String() string {
	var b strings.Builder
	for _, a := range w.came {
		fmt.Fprintf(&b, "%s %d\n", a.sum, a.at)
	}
	return b.String()
}

// identify gives a body the id that it has since it first came. When that was is
// kept first: after a kill at any moment the same body has the same id.
func (w *window) identify(ctx context.Context, body []byte, in chat.Inbox) (string, error) {
	hash, now := sha256.Sum256(body), w.now()
	sum := base64.RawURLEncoding.EncodeToString(hash[:16])
	w.came = slices.DeleteFunc(w.came, func(a arrival) bool {
		return now.Sub(time.Unix(a.at, 0)).Abs() >= windowTime
	})
	for _, a := range w.came {
		if a.sum == sum {
			return a.id(), nil
		}
	}
	if len(w.came) == maxWindow {
		return "", errMany
	}
	a := arrival{sum, now.Unix()}
	w.came = append(w.came, a)
	return a.id(), in.Keep(ctx, w.String())
}

func (a arrival) id() string { return fmt.Sprintf("body-%s-%d", a.sum, a.at) }
