package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hardUnit has in its names what each supervisor takes for something else.
func hardUnit(t *testing.T) (u unit, printed string) {
	dir := filepath.Join(t.TempDir(), `it's "50%" $HOME <&> \n`)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	u = unit{program: filepath.Join(dir, "mbox"), home: filepath.Join(dir, "agents"), path: dir + ":/usr/bin:/bin", job: upJob}
	printed = filepath.Join(dir, "printed")
	show := "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$PATH\" >\"$(dirname \"$0\")/printed\"\n"
	if err := os.WriteFile(u.program, []byte(show), 0o700); err != nil {
		t.Fatal(err)
	}
	return u, printed
}

// jobs are one of each kind, for a mailbox whose agent ada has a home.
func jobs(t *testing.T, home string) (all []job) {
	if err := os.MkdirAll(filepath.Join(home, "agents", "ada", "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "mbox.toml"), []byte("[agents.ada]\nexec = \"cat\"\n[agents.tess]\nrole = \"tester\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []unitOptions{{}, {agent: "ada"}, {agent: "tess"}, {agent: "ada", dream: true}, {backup: filepath.Join(home, "kept")}} {
		j, err := o.job(home)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

// systemd takes the units without a word, and finds the program by its name.
func TestUnitOfSystemd(t *testing.T) {
	u, _ := hardUnit(t)
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("NOT TESTED: there is no systemd-analyze on this machine")
	}
	plain := filepath.Join(t.TempDir(), "a %h b", "mbox")
	if err := errors.Join(os.Mkdir(filepath.Dir(plain), 0o700), os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	units := []unit{{program: plain, home: "/srv/agents", path: "/usr/bin", job: upJob}}
	for _, j := range jobs(t, u.home) {
		u.job = j
		units = append(units, u)
	}
	for _, one := range units {
		dir := t.TempDir()
		files := []string{filepath.Join(dir, one.name+".service")}
		err := os.WriteFile(files[0], []byte(one.systemd()), 0o600)
		if one.ends {
			files = append(files, filepath.Join(dir, one.name+".timer"))
			err = errors.Join(err, os.WriteFile(files[1], []byte(one.systemdTimer()), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		verify := exec.Command(tool, append([]string{"verify", "--man=no", "--user"}, files...)...)
		verify.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		if out, err := verify.CombinedOutput(); err != nil || strings.Contains(string(out), one.name+".") { // it tells of others, too
			t.Errorf("systemd-analyze: %v\n%s\n%s", err, out, one.systemd())
		}
	}
}

// What is asked of the units of the worker of an agent, and of what is started again and
// again.
func TestUnitsOfAgents(t *testing.T) {
	u, _ := hardUnit(t)
	all := jobs(t, u.home)
	logs := strings.ReplaceAll(filepath.Join(u.home, "agents", "ada", "logs"), "%", "%%")
	for i, want := range [][]string{
		{"Type=notify", "WatchdogSec=180", "Restart=on-failure"},
		{
			"After=network-online.target", "Wants=network-online.target", "Type=notify", "WatchdogSec=180", "Restart=always", "RestartSec=10",
			"WorkingDirectory=" + filepath.Dir(logs), "MemoryMax=4G", "WantedBy=default.target",
			"StandardOutput=append:" + logs + "/worker.out.log", "StandardError=append:" + logs + "/worker.out.log",
		},
		{"Type=notify", "WatchdogSec=180", "CPUQuota=12.5%", "MemoryMax=128M"},
		{
			"Type=oneshot", "After=network-online.target", "TimeoutStartSec=600", "WorkingDirectory=" + filepath.Dir(logs), "OnBootSec=30min", "OnUnitActiveSec=4h", "WantedBy=timers.target",
			"StandardOutput=append:" + logs + "/dream.out.log", "StandardError=append:" + logs + "/dream.out.log",
		},
		{"Type=oneshot", "OnCalendar=daily", "Persistent=true", "WantedBy=timers.target"},
	} {
		u.job = all[i]
		text := u.systemd()
		if u.ends {
			text += u.systemdTimer()
		}
		lines := strings.Split(text, "\n")
		for _, line := range want {
			if !slices.Contains(lines, line) {
				t.Errorf("%s has no line %s:\n%s", u.name, line, text)
			}
		}
		if u.ends && slices.Contains(lines, "WatchdogSec=180") {
			t.Errorf("%s has a watchdog, and tells it nothing", u.name)
		}
		if u.log == "" && (strings.Contains(text, "append:") || strings.Contains(text, "StandardOutput=")) {
			t.Errorf("what %s tells goes to a file that nothing bounds:\n%s", u.name, text)
		}
		if !u.ends && strings.Contains(text, "journalctl") == (u.log != "") {
			t.Errorf("%s tells to look for what it tells elsewhere:\n%s", u.name, text)
		}
	}
}

// launchd gets well-formed XML, with the names as they are.
func TestUnitOfLaunchd(t *testing.T) {
	u, _ := hardUnit(t)
	for _, j := range jobs(t, u.home) {
		u.job = j
		if j.name == "mbox-worker-ada" {
			u.name = "mbox-worker-a--da" // which no comment of XML may have
		}
		var words []string
		d := xml.NewDecoder(strings.NewReader(u.launchd()))
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if text, is := token.(xml.CharData); is && strings.TrimSpace(string(text)) != "" {
				words = append(words, string(text))
			}
		}
		at, want := slices.Index(words, "ProgramArguments"), u.words()
		if at < 0 || !slices.Equal(words[at+1:at+1+len(want)], want) || !slices.Contains(words, u.path) || !slices.Contains(words, u.name) {
			t.Errorf("launchd reads %q", words)
		}
		if again := slices.Contains(words, "KeepAlive"); again == u.ends {
			t.Errorf("%s is kept: %t", u.name, again)
		}
	}
}

// What cron hands to the shell calls the program with the names as they are.
func TestUnitOfCron(t *testing.T) {
	u, printed := hardUnit(t)
	all := jobs(t, u.home)
	for _, c := range []struct {
		job  job
		want []string
	}{
		{all[0], []string{"--home", u.home, "up"}},
		{all[3], []string{"--home", u.home, "dream", "ada"}},
		{all[4], []string{"--home", u.home, "backup", filepath.Join(u.home, "kept", "mbox-*.tar.zst")}},
	} {
		u.job = c.job
		_, line, _ := strings.Cut(u.cron(), u.times.cron+" ")
		line, _, _ = strings.Cut(line, " 2>&1 | logger")
		if strings.Contains(strings.ReplaceAll(line, `\%`, ""), "%") {
			t.Errorf("cron ends the line at a %%: %s", line)
		}
		if out, err := exec.Command("/bin/sh", "-c", strings.ReplaceAll(line, `\%`, "%")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got, err := os.ReadFile(printed)
		want := strings.Join(append(c.want, u.path), "\n") + "\n"
		if c.job.into != "" {
			got = stampPattern.ReplaceAll(got, []byte("mbox-*.tar.zst"))
		}
		if err != nil || string(got) != want {
			t.Errorf("it is called with\n%swant\n%s%v", got, want, err)
		}
	}
	if info, err := os.Stat(filepath.Join(u.home, "kept")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the backups: %v %v", info, err)
	}
}

// stampPattern is the name of a backup.
var stampPattern = regexp.MustCompile(`mbox-[0-9]{8}T[0-9]{6}\.tar\.zst`)
