package check

import (
	"context"
	"errors"
	"io/fs"

	"mbox/cmd/mbox/telemetry"
)

// telemetry asks the server of traces whether it would take some, and looks at what it
// did not take.
func (e *Exam) telemetry(ctx context.Context) {
	if e.Config == nil || e.Config.Telemetry.Endpoint == "" {
		return
	}
	const hint = "mbox help telemetry tells what [telemetry] says"
	x, err := e.Traces(e.Config)
	if err != nil {
		e.add("telemetry", Wrong, hint, "%v", err)
		return
	}
	if err := x.Check(ctx); err != nil {
		e.add("telemetry", Doubt, hint, "nothing is sent now, and what happens is kept: %v", err)
	} else {
		e.add("telemetry", Fine, "", "the server takes traces")
	}
	p, err := telemetry.Read(e.Home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		e.add("telemetry", Doubt, "it begins anew with the next mbox up", "the place that was kept cannot be read: %v", err)
	case p.Waiting:
		e.add("telemetry", Doubt, hint, "what happened since %s waits: %s", p.Since, p.Fault)
	case p.Dropped > 0 && p.Fault == "":
		e.add("telemetry", Doubt, hint, "%d spans were dropped, %d sent", p.Dropped, p.Sent)
	case p.Dropped > 0:
		e.add("telemetry", Doubt, hint, "%d spans were dropped, %d sent; the last time: %s", p.Dropped, p.Sent, p.Fault)
	}
}
