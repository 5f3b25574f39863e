package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// The units of an agent lie where its person's supervisor reads them, if its birth was to
// put them there, of which its entry tells. Whoever has it arrive, renames it or puts it
// away writes, moves or removes them, also where it was cut off (following). They are
// enabled and stopped by the person alone.

// unitKeeper is a supervisor with a folder of units.
type unitKeeper struct {
	name, suffix string
	dir          func() (string, error)
	mark         func(home string) string    // what stands in its units for this mailbox, and in no other's
	starts       func(paths []string) string // the command that has it run them
	stops        func(names []string) string // the command that ends them, when their files are gone
}

var unitKeepers = []unitKeeper{
	{
		"systemd", ".service", systemdDir,
		func(home string) string {
			return systemdWord("--home") + " " + systemdWord(strings.ReplaceAll(home, "$", "$$"))
		},
		func(paths []string) string {
			return "systemctl --user daemon-reload && systemctl --user enable --now " + strings.Join(startable(paths), " ")
		},
		func(names []string) string {
			return "systemctl --user stop " + strings.Join(startable(names), " ") + "; systemctl --user daemon-reload"
		},
	},
	{
		"launchd", ".plist",
		func() (string, error) {
			home, err := os.UserHomeDir()
			return filepath.Join(home, "Library", "LaunchAgents"), err
		},
		func(home string) string {
			return "<string>--home</string>\n    <string>" + xmlText(home) + "</string>"
		},
		func(paths []string) string { return launchctl("bootstrap gui/$(id -u) ", paths) },
		func(names []string) string { return launchctl("bootout gui/$(id -u)/", names) },
	},
}

// systemdDir is where a user's systemd reads units that he has made.
func systemdDir() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "systemd", "user"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".config", "systemd", "user"), err
}

// startable are the units of systemd that are started: what ends is by its timer.
func startable(paths []string) (names []string) {
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, dreamJob) && strings.HasSuffix(name, ".service") {
			continue
		}
		names = append(names, name)
	}
	return names
}

func launchctl(verb string, of []string) string {
	var all []string
	for _, one := range of {
		if strings.HasSuffix(verb, "/") {
			one = strings.TrimSuffix(filepath.Base(one), ".plist")
		} else {
			one = schemas.ShellWord(one)
		}
		all = append(all, "launchctl "+verb+one)
	}
	return strings.Join(all, "; ")
}

// keeperCalled is the supervisor of a name.
func keeperCalled(name string) unitKeeper {
	for _, k := range unitKeepers {
		if k.name == name {
			return k
		}
	}
	return unitKeepers[0]
}

// dreamJob begins the names of the units of a dream.
const dreamJob = "mbox-dream-"

// unitFile is a unit where its supervisor reads it.
type unitFile struct{ path, text string }

// files are the units of an agent that is in the registry: its worker and its dream.
func (k unitKeeper) files(s *session, agent string) ([]unitFile, error) {
	dir, err := k.dir()
	if err != nil {
		return nil, err
	}
	var all []unitFile
	for _, o := range []unitOptions{{agent: agent}, {agent: agent, dream: true}} {
		u, err := o.unit(s)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, u.name)
		if k.name == "launchd" {
			all = append(all, unitFile{path + k.suffix, u.launchd()})
			continue
		}
		all = append(all, unitFile{path + k.suffix, u.systemd()})
		if u.ends {
			all = append(all, unitFile{path + ".timer", u.systemdTimer()})
		}
	}
	return all, nil
}

// there are the units of an agent of this mailbox that lie in the folder, by their paths;
// foreign is one of that name that is another's, "" if there is none. A timer is whose the
// service beside it is.
func (k unitKeeper) there(home, agent string) (own []string, foreign string, err error) {
	dir, err := k.dir()
	if err != nil {
		return nil, "", err
	}
	for _, job := range []string{"mbox-worker-", dreamJob} {
		path := filepath.Join(dir, job+agent)
		text, err := durable.Read(path+k.suffix, mostUnit)
		timer := ""
		if _, err := os.Lstat(path + ".timer"); err == nil && k.name == "systemd" && job == dreamJob {
			timer = path + ".timer"
		}
		if errors.Is(err, fs.ErrNotExist) {
			foreign = cmp.Or(foreign, timer)
			continue
		}
		if err != nil || !strings.Contains(string(text), k.mark(home)) {
			foreign = cmp.Or(foreign, path+k.suffix) // a link or a folder, too
			continue
		}
		if timer != "" {
			own = append(own, timer)
		}
		own = append(own, path+k.suffix)
	}
	return own, foreign, nil
}

// mostUnit is how long a unit may be, in bytes.
const mostUnit = 1 << 20

// vacant refuses to put units of an agent where another's are.
func (k unitKeeper) vacant(home, agent string) error {
	_, foreign, err := k.there(home, agent)
	if err == nil && foreign != "" {
		err = hint(fmt.Errorf("%s is there, and is not of this mailbox: %w", foreign, mailbox.ErrConflict), "another name for the agent; or --no-service, and mbox unit %s --agent %s prints what to put elsewhere", k.name, agent)
	}
	return err
}

// put writes the units of an agent, if they are not all there, and tells what has them run.
func (k unitKeeper) put(s *session, box *mailbox.Box, agent string) error {
	if err := k.vacant(box.Home(), agent); err != nil {
		return err
	}
	files, err := k.files(s, agent)
	if err != nil {
		return err
	}
	if own, _, err := k.there(box.Home(), agent); err != nil || len(own) == len(files) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(files[0].path), durable.DirMode); err != nil {
		return err
	}
	var paths []string
	for _, f := range files {
		if err := durable.Replace(f.path, []byte(f.text), box.Options().Sync); err != nil {
			return err
		}
		paths = append(paths, f.path)
	}
	s.infof("units of %s are in %s: %s starts them", agent, filepath.Dir(paths[0]), k.starts(paths))
	if box.Routed() {
		s.warnf("mbox up runs, and does what they do: start them only where it does not")
	}
	return nil
}

// drop removes the units of an agent, with the links by which they were enabled, and tells
// what ends what they run. It tells whether there were any.
func (k unitKeeper) drop(s *session, home, agent string) (bool, error) {
	own, _, err := k.there(home, agent)
	if err != nil || len(own) == 0 {
		return false, err
	}
	for _, path := range own {
		for _, target := range []string{"default", "timers"} {
			link := filepath.Join(filepath.Dir(path), target+".target.wants", filepath.Base(path))
			if _, err := os.Readlink(link); err == nil {
				if err := durable.Remove(link); err != nil {
					return true, err
				}
			}
		}
		if err := durable.RemoveIfThere(path); err != nil {
			return true, err
		}
	}
	s.infof("the units of %s are removed: %s ends what they run", agent, k.stops(own))
	return true, nil
}

// writeUnits has the units of an agent that arrives be there, if its entry wants any.
func writeUnits(s *session, box *mailbox.Box, agent string) {
	c, err := config.Load(box.Home())
	if err == nil && c.Agents[agent] != nil && c.Agents[agent].Units != "" {
		err = keeperCalled(c.Agents[agent].Units).put(s, box, agent)
	}
	if err != nil {
		s.warnf("the units of %s are not written: %v; mbox unit prints what to put in their places", agent, err)
	}
}

// dropUnits removes the units of an agent that is put away. It is so where that fails, too.
func dropUnits(s *session, home, agent string) {
	for _, k := range unitKeepers {
		if _, err := k.drop(s, home, agent); err != nil {
			s.warnf("the units of %s are not removed: %v", agent, err)
		}
	}
}

// moveUnits has the units of an agent follow it to its new name. Those of the old one
// would go on working, since that means the agent.
func moveUnits(s *session, box *mailbox.Box, from, to string) {
	for _, k := range unitKeepers {
		own, _, err := k.there(box.Home(), from)
		if err == nil && len(own) > 0 {
			if err = k.put(s, box, to); err == nil {
				_, err = k.drop(s, box.Home(), from)
			}
		}
		if err != nil {
			s.warnf("the units of %s have not followed: %v; they go on with the work of %s, and mbox unit %s --agent %[3]s prints its own", from, err, to, k.name)
		}
	}
}

// serviceOptions are how a birth says where units go.
type serviceOptions struct{ systemd, launchd, none bool }

// keeper is the supervisor that is asked for; "" if none is.
func (o *serviceOptions) keeper() (string, error) {
	said := 0
	for _, one := range []bool{o.systemd, o.launchd, o.none} {
		if one {
			said++
		}
	}
	switch {
	case said > 1:
		return "", usagef("mbox agent birth NAME --systemd", "--systemd, --launchd and --no-service do not go together")
	case o.systemd:
		return "systemd", nil
	case o.launchd:
		return "launchd", nil
	}
	return "", nil
}

// check refuses units that could not be written, before anything is made.
func (o *serviceOptions) check(s *session, a *config.Agent, agent string) error {
	name, err := o.keeper()
	if err != nil || name == "" {
		return err
	}
	if !a.HasWorker() {
		return usagef("add --exec, --acp or --role, or leave --"+name+" out", "--%s: %s has neither a command nor a role: it has no worker", name, agent)
	}
	u, err := (&unitOptions{}).unit(s)
	if err != nil {
		return err
	}
	return keeperCalled(name).vacant(u.home, agent)
}

// put writes the units that a birth was to put in their places, where that has not been
// done.
func (o *serviceOptions) put(s *session, box *mailbox.Box, agent string) error {
	name, err := o.keeper()
	if err != nil || name == "" {
		return err
	}
	if err := keeperCalled(name).put(s, box, agent); err != nil {
		return fmt.Errorf("agent %s is provisioning, and its units are not written: %w", agent, err)
	}
	return nil
}
