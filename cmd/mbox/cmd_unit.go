package main

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"mbox/schemas"
)

// unit is what a supervisor needs to know of mbox up.
type unit struct{ program, home, path string }

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

func unitVerb() *verb {
	return &verb{
		name: "unit", args: "systemd|launchd|cron", least: 1, most: 1,
		brief: "print what keeps mbox up running",
		about: `Prints a unit of systemd, an agent of launchd or a line of a crontab that starts mbox
up for this mailbox, as you, and starts it again when it has ended. It has the names
of this program and of the mailbox, and your PATH, by which agents' commands are found.
Nothing is installed: the first lines tell how.`,
		shows: []string{
			"mbox unit systemd >~/.config/systemd/user/mbox.service",
			"mbox unit launchd >~/Library/LaunchAgents/mbox.plist",
			"(crontab -l; mbox unit cron) | crontab -",
		},
		words: func(*session) []string { return supervisorNames() },
		run: func(_ context.Context, s *session, args []string) error {
			u, err := thisUnit(s)
			if err != nil {
				return err
			}
			for _, one := range supervisors {
				if one.name == args[0] {
					s.printf("%s", one.print(u))
					return nil
				}
			}
			return usagef("mbox unit systemd", "%s: want one of %s%s", schemas.Quote(args[0]), strings.Join(supervisorNames(), ", "), schemas.Meant(args[0], supervisorNames()))
		},
	}
}

// thisUnit is for the mailbox of a session, whether it is there or not.
func thisUnit(s *session) (u unit, err error) {
	if u.home, err = s.homeDir(); err != nil {
		return u, err
	}
	if u.program, err = os.Executable(); err != nil {
		return u, err
	}
	u.path = cmp.Or(os.Getenv("PATH"), "/usr/local/bin:/usr/bin:/bin")
	for _, text := range []string{u.home, u.program, u.path} {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return u, usagef("mbox --home DIR unit systemd", "%s has a character that no unit can hold", schemas.Quote(text))
		}
	}
	if _, err := os.Lstat(filepath.Join(u.home, ".mbox", "VERSION")); err != nil {
		s.warnf("%s is no mailbox yet: mbox init makes it one", clean(u.home, maxLine))
	}
	return u, nil
}

// systemd is a unit for a user's own systemd. KillMode has only mbox up told to end,
// which tells its workers; ending takes as long as they are given, 10 s.
func (u unit) systemd() string {
	argument := func(text string) string { return systemdWord(strings.ReplaceAll(text, "$", "$$")) }
	program := systemdWord(u.program)
	if strings.ContainsAny(u.program, `"'\$`) { // which the first word may not have
		program = "/usr/bin/env " + argument(u.program)
	}
	return fmt.Sprintf(`# ~/.config/systemd/user/mbox.service, then:
#   systemctl --user daemon-reload
#   systemctl --user enable --now mbox
#   loginctl enable-linger                     # also while you are not logged in
#   journalctl --user -u mbox -f
[Unit]
Description=mbox: a post office for AI agents
Documentation=man:mbox(1)
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=%s --home %s up
ExecReload=/bin/kill -HUP $MAINPID
Environment=%s
UMask=0077
KillMode=mixed
TimeoutStopSec=30
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
`, program, argument(u.home), systemdWord("PATH="+u.path))
}

// systemdWord quotes a word for a unit of systemd, see systemd.syntax(7).
func systemdWord(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(text) + `"`
}

// launchd is an agent for a user's own launchd.
func (u unit) launchd() string {
	log := filepath.Join(filepath.Dir(u.home), filepath.Base(u.home)+".log")
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ~/Library/LaunchAgents/mbox.plist, then:
     launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/mbox.plist -->
<plist version="1.0">
<dict>
  <key>Label</key><string>mbox</string>
  <key>ProgramArguments</key>
  <array>
    <string>%s</string>
    <string>--home</string>
    <string>%s</string>
    <string>up</string>
  </array>
  <key>EnvironmentVariables</key>
  <dict><key>PATH</key><string>%s</string></dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key>
  <dict><key>SuccessfulExit</key><false/></dict>
  <key>ExitTimeOut</key><integer>30</integer>
  <key>Umask</key><integer>63</integer>
  <key>StandardOutPath</key><string>%s</string>
  <key>StandardErrorPath</key><string>%[4]s</string>
</dict>
</plist>
`, xmlText(u.program), xmlText(u.home), xmlText(u.path), xmlText(log))
}

// xmlText is a text in a plist: what HTML escapes, XML reads too.
func xmlText(text string) string { return html.EscapeString(text) }

// cron is a line that starts mbox up every five minutes, of which the second is
// refused while the first runs.
func (u unit) cron() string {
	word := func(text string) string { return strings.ReplaceAll(schemas.ShellWord(text), "%", `\%`) }
	return fmt.Sprintf(`# mbox up: started within five minutes, unless it runs already
*/5 * * * * PATH=%s %s --home %s up 2>&1 | logger -t mbox
`, word(u.path), word(u.program), word(u.home))
}
