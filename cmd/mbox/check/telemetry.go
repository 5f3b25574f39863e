package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/telemetry"
)

const tracesHint = "mbox help telemetry tells what [telemetry] says"

// telemetry asks the server of traces whether it would take some, and looks at what it
// did not take.
func (e *Exam) telemetry(ctx context.Context) {
	if e.Config == nil || e.Config.Telemetry.Endpoint == "" {
		return
	}
	x, err := e.Traces(e.Config)
	if err != nil {
		e.add("telemetry", Wrong, tracesHint, "%v", err)
		return
	}
	if err := x.Check(ctx); err != nil {
		e.add("telemetry", Doubt, tracesHint, "nothing is sent now, and what happens is kept: %v", err)
	} else {
		e.add("telemetry", Fine, "", "the server takes traces")
	}
	e.Findings = append(e.Findings, Traces(e.Config, e.Home)...)
}

// Traces tells what the server of traces did not take; nothing where none are wanted, or
// all were taken.
func Traces(c *config.File, home string) []Finding {
	if c.Telemetry.Endpoint == "" {
		return nil
	}
	f := Finding{Check: "telemetry", Level: Doubt, Hint: tracesHint}
	p, err := telemetry.Read(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		f.Text, f.Hint = fmt.Sprintf("the place that was kept cannot be read: %v", err), "it begins anew with the next mbox up"
	case p.Waiting:
		f.Text = fmt.Sprintf("what happened since %s waits: %s", p.Since, p.Fault)
	case p.Dropped > 0 && p.Fault == "":
		f.Text = fmt.Sprintf("%d spans were dropped, %d sent", p.Dropped, p.Sent)
	case p.Dropped > 0:
		f.Text = fmt.Sprintf("%d spans were dropped, %d sent; the last time: %s", p.Dropped, p.Sent, p.Fault)
	default:
		return nil
	}
	return []Finding{f}
}
