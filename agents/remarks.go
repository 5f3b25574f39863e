package agents

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"mbox/agents/secret"
	"mbox/mailbox"
)

const (
	maxRemark = 4 << 10                 // bytes of a line on stderr; the rest of it is dropped
	maxHeard  = maxRemark + secret.Most // bytes of it that are searched for secrets, so that none is cut
	maxTail   = 900                     // bytes of stderr in an error, of whose message a mailbox keeps the last 1000 runes
	maxDelay  = 7 * 24 * time.Hour
)

// remarks reads a command's stderr: lines for mbox, and lines for the log, whose
// end is kept for the error.
type remarks struct {
	log      func(line string)
	hide     func(line string) string // takes secrets out of a line
	heard    func()                   // called for everything that comes
	progress func(mailbox.Progress)   // called for each mbox:progress

	delay time.Duration // that the last mbox:delay asked for
	line  []byte        // that has not ended
	last  []byte        // the end of what was logged
}

// Write never fails.
func (r *remarks) Write(p []byte) (int, error) {
	r.heard()
	n := len(p)
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		r.line = append(r.line, line[:min(len(line), maxHeard-len(r.line))]...)
		if ended {
			r.flush()
		}
		p = rest
	}
	return n, nil
}

func (r *remarks) flush() {
	line := strings.ToValidUTF8(strings.TrimRight(string(r.line), "\r"), "\uFFFD")
	cut := len(r.line) == maxHeard
	r.line = r.line[:0]
	if cut {
		line = withoutBegun(r.hide, line)
	} else {
		line = r.hide(line)
	}
	if len(line) > maxRemark {
		line = strings.ToValidUTF8(line[:maxRemark], "")
	}
	word, rest, _ := strings.Cut(line, " ")
	switch rest = strings.TrimSpace(rest); word {
	case "mbox:progress":
		r.progress(parseProgress(rest))
		return
	case "mbox:delay":
		if d, err := time.ParseDuration(rest); err == nil && d >= 0 && d <= maxDelay {
			r.delay = d
			return
		}
	}
	r.log(line)
	r.last = append(append(r.last, line...), '\n')
	if len(r.last) > 2*maxTail {
		r.last = append(r.last[:0], r.last[len(r.last)-maxTail:]...)
	}
}

// end takes a last line without a newline in, and returns the tail.
func (r *remarks) end() string {
	if len(r.line) > 0 {
		r.flush()
	}
	tail := r.last[max(0, len(r.last)-maxTail):]
	return strings.TrimSpace(strings.ToValidUTF8(string(tail), ""))
}

// parseProgress reads "[PERCENT[%]] MESSAGE".
func parseProgress(text string) mailbox.Progress {
	word, rest, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(strings.TrimSuffix(word, "%"))
	if err != nil || n < 0 || n > 100 {
		return mailbox.Progress{Message: text}
	}
	return mailbox.Progress{Percent: &n, Message: strings.TrimSpace(rest)}
}
