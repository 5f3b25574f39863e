package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mostMemory is what mbox up may ever have resident, whatever is dropped.
const mostMemory = 64 << 20

// TestCrowd pours junk of every kind into the pending folder of a running mbox
// up, and five tasks behind it. The tasks are admitted while the junk still lies
// about, each piece of junk ends in quarantine or is rejected, with a reason,
// the process never has more than 64 MiB resident, and verify is content.
func TestCrowd(t *testing.T) {
	bin := program(t)
	s := &storm{T: t, bin: bin, dir: t.TempDir()}
	s.home = filepath.Join(s.dir, "home")
	s.must("init", "--sync", "none")
	up := s.up()
	pending := filepath.Join(s.home, "tasks", "pending")
	n := sized(1000, 10_000, 100_000)
	for i := range n {
		if err := dropJunk(pending, i); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		good := filepath.Join(pending, fmt.Sprintf("good-%d.json", i))
		if err := os.WriteFile(good+".part", []byte(`{"task":{"title":"good"}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(good+".part", good); err != nil {
			t.Fatal(err)
		}
	}
	awaitCrowd(t, "the tasks are admitted", func() bool { return len(s.admitted()) == 5 })
	if left := len(names(t, pending)) - 5; left < n/10 {
		t.Errorf("only %d of %d pieces of junk were left when the tasks were admitted", left, n)
	}
	awaitCrowd(t, "the junk is put away", func() bool { return len(names(t, pending)) == 5 })
	if most := peak(t, up.Process.Pid); most > mostMemory {
		t.Errorf("mbox up had %d KiB resident", most>>10)
	} else {
		t.Logf("%d files of junk: mbox up had at most %d KiB resident", n, most>>10)
	}
	if err := up.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); err != nil {
		t.Errorf("mbox up: %v", err)
	}
	entries := names(t, filepath.Join(s.home, "tasks", "quarantine"))
	if len(entries) != 2*n {
		t.Errorf("%d entries and reasons in quarantine for %d pieces of junk", len(entries), n)
	}
	s.must("verify")
}

// junkKinds are the texts of junk files; other kinds are made in dropJunk.
var junkKinds = []string{
	`[]`, `{"task":{}}`, `{"task":{"title":"x"},"id":"other"}`, `{"task":{"title":"x","priority":"soon"}}`,
	`{"task":{"title":"x"},"result":{"status":"completed"}}`, "\xff\xfe", `{"a":1}{"a":2}`, strings.Repeat("[", 4000),
}

func dropJunk(pending string, i int) error {
	path := filepath.Join(pending, fmt.Sprintf("junk-%d.json", i))
	switch i % 100 {
	case 11:
		return os.Symlink(filepath.Join(pending, "../../../canary"), path) // there is none
	case 22:
		return syscall.Mkfifo(path, 0o600)
	case 33:
		return os.Mkdir(path, 0o700)
	case 44:
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Truncate(1 << 40) // where the file system holds so much; else it is one of 0 bytes
	case 55:
		path = filepath.Join(pending, fmt.Sprintf("\x1b[2J\u202e%d\n.json", i))
	case 66:
		path = strings.TrimSuffix(path, ".json") + ".txt"
	}
	text := []byte(junkKinds[i%len(junkKinds)])
	switch {
	case i%100 == 77 && i < 3000:
		text = bytes.Repeat([]byte("x"), 1<<20+1)
	case i%100 == 88 && i < 1200:
		text = []byte(costlyJunk(i / 100))
	}
	return os.WriteFile(path, text, 0o600)
}

// costlyJunk are nearly 1 MiB each that are as hard as can be to refuse, and to
// save something of.
func costlyJunk(kind int) string {
	var keys, nested, values strings.Builder
	for i := 0; keys.Len() < 1<<20-2000; i++ {
		fmt.Fprintf(&keys, `"k%d":1,`, i)
	}
	for nested.Len() < 1<<20-2000 {
		nested.WriteString(strings.Repeat("[", 25) + strings.Repeat("]", 25) + ",")
	}
	values.WriteString(strings.Repeat("1,", 1<<19-1000))
	return []string{
		`{"task":{"title":"x",` + keys.String() + `"z":1}}`,
		`{"task":{},"mbox":{"labels":{` + keys.String() + `"z":1}}}`,
		`{"task":{"title":"x","priority":"soon","context":{` + keys.String() + `"z":1}}}`,
		`{` + keys.String() + `"z":1}`,
		`{"task":{"title":"x","context":{"a":[` + nested.String() + `1]}}}`,
		`{"task":{"title":"x","priority":"soon","context":{"a":[` + values.String() + `1]}}}`,
	}[kind%6]
}

// up starts mbox up and waits until it says that it serves.
func (s *storm) up() *exec.Cmd {
	s.Helper()
	up := s.command("up")
	said, err := up.StderrPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := up.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = up.Process.Kill() })
	lines := bufio.NewReader(said)
	for ready := ""; !strings.HasPrefix(ready, "mbox: ready"); {
		if ready, err = lines.ReadString('\n'); err != nil {
			s.Fatalf("mbox up said %q: %v", ready, err)
		}
	}
	go io.Copy(io.Discard, lines) //nolint:errcheck // it ends with the process
	return up
}

// admitted lists the tasks that are no drops any more.
func (s *storm) admitted() (ids []string) {
	s.Helper()
	pending := filepath.Join(s.home, "tasks", "pending")
	for i := range 5 {
		data, err := os.ReadFile(filepath.Join(pending, fmt.Sprintf("good-%d.json", i)))
		var task struct {
			ID   string `json:"id"`
			Mbox struct {
				TX string `json:"tx"`
			} `json:"mbox"`
		}
		if err == nil && json.Unmarshal(data, &task) == nil && task.Mbox.TX != "" {
			ids = append(ids, task.ID)
		}
	}
	return ids
}

// awaitCrowd looks until something holds. How long it takes is no matter; ten
// minutes are the end of a test that hangs.
func awaitCrowd(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after ten minutes", what)
		}
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	found, err := d.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// peak is the most that a process ever had resident, in bytes.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	fields := strings.Fields(rest)
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || fields[1] != "kB" {
		t.Fatalf("VmHWM: %v %v", fields[:2], err)
	}
	return kib << 10
}

// TestSparse drops a file of a terabyte, which takes no room, on a file system
// that has such files. It is put away without being read.
func TestSparse(t *testing.T) {
	bin := program(t)
	s := &storm{T: t, bin: bin, dir: diskDir(t)}
	s.home = filepath.Join(s.dir, "home")
	s.must("init", "--sync", "none")
	big := filepath.Join(s.home, "tasks", "pending", "big.json")
	if err := os.WriteFile(big, []byte(`{"task":{"title":"x"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, 1<<40); err != nil {
		t.Fatalf("no file of a terabyte in %s: %v", s.dir, err)
	}
	up := s.up()
	awaitCrowd(t, "it is put away", func() bool { _, err := os.Lstat(big); return err != nil })
	if most := peak(t, up.Process.Pid); most > mostMemory {
		t.Errorf("mbox up had %d KiB resident", most>>10)
	}
	if err := up.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); err != nil {
		t.Errorf("mbox up: %v", err)
	}
	s.must("verify")
}
