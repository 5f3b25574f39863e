package main

import (
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// patience is how long work may last before it shows its progress.
const patience = 300 * time.Millisecond

// meter is the progress of one long piece of work, drawn as a bar on stderr.
// Only a terminal gets one, and only when the work has lasted a moment.
type meter struct {
	mu    sync.Mutex
	what  string
	since time.Time
	bar   *progressbar.ProgressBar
}

// progress shows how far a piece of work has come; total 0: not known.
func (s *session) progress(what string, done, total int64) {
	if s.people {
		s.meter.show(what, done, total)
	}
}

// endProgress takes the bar away, so that text can follow.
func (s *session) endProgress() {
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	s.meter.end()
}

func (m *meter) show(what string, done, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.what != what {
		m.end()
		m.what, m.since = what, time.Now()
	}
	if m.bar == nil {
		if time.Since(m.since) < patience {
			return
		}
		m.bar = newBar(what, total)
	}
	if total > 0 {
		m.bar.ChangeMax64(total)
		done = min(done, total)
	}
	m.bar.Set64(done)
}

func (m *meter) end() {
	if m.bar != nil {
		m.bar.Finish()
	}
	m.what, m.bar = "", nil
}

func newBar(what string, total int64) *progressbar.ProgressBar {
	if total == 0 {
		total = -1 // a spinner
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetDescription(clean(what, 40)),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
}
