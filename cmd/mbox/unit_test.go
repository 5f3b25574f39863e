package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	u = unit{program: filepath.Join(dir, "mbox"), home: filepath.Join(dir, "agents"), path: dir + ":/usr/bin:/bin"}
	printed = filepath.Join(dir, "printed")
	show := "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$PATH\" >\"$(dirname \"$0\")/printed\"\n"
	if err := os.WriteFile(u.program, []byte(show), 0o700); err != nil {
		t.Fatal(err)
	}
	return u, printed
}

// systemd takes the unit, and finds the program by its name.
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
	for _, one := range []unit{u, {program: plain, home: "/srv/agents", path: "/usr/bin"}} {
		file := filepath.Join(t.TempDir(), "mbox.service")
		if err := os.WriteFile(file, []byte(one.systemd()), 0o600); err != nil {
			t.Fatal(err)
		}
		verify := exec.Command(tool, "verify", "--man=no", "--user", file)
		verify.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		if out, err := verify.CombinedOutput(); err != nil || strings.Contains(string(out), "mbox.service") { // it tells of others, too
			t.Errorf("systemd-analyze: %v\n%s\n%s", err, out, one.systemd())
		}
	}
}

// launchd gets well-formed XML, with the names as they are.
func TestUnitOfLaunchd(t *testing.T) {
	u, _ := hardUnit(t)
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
	at := slices.Index(words, "ProgramArguments")
	if at < 0 || !slices.Equal(words[at+1:at+5], []string{u.program, "--home", u.home, "up"}) || !slices.Contains(words, u.path) {
		t.Errorf("launchd reads %q", words)
	}
}

// What cron hands to the shell calls the program with the names as they are.
func TestUnitOfCron(t *testing.T) {
	u, printed := hardUnit(t)
	_, line, _ := strings.Cut(u.cron(), "*/5 * * * * ")
	line, _, _ = strings.Cut(line, " 2>&1 | logger")
	if strings.Contains(strings.ReplaceAll(line, `\%`, ""), "%") {
		t.Errorf("cron ends the line at a %%: %s", line)
	}
	if out, err := exec.Command("/bin/sh", "-c", strings.ReplaceAll(line, `\%`, "%")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(printed)
	if want := strings.Join([]string{"--home", u.home, "up", u.path}, "\n") + "\n"; err != nil || string(got) != want {
		t.Errorf("it is called with\n%swant\n%s%v", got, want, err)
	}
}
