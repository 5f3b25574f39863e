package main

import (
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// manager is who started this process and wants to hear of it: systemd, for a unit of
// Type=notify (sd_notify(3)). Where there is none nothing is told, and nothing that mbox
// does depends on it.
type manager struct {
	*session
	watches bool      // it ends a process of which it hears nothing
	told    time.Time // that this lives; one goroutine tells it
}

// aliveEvery is how often at most it is told that this lives.
const aliveEvery = 500 * time.Millisecond

// startedBy is this process's manager.
func startedBy(s *session) *manager {
	limit, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		s.warnf("the watchdog is not told that this lives: %v", err)
	}
	return &manager{session: s, watches: limit > 0}
}

func (m *manager) tell(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		m.warnf("systemd is not told %s: %v", state, err)
	}
}

// ready says that what was started serves now.
func (m *manager) ready() { m.tell(systemd.SdNotifyReady) }

// stopping says that it ends, which may take a while.
func (m *manager) stopping() { m.tell(systemd.SdNotifyStopping) }

// alive is said by the loop that everything hangs on, each time around: where that stands
// still, the watchdog ends this process, and it is started again.
func (m *manager) alive() {
	if m != nil && m.watches && time.Since(m.told) >= aliveEvery {
		m.told = time.Now()
		m.tell(systemd.SdNotifyWatchdog)
	}
}
