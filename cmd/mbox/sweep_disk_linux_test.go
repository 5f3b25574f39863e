package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// smallDisk makes a small ext4 file system in a file, behind a loop device, and
// takes it away at the end of the test whatever happens.
func smallDisk(t *testing.T) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: root is missing: a full disk needs a loop device")
	}
	place := fastDir(t)
	image, dir := filepath.Join(place, "disk"), filepath.Join(place, "mounted")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("SKIPPED: mkfs.ext4 is missing")
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	out, err := exec.Command("losetup", "--find", "--show", image).CombinedOutput()
	if err != nil {
		t.Skipf("SKIPPED: a loop device is missing: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup --detach %s: %v: %s", device, err, out)
		}
	})
	if out, err := exec.Command("mount", "-t", "ext4", device, dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: a loop device cannot be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", dir, err, out)
		}
	})
	return dir
}

// TestFullDisk works on a disk with no room but for a few blocks, fewer or more
// each round, so that it gets full at one step of a verb after another. What is
// refused is refused with 74 and clear words, nothing that was acknowledged is
// lost, and as soon as there is room the same home works on.
func TestFullDisk(t *testing.T) {
	needSweeps(t)
	bin := program(t)
	disk := smallDisk(t)
	d := &fullDisk{
		sweepHome: &sweepHome{T: t, bin: bin, home: filepath.Join(disk, "home")}, disk: disk,
		random: rand.New(rand.NewPCG(seedOf(t), 3)), codes: map[int]int{},
	}
	d.must("init")
	rounds := sized(6, 8, 120)
	for i := range rounds {
		d.round(i)
	}
	t.Logf("%d rounds, %d acknowledged; exit codes: %v", rounds, len(d.journal), d.codes)
	if d.codes[exitIO] == 0 {
		t.Error("no command met a full disk")
	}
}

// fullDisk is a mailbox on a disk that is full now and then.
type fullDisk struct {
	*sweepHome
	disk    string
	random  *rand.Rand
	journal promises
	codes   map[int]int
	serial  int
}

// round fills the disk, works, frees the disk and looks.
func (d *fullDisk) round(i int) {
	d.Helper()
	d.serial++
	held, ready := fmt.Sprint("held-", d.serial), fmt.Sprint("ready-", d.serial)
	d.must("send", "work", "--id", held, "--to", held)
	d.must("claim", "--agent", held)
	d.must("send", "work", "--id", ready, "--to", "hand")
	d.promise("task_picked", held)
	d.promise("task_created", ready)
	ballast := d.fill(d.random.IntN(24) * 1024)
	pad := strings.Repeat("x", 1+d.random.IntN(6000))
	for j := range 3 {
		id := fmt.Sprintf("new-%d-%d", d.serial, j)
		if d.try("send", "work", "--id", id, "--to", "hand", "--description", pad) {
			d.promise("task_created", id)
		}
	}
	if d.try("progress", held, "--token", "TOKEN", "--message", "on it") {
		d.promise("task_progress", held)
	}
	if d.try("complete", held, "--token", "TOKEN", "--output", "yes") {
		d.promise("task_completed", held)
	}
	if d.try("cancel", ready) {
		d.promise("task_cancelled", ready)
	}
	d.try("decision", "new", "--context", pad, "--option", "o", "--decision", "d")
	d.try("archive", "--older-than", "0s")
	if err := os.Remove(ballast); err != nil {
		d.Fatal(err)
	}
	if d.readOnly() { // a flush of the ledger failed, and only then
		d.must("recover", "--after-io-error")
	}
	d.must("ls")
	for _, err := range []error{d.whole(), d.account(d.journal, false)} {
		if err != nil {
			d.Fatalf("round %d, with room again: %v", i, err)
		}
	}
	d.try("complete", held, "--token", "TOKEN", "--output", "yes")
	d.must("archive", "--older-than", "0s")
}

func (d *fullDisk) promise(event, id string) {
	d.journal = append(d.journal, promise{event: event, id: id})
}

// try says a command that the disk may refuse.
func (d *fullDisk) try(args ...string) (acknowledged bool) {
	d.Helper()
	r := d.run(args...)
	d.codes[r.code]++
	switch r.code {
	case exitIO:
		full := strings.Contains(r.err, syscall.ENOSPC.Error()) || strings.Contains(r.err, "as on a full disk")
		if !full && !d.readOnly() || !strings.Contains(r.err, d.home) {
			d.Errorf("mbox %s does not say what is wrong and where:\n%s", args[0], r.err)
		}
	case 0, exitCommitted, exitNotFound, exitStale:
	default:
		d.Errorf("mbox %s: exit code %d\n%s", args[0], r.code, r.err)
	}
	return r.code == 0 || r.code == exitCommitted
}

// fill takes all of the disk's room but some bytes.
func (d *fullDisk) fill(leave int) (ballast string) {
	d.Helper()
	ballast = filepath.Join(d.disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		d.Fatal(err)
	}
	defer f.Close()
	block := slices.Repeat([]byte{'.'}, 1024)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.Fatal(err)
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(max(0, info.Size()-int64(leave)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		d.Fatal(err)
	}
	return ballast
}
