package main

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"

	"mbox/schemas"
)

// unit is what a supervisor needs to know of what it keeps running, or starts again and
// again.
type unit struct {
	program, home, path string
	job
}

// supervisors print a unit, each in the words of one that keeps programs running.
var supervisors = []struct {
	name  string
	print func(unit) string
}{{"systemd", unit.systemd}, {"launchd", unit.launchd}, {"cron", unit.cron}}

func supervisorNames() (names []string) {
	for _, s := range supervisors {
		names = append(names, s.name)
	}
	return names
}

type unitOptions struct {
	agent, backup string
	dream, timer  bool
}

func unitVerb() *verb {
	var o unitOptions
	return &verb{
		name: "unit", args: "systemd|launchd|cron", least: 1, most: 1,
		brief: "print what keeps mbox up running",
		about: `Prints a unit of systemd, an agent of launchd or a line of a crontab that starts mbox
up for this mailbox, as you, and starts it again when it has ended. It has the names
of this program and of the mailbox, and your PATH, by which agents' commands are found.
Nothing is installed: the first lines tell how.

With --agent it is for the worker of one agent, where no mbox up runs; with --dream
besides, for its dream every 4 hours. With --backup it is for a backup each day. Those
two are services that end, and with systemd each needs what --timer prints, too.

systemd is told when mbox up serves, or a worker has begun, and that it lives: one that
does not go on for three minutes is ended, and started again.`,
		shows: []string{
			"mbox unit systemd >~/.config/systemd/user/mbox.service",
			"mbox unit launchd >~/Library/LaunchAgents/mbox.plist",
			"(crontab -l; mbox unit cron) | crontab -",
			"mbox unit systemd --backup ~/backups >~/.config/systemd/user/mbox-backup.service",
			"mbox unit systemd --backup ~/backups --timer >~/.config/systemd/user/mbox-backup.timer",
		},
		exits: []int{exitNotFound, exitData},
		flags: []cli.Flag{
			filledFlag("agent", "for the worker of the agent `NAME` alone", &o.agent),
			boolFlag("dream", "for the dream of that agent", &o.dream),
			fileFlag("backup", "for a backup each day, into the folder `DIR`", &o.backup),
			boolFlag("timer", "what starts that, for systemd", &o.timer),
		},
		words: func(*session) []string { return supervisorNames() },
		run:   func(_ context.Context, s *session, args []string) error { return o.run(s, args[0]) },
	}
}

func (o *unitOptions) run(s *session, name string) error {
	at := slices.Index(supervisorNames(), name)
	if at < 0 {
		return usagef("mbox unit systemd", "%s: want one of %s%s", schemas.Quote(name), strings.Join(supervisorNames(), ", "), schemas.Meant(name, supervisorNames()))
	}
	if err := o.check(name); err != nil {
		return err
	}
	u, err := o.unit(s)
	if err != nil {
		return err
	}
	if o.timer {
		s.printf("%s", u.systemdTimer())
		return nil
	}
	s.printf("%s", supervisors[at].print(u))
	return nil
}

// check refuses flags that do not go together.
func (o *unitOptions) check(name string) error {
	switch {
	case o.backup != "" && (o.agent != "" || o.dream):
		return usagef("mbox unit "+name+" --backup DIR", "--backup is of the whole mailbox: it goes with no agent")
	case o.dream && o.agent == "":
		return usagef("mbox unit "+name+" --agent NAME --dream", "--dream needs --agent")
	case o.timer && !o.dream && o.backup == "":
		return usagef("mbox unit systemd --backup DIR --timer", "--timer is for what ends: --dream and --backup")
	case o.timer && name != "systemd":
		return usagef("mbox unit "+name+" without --timer", "what mbox unit %s prints has the times in it", name)
	case name == "cron" && o.agent != "" && !o.dream:
		return usagef("mbox unit cron", "cron would start a second worker beside the first: mbox up runs them all")
	case o.agent != "":
		return needAgent("unit "+name, o.agent)
	}
	return nil
}

// unit is for the mailbox of a session, whether it is there or not.
func (o *unitOptions) unit(s *session) (u unit, err error) {
	if u.home, err = s.homeDir(); err != nil {
		return u, err
	}
	if u.program, err = os.Executable(); err != nil {
		return u, err
	}
	if u.job, err = o.job(u.home); err != nil {
		return u, err
	}
	u.path = cmp.Or(os.Getenv("PATH"), "/usr/local/bin:/usr/bin:/bin")
	for _, text := range []string{u.home, u.program, u.path, u.into} {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return u, usagef("mbox --home DIR unit systemd", "%s has a character that no unit can hold", schemas.Quote(text))
		}
	}
	if _, err := os.Lstat(filepath.Join(u.home, ".mbox", "VERSION")); err != nil {
		s.warnf("%s is no mailbox yet: mbox init makes it one", clean(u.home, maxLine))
	}
	return u, nil
}

// words is the command line of the job: the program, and what it is given.
func (u unit) words() []string {
	words := append([]string{u.program, "--home", u.home}, u.args...)
	if u.into == "" {
		return words
	}
	// A backup's name has its time in it, which only a shell knows.
	return append([]string{"/bin/sh", "-c", backupCommand, "sh"}, append(words, u.into)...)
}

// backupCommand calls what stands before the last argument, with the name of a file in
// that folder that is not there yet.
const backupCommand = `umask 077; mkdir -p "$5" && exec "$1" "$2" "$3" "$4" "$5/mbox-$(date +%Y%m%dT%H%M%S).tar.zst"`

// systemd is a unit for a user's own systemd. What it tells goes to the agent's log, which
// its worker bounds, or to the journal, which is bounded: another file would grow for
// good. KillMode has only mbox told to end, which tells its workers; ending takes as long
// as they are given, 10 s.
func (u unit) systemd() string {
	var start []string
	for i, word := range u.words() {
		if i > 0 {
			word = strings.ReplaceAll(word, "$", "$$")
		} else if strings.ContainsAny(word, `"'\$`) { // which the first word may not have
			start, word = append(start, "/usr/bin/env"), strings.ReplaceAll(word, "$", "$$")
		}
		start = append(start, systemdWord(word))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# ~/.config/systemd/user/%s.service, then:\n#   systemctl --user daemon-reload\n", u.name)
	if u.ends {
		fmt.Fprintf(&b, "# It is started by %[1]s.timer: add --timer to print that.\n", u.name)
	} else {
		fmt.Fprintf(&b, "#   systemctl --user enable --now %s\n", u.name)
		fmt.Fprintf(&b, "#   loginctl enable-linger                     # also while you are not logged in\n")
		fmt.Fprintf(&b, "#   %s\n", u.follow())
	}
	fmt.Fprintf(&b, "[Unit]\nDescription=%s\nDocumentation=man:mbox(1)\n", u.about)
	if u.online {
		b.WriteString("After=network-online.target\nWants=network-online.target\n")
	}
	if u.ends {
		b.WriteString("\n[Service]\nType=oneshot\n")
	} else {
		b.WriteString("StartLimitIntervalSec=0\n\n[Service]\nType=notify\nTimeoutStartSec=300\nKillMode=mixed\nTimeoutStopSec=30\n")
	}
	fmt.Fprintf(&b, "ExecStart=%s\nEnvironment=%s\nUMask=0077\n", strings.Join(start, " "), systemdWord("PATH="+u.path))
	for _, line := range u.service {
		b.WriteString(line + "\n")
	}
	if u.dir != "" {
		fmt.Fprintf(&b, "WorkingDirectory=%s\n", systemdPath(u.dir))
	}
	if u.log != "" {
		fmt.Fprintf(&b, "StandardOutput=append:%[1]s\nStandardError=append:%[1]s\n", systemdPath(u.log))
	}
	if !u.ends {
		b.WriteString("\n[Install]\nWantedBy=default.target\n")
	}
	return b.String()
}

// follow is the command that shows what a unit of systemd tells.
func (u unit) follow() string {
	if u.log != "" {
		return "tail -F " + schemas.ShellWord(u.log)
	}
	return "journalctl --user -u " + u.name + " -f"
}

// systemdTimer starts a service that ends.
func (u unit) systemdTimer() string {
	return fmt.Sprintf(`# ~/.config/systemd/user/%s.timer, beside %[1]s.service, then:
#   systemctl --user daemon-reload
#   systemctl --user enable --now %[1]s.timer
#   loginctl enable-linger                     # also while you are not logged in
[Unit]
Description=%s, from time to time

[Timer]
%s

[Install]
WantedBy=timers.target
`, u.name, u.about, strings.Join(u.times.systemd, "\n"))
}

// systemdPath is a path that is all there is behind the = of a line of a unit.
func systemdPath(path string) string { return strings.ReplaceAll(path, "%", "%%") }

// systemdWord quotes a word for a unit of systemd, see systemd.syntax(7).
func systemdWord(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(text) + `"`
}

// launchd is an agent for a user's own launchd.
func (u unit) launchd() string {
	log := cmp.Or(u.log, filepath.Join(filepath.Dir(u.home), filepath.Base(u.home)+".log"))
	var words strings.Builder
	for _, word := range u.words() {
		fmt.Fprintf(&words, "    <string>%s</string>\n", xmlText(word))
	}
	more := u.times.launchd
	if !u.ends {
		more = append([]string{"<key>RunAtLoad</key><true/>"}, u.keep...)
	}
	if u.dir != "" {
		more = append(more, "<key>WorkingDirectory</key><string>"+xmlText(u.dir)+"</string>")
	}
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ~/Library/LaunchAgents/NAME.plist, by its Label, then:
     launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/NAME.plist -->
<plist version="1.0">
<dict>
  <key>Label</key><string>%s</string>
  <key>ProgramArguments</key>
  <array>
%s  </array>
  <key>EnvironmentVariables</key>
  <dict><key>PATH</key><string>%s</string></dict>
  %s
  <key>ExitTimeOut</key><integer>30</integer>
  <key>Umask</key><integer>63</integer>
  <key>StandardOutPath</key><string>%s</string>
  <key>StandardErrorPath</key><string>%[5]s</string>
</dict>
</plist>
`, u.name, words.String(), xmlText(u.path), strings.Join(more, "\n  "), xmlText(log))
}

// xmlText is a text in a plist: what HTML escapes, XML reads too.
func xmlText(text string) string { return html.EscapeString(text) }

// cron is a line that starts mbox up every five minutes, of which the second is
// refused while the first runs; or what ends, at its times.
func (u unit) cron() string {
	word := func(text string) string { return strings.ReplaceAll(schemas.ShellWord(text), "%", `\%`) }
	line := []string{u.times.cron, "PATH=" + word(u.path)}
	for _, w := range u.words() {
		line = append(line, word(w))
	}
	return fmt.Sprintf("# %s\n%s 2>&1 | logger -t %s\n", u.times.comment, strings.Join(line, " "), u.name)
}
