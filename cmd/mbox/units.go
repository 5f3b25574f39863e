package main

import (
	"fmt"
	"os"
	"path/filepath"

	"mbox/agents"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

// job is what a unit starts.
type job struct {
	name, about string
	args        []string // of mbox
	into        string   // a folder, of which a backup's last argument is a file
	ends        bool     // it is started at its times, and does not stay
	times       times
	online      bool     // it talks to others
	service     []string // lines of systemd's [Service]
	keep        []string // of launchd, how it is started again
	dir         string   // where it runs; "" is the supervisor's choice
	log         string   // where what it tells goes to; "" is the journal, of launchd a file beside the mailbox
}

// times are when a job is started, in the words of each supervisor.
type times struct {
	systemd, launchd []string
	cron, comment    string
}

// The jobs of a mailbox, but for what depends on an agent.
var (
	upJob = job{
		name: "mbox", about: "mbox: a post office for AI agents", args: []string{"up"},
		service: []string{"ExecReload=/bin/kill -HUP $MAINPID", "WatchdogSec=180", "Restart=on-failure", "RestartSec=5"},
		keep:    []string{"<key>KeepAlive</key>", "<dict><key>SuccessfulExit</key><false/></dict>"},
		times:   times{cron: "*/5 * * * *", comment: "mbox up: started within five minutes, unless it runs already"},
	}
	backupJob = job{
		name: "mbox-backup", about: "mbox: a backup of the mailbox", args: []string{"backup"}, ends: true,
		times: times{
			systemd: []string{"OnCalendar=daily", "Persistent=true"},
			launchd: []string{"<key>StartCalendarInterval</key>", "<dict><key>Hour</key><integer>0</integer><key>Minute</key><integer>0</integer></dict>"},
			cron:    "0 0 * * *", comment: "mbox backup: each day",
		},
	}
	dreamTimes = times{
		systemd: []string{"OnBootSec=30min", "OnUnitActiveSec=4h"},
		launchd: []string{"<key>StartInterval</key><integer>14400</integer>"},
		cron:    "30 */4 * * *", comment: "mbox dream: every four hours",
	}
)

// job is what the flags ask for.
func (o *unitOptions) job(home string) (job, error) {
	switch {
	case o.backup != "":
		into, err := filepath.Abs(o.backup)
		j := backupJob
		j.into = into
		return j, err
	case o.agent == "":
		return upJob, nil
	}
	c, err := config.Load(home)
	if err != nil {
		return job{}, err
	}
	a := c.Agents[o.agent]
	if a == nil {
		return job{}, hint(fmt.Errorf("agent %s: %w", o.agent, mailbox.ErrNotFound), "mbox agent birth %s makes it; mbox agent list names those that are there", o.agent)
	}
	if !o.dream && !a.Whole() && a.Role == "" {
		return job{}, usagef("mbox agent birth --help", "agent %s has neither a command nor a role: it has no worker", o.agent)
	}
	return o.ofAgent(a, filepath.Join(home, "agents", o.agent)), nil
}

// ofAgent is the worker of an agent, or its dream. One that was born has a folder for
// what they tell; its worker bounds the files.
func (o *unitOptions) ofAgent(a *config.Agent, dir string) job {
	j := job{
		name: "mbox-worker-" + o.agent, about: "mbox: the worker of " + o.agent, args: []string{"worker", "--agent", o.agent}, online: true,
		service: append([]string{"WatchdogSec=180", "Restart=always", "RestartSec=10"}, limits(a)...),
		keep:    []string{"<key>KeepAlive</key><true/>", "<key>ThrottleInterval</key><integer>10</integer>"},
	}
	file := agents.WorkerOutput
	if o.dream {
		j = job{name: "mbox-dream-" + o.agent, about: "mbox: the dream of " + o.agent, args: []string{"dream", o.agent}, online: true, ends: true, service: []string{"TimeoutStartSec=600"}, times: dreamTimes}
		file = agents.DreamOutput
	}
	if info, err := os.Lstat(filepath.Join(dir, "logs")); err == nil && info.IsDir() {
		j.dir, j.log = dir, filepath.Join(dir, "logs", file)
	}
	return j
}

// limits are what the worker of a role may take of the machine: it waits for a model,
// which runs elsewhere. A program that does an agent's tasks is another thing: it gets
// what Claude Code needs.
func limits(a *config.Agent) []string {
	switch {
	case a.Whole():
		return []string{"MemoryMax=4G"}
	case a.Role == "tester":
		return []string{"CPUQuota=12.5%", "MemoryMax=128M"}
	}
	return []string{"CPUQuota=25%", "MemoryMax=256M"}
}
